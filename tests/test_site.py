"""The site: what its hooks make of commands, measurements and tables, and that no page scrolls sideways."""

import html
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import browser
import pytest
import yaml

from bayesrecon.cli.main import SHOWN

ROOT = Path(__file__).resolve().parent.parent

pytest.importorskip("mkdocs", reason="the extra bayesrecon[docs] is not installed")
HOOKS = runpy.run_path(str(ROOT / "docs/hooks.py"))


def test_every_command_and_option_is_on_the_page():
    page = HOOKS["commands"]()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(SHOWN)
    for option in ("`--response`", "`--domain`", "`--details`", "`--draws-per-chain`", "`FILES`"):
        assert option in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert all(re.sub(r"\\\|", "", row).count("|") == 4 for row in rows)


def test_every_measurement_is_in_the_index():
    page = HOOKS["measurements"]()
    for path in (ROOT / "benchmarks").rglob("*.md"):
        assert f"({path.relative_to(ROOT).as_posix()})" in page
    assert not re.search(r"\| {2,}\|\n", page)  # each has a sentence


def test_cells_of_wide_tables_know_their_column():
    cells = "".join(f"<td>{i}</td>" for i in range(4))
    heads = "".join(f'<th style="x">{name}</th>' for name in ("a", "<b>b</b>", '"c"', "d"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    made = HOOKS["on_page_content"](table, None, None, None)
    assert re.findall(r'data-label="(.*?)"', made) == ["a", "b", "&quot;c&quot;", "d"]
    narrow = table.replace('<th style="x">d</th>', "")
    assert HOOKS["on_page_content"](narrow, None, None, None) == narrow


PAGES = (
    *("index", "roles/steward", "roles/modeller", "commands", "faq", "limits", "measured", "benchmark_pages"),
    *("benchmarks/COMPLIANCE", "benchmarks/DELETION"),
)
FRAME = """<!DOCTYPE html><body><pre id="seen"></pre><iframe width="{width}" height="1400" src="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => setTimeout(() => {{
  const page = frame.contentDocument, root = page.documentElement;
  const boxes = [...page.querySelectorAll(".md-typeset__scrollwrap, .language-sh code")];
  document.getElementById("seen").textContent = JSON.stringify({{
    beyond: root.scrollWidth - root.clientWidth,
    boxes: boxes.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className),
  }});
}}, 300);
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages as they are, without what executes code and without the API, which takes minutes."""
    pytest.importorskip("material", reason="the extra bayesrecon[docs] is not installed")
    out = tmp_path_factory.mktemp("site")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    plugins = [p for p in settings["plugins"] if p in ("search", "offline")]
    where = {"docs_dir": str(ROOT / "docs"), "site_dir": str(out / "site"), "hooks": [str(ROOT / "docs/hooks.py")]}
    (out / "mkdocs.yml").write_text(yaml.safe_dump({**settings, **where, "plugins": plugins, "strict": False}))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", str(out / "mkdocs.yml")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, check=True, timeout=300, env=quiet, capture_output=True)
    return out / "site"


@pytest.mark.slow
@pytest.mark.skipif(browser.PROGRAM is None, reason="no browser: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", PAGES)
def test_no_page_scrolls_sideways(site, page, width, tmp_path):
    """Neither the page, nor a table or a command within it."""
    (tmp_path / "frame.html").write_text(FRAME.format(width=width, page=(site / f"{page}.html").as_uri()))
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files")
    more = ("--virtual-time-budget=8000", "--window-size=1400,1500", f"--user-data-dir={tmp_path / 'profile'}")
    asked = [browser.PROGRAM, *flags, *more, "--dump-dom", (tmp_path / "frame.html").as_uri()]
    shown = subprocess.run(asked, capture_output=True, text=True, timeout=120).stdout
    (seen,) = re.findall(r'<pre id="seen">(.+?)</pre>', shown)
    assert json.loads(html.unescape(seen)) == {"beyond": 0, "boxes": []}
