"""Values of people are in no report unless it is asked for, by whatever route they came into it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from r_written import FIXTURES

import bayesrecon
from bayesrecon.auditing.wording import items
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors.tables import read_table
from bayesrecon.results.row import Row

PATIENTS = read_table(str(FIXTURES / "patients.csv"))
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")


def digits(text):
    return len(text.lower().split("e")[0].replace(".", "").strip("-0"))


def values_of(table):
    """Numbers of at least four digits, and texts of columns with many of them."""
    found = set()
    for column in map(np.ravel, table.values()):
        if column.dtype.kind in "iuf":
            found |= {f"{v:.6g}" for v in column.tolist() if digits(f"{v:.6g}") >= 4}
        elif len({*map(str, column)}) > 20:
            found |= {str(v) for v in column if len(str(v)) >= 4}
    assert len(found) > 20
    return found


def quoted(text, table):
    held = values_of(table)
    numbers = {n for n in NUMBER.findall(text) if digits(n) >= 4 and f"{float(n):.6g}" in held}
    return numbers | {word for word in held if not NUMBER.fullmatch(word) and word in text}


RNG = np.random.default_rng(5)
AGES = np.round(RNG.normal(55, 12, 30), 2)
OWN = {"age": AGES, "id": np.array([f"P{n:05d}" for n in RNG.choice(10**5, 30, replace=False)])}
MU = RNG.normal(size=(2, 50))


def own(where):
    return {
        "constant": {"mu": MU, "x": np.ones((2, 50, 1)) * AGES},
        "combination": {"a": MU, "b": MU[::-1], "m": MU[..., None] + MU[::-1][..., None] * AGES},
        "scalars": {"mu": MU, **{f"x{k}": np.full((2, 50), v) for k, v in enumerate(AGES)}},
        "cycle": {"mu": MU, "x": np.resize(AGES[:20], (2, 50))},
        "a name": {"mu": MU, f"x_{AGES[0]}": MU + 1},
    }[where]


@pytest.mark.parametrize("data", [None, OWN], ids=["alone", "with the table"])
@pytest.mark.parametrize("where", ["constant", "combination", "scalars", "cycle", "a name"])
def test_no_value_of_arrays_is_told(where, data):
    found = bayesrecon.audit(own(where), data=data, rows="draws", remedies=False)
    assert not quoted(json.dumps(found.told().to_dict()), OWN)


@pytest.mark.parametrize("data", [None, PATIENTS], ids=["alone", "with the table"])
@pytest.mark.parametrize("name", ["rpart", "coxph", "function"])
def test_no_value_of_an_object_is_told(name, data):
    found = bayesrecon.audit(FIXTURES / f"{name}.rds", data=data, remedies=False)
    assert found.severity == "high"
    assert quoted(json.dumps(found.told(True).to_dict()), PATIENTS)
    assert not quoted(json.dumps(found.told().to_dict()), PATIENTS)
    assert not quoted(str(found), PATIENTS)


def test_reports_have_none_either(run):
    text = run("audit", FIXTURES / "rpart.rds", "--html", "report.html", "--no-remedies")
    page = re.sub(r"<svg.*?</svg>", "", Path("report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "leaves" in page
    for told in (page, text.out, text.err):
        assert not quoted(told, PATIENTS)


def test_statistics_of_a_single_person_are_values():
    rows = [
        Row("n[g=b]", 1.0, 0.0),
        Row("mean(y)[g=b]", 41.73, 0.0),
        Row("n[g=a]", 9.0, 0.0),
        Row("mean(y)", 55.1, 0.0),
    ]
    assert [item.person for item in items(rows)] == [False, True, False, False]


def test_errors_quote_none():
    table = {"mom_iq": OWN["id"], "kid_score": AGES}
    with pytest.raises(BayesreconError) as refused:
        bayesrecon.audit({"beta": np.zeros((2, 50, 2)), "sigma": MU**2}, load("kidscore_momiq"), data=table)
    assert not quoted(str(refused.value), OWN)
