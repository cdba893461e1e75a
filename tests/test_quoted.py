"""Numbers on pages come from the rows that benchmarks measured: none is typed."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
QUOTED = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks/quoted.py")))

CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.-])-?\d[\d,]*(?:\.\d+(?: ?%)?|(?:e-?\d+)| ?%)")
CHOSEN = re.compile(r"(?:<!-- not measured -->)|(?:,? (?:Clopper-Pearson )?(?:intervals?|bounds?|bands?)\b)")
"""What follows a number that somebody chose: a level of intervals, or anything that a comment calls so."""


def named(path):
    return path.relative_to(ROOT).as_posix()


def unsourced(text):
    """Numbers with decimals or percent signs in prose, behind which there is no row."""
    text = CODE.sub(lambda code: " " * len(code[0]), text)
    text = QUOTED.QUOTED.sub("", text)
    return [match[0] for match in NUMBER.finditer(text) if not CHOSEN.match(text, match.end())]


@pytest.mark.parametrize("page", QUOTED.PAGES, ids=named)
def test_quoted_numbers_are_those_of_their_rows(page):
    text = page.read_text(encoding="utf-8")
    assert QUOTED.filled(text) == text, "python benchmarks/quoted.py"


@pytest.mark.parametrize("page", QUOTED.PAGES, ids=named)
def test_every_number_has_a_row(page):
    """Measured ones are quoted; of others a comment says that they are `not measured`, but for levels of intervals."""
    assert unsourced(page.read_text(encoding="utf-8")) == []
