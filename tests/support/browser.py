"""A page looked at in a real browser, without a window: Debian's chromium, or Chrome."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
_FRAME = """<!DOCTYPE html><body><pre id="seen"></pre><iframe width="{width}" height="2000" srcdoc="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter(e => !e.closest(".scroll, .plot") &&
    e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.tagName);
  document.getElementById("seen").textContent = JSON.stringify({{
    headings: [...page.querySelectorAll("h1, h2, h3")].map(e => e.textContent.trim()),
    width: root.clientWidth, scroll: root.scrollWidth, wide: wide,
    errors: [...page.querySelectorAll("tr")].map(e => e.innerText),
    smallest: Math.min(...[...page.querySelectorAll("td")].map(e => parseFloat(getComputedStyle(e).fontSize))),
    plots: [...page.querySelectorAll("svg")].map(e => e.getBoundingClientRect().height),
  }});
}};
</script>"""


@dataclass(frozen=True)
class Seen:
    """What a browser shows: `page` as the script above measures it, its console's lines, addresses it asked for."""

    page: dict
    console: list[str]
    requests: list[str]


def look(page: str, width: int, folder: Path) -> Seen:
    """The page in a frame of that width."""
    frame, log = folder / f"frame{width}.html", folder / f"net{width}.json"
    frame.write_text(_FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
    done = _run(
        folder, "--virtual-time-budget=4000", "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom", frame
    )
    seen = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
    assert seen, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(json.loads(html.unescape(seen[1])), console, sorted(_asked_by_pages(log)))


def _asked_by_pages(log: Path) -> set[str]:
    """Addresses that a page asked for: what the browser wants for itself has no origin."""
    events = [event.get("params", {}) for event in json.loads(log.read_text(errors="replace"))["events"]]
    return {
        event["url"]
        for event in events
        if event.get("initiator", "not an origin") != "not an origin"
        and re.match(r"(https?|wss?|ftp):", event.get("url", ""))
    }


def visit(page: Path, query: str, folder: Path) -> tuple[str, list[str]]:
    """A file as a browser has it after its scripts ran, and the addresses that it asked for."""
    log = folder / "net.json"
    shown = _run(folder, "--virtual-time-budget=8000", f"--log-net-log={log}", "--dump-dom", page, query=query).stdout
    return shown, sorted(_asked_by_pages(log))


def screenshot(page: Path, width: int, target: Path) -> None:
    """A picture of a page."""
    _run(target.parent, f"--window-size={width},1600", "--hide-scrollbars", f"--screenshot={target}", page)


def _run(folder: Path, *arguments: object, query: str = "") -> subprocess.CompletedProcess[str]:
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    quiet += ("--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}")
    *options, page = map(str, arguments)
    command = [str(PROGRAM), *quiet, *options, Path(page).as_uri() + query]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
