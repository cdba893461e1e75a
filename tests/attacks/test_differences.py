"""Records between releases: pairs, triples, groups, and tables that have nothing to do with each other."""

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.posteriors.printed.numbers import cell
from benchmarks.tables import differences

RNG = np.random.default_rng(4)
X = RNG.normal(50, 9, (90, 2)) @ np.array([[1.0, 0.3], [0.0, 0.4]])
Y = 20 + X @ [0.5, 0.2] + RNG.normal(0, 5, 90)


def table(rows, columns=(0,), digits=6, response=Y):
    """A printed regression of some records, and the correlations of its estimates."""
    z, y = np.column_stack([np.ones(len(X[rows])), X[rows][:, list(columns)]]), response[rows]
    b, (n, p) = np.linalg.lstsq(z, y, rcond=None)[0], z.shape
    s, inverse = np.sqrt(((y - z @ b) ** 2).sum() / (n - p)), np.linalg.inv(z.T @ z)
    size = np.sqrt(np.diag(inverse))
    lines = [[cell(one, digits), cell(error, digits)] for one, error in zip(b, s * size, strict=True)]
    names = ["const", *(("age", "weight")[k] for k in columns)]
    frame = pd.DataFrame([*lines, [cell(s, digits), ""], [str(n), ""]], [*names, "sigma", "N"], ["coef", "se"])
    r = inverse / np.outer(size, size)
    matrix = [["1" if i == j else f"{r[i, j]:.{digits}f}" for j in range(p)] for i in range(p)]
    return frame, pd.DataFrame(matrix, names, names)


def audited(tables, related=False, **options):
    frames, matrices = zip(*tables, strict=True)
    correlations = list(matrices) if related else None
    return bayesrecon.audit(list(frames), "ols", correlations=correlations, remedies=False, **options)


def found(audit):
    return next(f for f in audit if f.kind == "difference of tables")


def holds(finding, **values):
    items = {item.name: item for item in finding.evidence}
    return all(items[name].lower <= value <= items[name].upper for name, value in values.items())


ALL, FIRST_GONE = slice(None), slice(1, None)


def test_the_person_between_two_tables_is_named():
    audit = bayesrecon.audit([table(FIRST_GONE)[0], table(ALL)[0]], "ols", domain={"age": (0, 120)})
    finding = found(audit)
    assert finding.severity == "high"
    assert "differ by one record and nothing else" in finding.summary
    assert "if a value of another record was corrected as well" in finding.summary
    assert holds(finding, n=1, age=X[0, 0], y=Y[0])
    age = next(item for item in finding.evidence if item.name == "age")
    assert age.upper - age.lower < 0.05
    errors = [remedy.measured for remedy in finding.remedies if remedy.measured is not None]
    assert len(errors) > 1
    assert errors == sorted(errors)


def test_the_sign_of_a_mean_follows_from_both_tables():
    assert holds(found(audited([table(ALL), table(FIRST_GONE)])), age=X[0, 0], y=Y[0])


def test_nobody_is_named_if_a_value_was_corrected():
    changed = Y.copy()
    changed[5] += 3.0
    tables = [table(ALL), table(FIRST_GONE, response=changed)]
    assert found(audited(tables, domain={"age": (0, 120)})).severity == "info"


def test_a_covariate_more_leaves_the_shared_totals():
    finding = found(audited([table(ALL), table(FIRST_GONE, (0, 1))], related=True))
    assert finding.severity == "high"
    assert holds(finding, age=X[0, 0], y=Y[0])


def test_two_groups_and_their_union():
    audit = audited([table(slice(1, 40)), table(ALL), table(slice(40, None))], related=True)
    finding = found(audit)
    assert finding.where == ("table 2", "table 1", "table 3")
    assert holds(finding, n=1, age=X[0, 0], y=Y[0])


def test_several_records_have_totals_alone():
    finding = found(audited([table(ALL), table(slice(3, None))], related=True))
    assert finding.severity == "medium"
    named = {f"mean({name}) of the 3 records": v for name, v in (("age", X[:3, 0].mean()), ("y", Y[:3].mean()))}
    assert holds(finding, n=3, **named)


def test_unrelated_tables_are_told_so():
    finding = found(audited([table(slice(0, 40)), table(slice(40, 79))], related=True))
    assert (finding.severity, finding.title) == ("info", "no relation found between the tables")
    assert finding.summary.startswith("1 pairs and 0 triples of 2 tables")


def test_other_units_are_refused_by_name():
    audit = audited([table(ALL, response=1000 * Y), table(FIRST_GONE)], related=True)
    (refused,) = (n for n in audit.not_run if "units" in n.reason)
    assert refused.reason.startswith("y has other units in table 1 than in table 2")


@pytest.mark.slow
@pytest.mark.parametrize("covariates", [1, 4])
def test_intervals_hold_the_person_as_often_as_they_say(covariates):
    nested = differences.measured("nested", covariates, 200)
    assert nested["named"] >= 190
    assert nested["first"] >= 0.91 * nested["named"]
    slight = differences.measured("slightly corrected", covariates, 200)
    assert slight["second"] >= 0.9 * slight["named"]
    assert differences.measured("corrected", covariates, 100)["named"] <= 3
    assert differences.unrelated(covariates, 5)["named"] == 0
