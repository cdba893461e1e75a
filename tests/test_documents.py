"""What the repository's pages say of themselves: links lead somewhere, code is run, the README stays short."""

import re
import runpy
from pathlib import Path

import pytest

import bayesrecon

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```python(.*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_BY = {
    "README.md": "tests/test_examples.py",
    "CONTRIBUTING.md": "tests/test_contributing.py",
    "docs/add_an_attack.md": "tests/attacks/test_conformance.py",
    "docs/beyond_one_machine.md": "tests/test_examples.py",
    "docs/deletion_games.md": "tests/games/test_page.py",
    "docs/jax_0_10.md": "tests/test_libraries.py",
    "docs/may_i_publish.md": "tests/test_examples.py",
    "docs/saved_models.md": "tests/test_examples.py",
    "docs/stan_programs.md": "tests/models/stan/test_page.py",
    "docs/outputs.md": "tests/auditing/test_outputs_page.py",
    "docs/trained_models_and_deletions.md": "tests/test_examples.py",
    "docs/vicious_classifiers.md": "tests/games/vicious/test_page.py",
}
"""Who runs the blocks that `.ci/docs` does not execute."""

NEEDS_MORE = {
    "docs/networks.md": "a network of one's own",
    "docs/pymc_and_bambi.md": "PyMC, and data of one's own",
    "docs/roles/modeller.md": "a trace and a model of one's own",
}
"""Blocks that are fragments, and what they lack."""


def named(path):
    return path.relative_to(ROOT).as_posix()


def prose(text):
    """Without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(path):
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{named(page)}: {target}"
        assert not anchor or anchor in anchors(there), f"{named(page)}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_of_python_is_run(page):
    """By the build of the site, which takes errors for errors, or by a test that names the page."""
    left = [block for options, block in FENCE.findall(page.read_text(encoding="utf-8")) if 'exec="on"' not in options]
    name = named(page)
    if name in RUN_BY:
        assert left, f"{name} has no block any more that a test would run"
        assert page.name in (ROOT / RUN_BY[name]).read_text(encoding="utf-8")
    elif name in NEEDS_MORE:
        assert left
        assert all(compile(block, name, "exec") for block in left)
    else:
        assert left == [], f"{name}: nobody runs this block"


def test_every_page_is_in_the_site():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        where = page.relative_to(ROOT / "docs").as_posix()
        assert where in listed + (ROOT / "docs/hooks.py").read_text(encoding="utf-8"), where


def test_the_readme_is_short():
    assert README.count("\n") <= 100
    screen = "".join(README.splitlines(keepends=True)[:32])  # problem, picture, two commands, a file of one's own
    assert re.search(r"give away.*<img .*bayesrecon demo.*pytest.*audit posterior", screen, re.DOTALL)
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert [command.count("\n") for command in commands[:2]] == [1, 1]  # the demonstration, the tests


def test_the_readme_on_an_index_has_no_broken_links():
    text = runpy.run_path(str(ROOT / "setup.py"))["standalone"](README)
    assert re.findall(r"\]\((?!https?://)", text) == []
    assert "<img" not in text
    assert "## Responsible use" in text


def test_the_citation_is_of_this_version():
    assert f"\nversion: {bayesrecon.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
