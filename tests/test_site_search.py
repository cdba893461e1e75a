"""Search of the site in a real browser, from a folder: hits, and no request to anybody."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import browser
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser: apt-get install chromium"),
]


@pytest.fixture
def site(tmp_path):
    """Two pages with the settings of this site, but for what executes code."""
    pytest.importorskip("material", reason="the extra bayesrecon[docs] is not installed")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    keep = ("site_name", "use_directory_urls", "theme", "extra", "extra_css")
    plain = {key: settings[key] for key in keep} | {
        "plugins": [p for p in settings["plugins"] if p in ("search", "offline")]
    }
    (tmp_path / "docs").mkdir()
    shutil.copytree(ROOT / "docs/theme", tmp_path / "docs/theme")
    (tmp_path / "docs/index.md").write_text("# Home\n\nNothing of note.\n")
    (tmp_path / "docs/birds.md").write_text("# Birds\n\nThe kingfisher sits on its branch.\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(plain))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return tmp_path / "site"


@pytest.mark.parametrize(("word", "found"), [("kingfisher", ["birds.html"]), ("heron", [])])
def test_search_from_a_folder(site, word, found, tmp_path):
    shown, requests = browser.visit(site / "index.html", f"?q={word}", tmp_path)
    assert "Initializing search" not in shown
    hits = re.findall(r'href="[^"]*?(\w+\.html)[^"]*" class="md-search-result__link"', shown)
    assert list(dict.fromkeys(hits)) == found
    assert requests == []
