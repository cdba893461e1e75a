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
LIBRARY = r"(?:Python|JAX|PyMC|ArviZ|Bambi|NumPyro|NumPy|SciPy|scikit-learn|matplotlib|Zensical|`zensical-ui`)"
VERSIONS = re.compile(LIBRARY + r" \d[\d.]*(?:(?:, |,? and |,? to |,? or )\d[\d.]*)*|\b\d+\.\d+\.\d+\b")
REPORTS = {
    "docs/supported_versions.md": "written by .ci/pythons",
    "docs/jax_0_10.md": "a report on versions of JAX that cannot be had together",
}
"""Pages whose numbers no benchmark has, and why."""

CITED = re.compile(r"(?:Theorems?|Propositions?|Sections?|Figures?|Tables?) \d+\.\d+(?:,? (?:and )?\d+\.\d+)*")
"""Numbers of theorems and figures of a paper."""

CHOSEN = re.compile(r"(?:<!-- not measured -->)|(?:,? (?:Clopper-Pearson )?(?:intervals?|bounds?|bands?)\b)")
"""What follows a number that somebody chose: a level of intervals, or anything that a comment calls so."""


def named(path):
    return path.relative_to(ROOT).as_posix()


def unsourced(text):
    """Numbers with decimals or percent signs in prose, behind which there is no row."""
    text = CODE.sub(lambda code: " " * len(code[0]), text)
    text = CITED.sub("", VERSIONS.sub("", QUOTED.QUOTED.sub("", text)))
    return [match[0] for match in NUMBER.finditer(text) if not CHOSEN.match(text, match.end())]


@pytest.mark.parametrize("page", QUOTED.PAGES, ids=named)
def test_quoted_numbers_are_those_of_their_rows(page):
    text = page.read_text(encoding="utf-8")
    assert QUOTED.filled(text) == text, "python benchmarks/quoted.py"


@pytest.mark.parametrize("page", QUOTED.PAGES, ids=named)
def test_every_number_has_a_row(page):
    """Measured ones are quoted; of others a comment says that they are `not measured`, but for levels of intervals."""
    assert named(page) in REPORTS or unsourced(page.read_text(encoding="utf-8")) == []


def test_a_typed_number_and_a_stale_one_are_found():
    row = "density > law=Laplace > ratios > * > most()"
    quoted = f"at most 9.9<!-- {row} --> and 98 %<!-- not measured -->, with 95 % intervals"
    assert unsourced(quoted) == []
    assert unsourced(f"{quoted}; 0.977 on digits, 88 % of them, `0.5` and 1e-8") == ["0.977", "88 %", "1e-8"]
    assert QUOTED.filled(quoted) == quoted.replace("9.9", f"{QUOTED.value_at(row):.1f}")


@pytest.mark.parametrize(
    "row", ["density > law=none > ratios > * > most()", "density > law=Laplace > n", "density > 0"]
)
def test_a_row_is_one_number(row):
    with pytest.raises((LookupError, ValueError)):
        QUOTED.value_at(row)
