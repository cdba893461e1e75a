"""Records between releases: pairs, triples, groups, and tables that have nothing to do with each other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.attacks.differences.released import grams_of
from bayesrecon.attacks.differences.search import of_members, search
from bayesrecon.domains import Domain
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell
from benchmarks.tables import differences

sm = pytest.importorskip("statsmodels.api")

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


def audited(*tables, **options):
    return bayesrecon.audit([frame for frame, _ in tables], "ols", **options)


def found(audit):
    return next(f for f in audit if f.kind == "difference of releases")


def grams(*tables):
    """The Gram matrices of tables with correlations."""
    return [
        grams_of(from_table(frame, "ols", correlations=matrix, name=str(i))) for i, (frame, matrix) in enumerate(tables)
    ]


def holds(one, *values):
    return bool((np.abs(one.estimate - values) <= one.half).all())


ALL, FIRST_GONE = slice(None), slice(1, None)


def test_the_person_between_two_tables_is_named():
    finding = found(audited(table(FIRST_GONE), table(ALL), domain={"age": (0, 120)}))
    assert finding.severity == "high"
    assert "differ by one record and nothing else" in finding.summary
    assert "if a value of another record was corrected as well" in finding.summary
    n, age, y = finding.evidence
    assert (n.lower, n.upper) == (1, 1)
    assert age.lower <= X[0, 0] <= age.upper < age.lower + 0.05
    assert y.lower <= Y[0] <= y.upper < y.lower + 0.05
    errors = [remedy.measured for remedy in finding.remedies if remedy.measured is not None]
    assert len(errors) > 1
    assert errors == sorted(errors)


def test_the_sign_of_a_mean_follows_from_both_tables():
    age = found(audited(table(ALL), table(FIRST_GONE), remedies=False)).evidence[1]
    assert age.lower <= X[0, 0] <= age.upper


def test_a_response_that_was_corrected_is_not_named():
    changed = Y.copy()
    changed[5] += 3.0
    audit = audited(table(ALL), table(FIRST_GONE, response=changed), remedies=False, domain={"age": (0, 120)})
    _, age = found(audit).evidence
    assert age.lower <= X[0, 0] <= age.upper
    assert "the totals of y differ by more" in found(audit).summary


def test_tables_without_a_relation_say_what_was_tried():
    audit = audited(table(slice(0, 45)), table(slice(45, 89)), remedies=False, domain={"age": (0, 120)})
    assert (found(audit).severity, found(audit).title) == ("info", "no relation found between the releases")
    assert found(audit).summary.startswith("1 pair and 0 triples of 2 releases have nearly as many records")


@pytest.mark.parametrize("rows", [ALL, slice(0, 89)])
def test_other_units_are_refused_by_name(rows):
    audit = audited(table(rows, response=1000 * Y), table(FIRST_GONE), remedies=False, domain={"age": (0, 120)})
    (refused,) = (n for n in audit.not_run if "units" in n.reason)
    assert refused.reason.startswith("y has other units in table 1 than in table 2")


def test_totals_that_are_not_determined_are_listed():
    audit = audited(table(ALL, (0, 1)), table(FIRST_GONE, (0, 1)), remedies=False)
    assert any("totals of the records are not determined by table 1, table 2" in n.reason for n in audit.not_run)


def test_a_covariate_more_leaves_the_shared_totals():
    (one,) = search(grams(table(FIRST_GONE, (0, 1)), table(ALL))).found
    assert (one.whole, one.parts, one.fields) == ("1", ("0",), ("age", "y"))
    assert holds(one, X[0, 0], Y[0])


def test_another_response_leaves_the_covariates():
    other = np.random.default_rng(0).normal(size=90)
    (one,) = search(grams(table(ALL, (0, 1)), table(FIRST_GONE, (0, 1), response=other))).found
    assert holds(one, *X[0])


def test_two_groups_and_their_union():
    (one,) = search(grams(table(slice(1, 40)), table(ALL), table(slice(40, None)))).found
    assert (one.whole, one.parts, one.count) == ("1", ("0", "2"), 1)
    assert holds(one, X[0, 0], Y[0])


def test_several_records_have_totals_alone():
    (one,) = search(grams(table(ALL, (0, 1)), table(slice(3, None), (0, 1)))).found
    assert one.count == 3
    assert holds(one, *X[:3].mean(axis=0), Y[:3].mean())


def test_whole_numbers_leave_one_possibility_for_several_records():
    rounded = np.round(Y)
    (one,) = search(grams(*(table(rows, (0, 1), 6, rounded) for rows in (ALL, slice(2, None))))).found
    only = one.only_values(lambda name: Domain("integer") if name == "y" else Domain())
    assert only == {"age": (), "weight": (), "y": tuple(sorted(rounded[:2]))}
    assert one.only_values(lambda name: Domain("integer", 0, 1))["y"] == ()


def test_unrelated_tables_have_no_relation():
    result = search(grams(table(slice(0, 45)), table(slice(45, 89)), table(slice(45, 90))))
    assert [result.pairs, result.as_many] == [2, 1]
    assert {(one.whole, one.parts) for one in result.found} == {("2", ("1",))}


@pytest.mark.parametrize("columns", [(0,), (0, 1)])
def test_both_records_of_an_exchange_are_named(columns):
    releases = grams(*(table(rows, columns) for rows in (slice(0, 89), slice(1, 90), ALL)))
    *_, one, other = search(releases).found
    assert (one.whole, one.parts, one.exchanged) == ("0", ("1",), True)
    assert (other.whole, other.parts, other.exchanged) == ("1", ("0",), True)
    assert holds(one, *X[0, list(columns)], Y[0])
    assert holds(other, *X[89, list(columns)], Y[89])


def test_a_value_that_was_corrected_is_an_exchange_of_one_record():
    changed = Y.copy()
    changed[5] += 3.0
    audit = audited(table(ALL), table(ALL, response=changed), remedies=False, domain={"age": (0, 120)})
    before, after = (f for f in audit if f.kind == "difference of releases")
    assert "was exchanged or corrected in table 2 and no other was" in before.summary
    for finding, response in ((before, Y[5]), (after, changed[5])):
        for item, true in zip(finding.evidence[1:], (X[5, 0], response), strict=True):
            assert item.lower <= true <= item.upper < item.lower + 0.5


def test_the_same_records_are_no_exchange():
    result = search(grams(table(ALL, (0, 1)), table(ALL), table(ALL, digits=5)))
    assert (result.found, result.as_many) == ((), 3)


def test_a_single_field_that_differs_tells_no_exchange_and_is_listed():
    age, weight, others = table(ALL), table(ALL, (1,)), table(slice(0, 89), (1,))
    assert search(grams(age, weight)).one_field == ()
    assert search(grams(table(FIRST_GONE), others)).one_field == (("0", "1"),)


def test_an_exchange_is_found_although_a_field_was_corrected():
    changed = Y.copy()
    changed[5] += 3.0
    one, other = search(grams(table(slice(0, 89), (0, 1)), table(FIRST_GONE, (0, 1), response=changed))).found
    assert (one.disagrees, other.disagrees) == (("y",), ("y",))
    assert holds(one, *X[0])
    assert holds(other, *X[89])


def fit(rows, columns=(0, 1)):
    """The same regression as an object of statsmodels."""
    names = ["const", *(("age", "weight")[k] for k in columns)]
    design = pd.DataFrame(np.column_stack([np.ones(len(X[rows])), X[rows][:, list(columns)]]), columns=names)
    return sm.OLS(pd.Series(Y[rows], design.index, name="y"), design).fit()


@pytest.mark.slow
def test_a_table_and_a_fit_of_a_library_are_compared_on_what_they_share():
    audit = bayesrecon.audit([table(ALL)[0], fit(FIRST_GONE)], "ols", domain={"age": (0, 120)}, remedies=False)
    finding = found(audit)
    assert (finding.severity, finding.where) == ("high", ("table 1", "OLS"))
    assert [item.name for item in finding.evidence] == ["n", "age", "y"]
    assert finding.evidence[1].estimate == pytest.approx(X[0, 0], abs=0.01)


def test_recover_of_releases_that_differ_gives_what_is_between():
    rows = bayesrecon.recover([fit(ALL), fit(FIRST_GONE)])
    assert [row.name for row in rows] == [f"{f}(OLS (1) less OLS (2))" for f in ("n", "age", "weight", "y")]
    for row, true in zip(list(rows)[1:], [*X[0], Y[0]], strict=True):
        assert row.lower <= true <= row.upper
    assert "differ by one record and nothing else" in rows.warnings[0]


def test_exact_releases_of_other_records_are_not_pooled():
    with pytest.raises(bayesrecon.BayesreconError, match=r"contradict each other on n: 45 and 90"):
        bayesrecon.recover([fit(ALL), fit(slice(0, 45))])


MEMBERS = {"north": ["a", "b"], "0": ["north", "c", "rest"], "1": ["a"], "2": ["b", "c"]}


def test_a_group_follows_from_a_combination_if_the_membership_is_stated():
    releases = [grams(table(rows, (0, 1)))[0][0] for rows in (ALL, slice(1, 30), slice(30, 90))]
    named = [replace(one, name=str(i)) for i, one in enumerate(releases)]
    ((group, one),) = of_members(named, MEMBERS)
    assert (group, one.whole, one.parts, one.count) == ("rest", "0", ("2", "1"), 1)
    assert holds(one, *X[0], Y[0])


@pytest.mark.parametrize(
    ("contains", "message"),
    [
        ({"0": ["0"]}, "0 contains itself"),
        ({"0": ["a", "a"]}, "0 contains a twice"),
        ({"other": ["a"]}, "names none of the releases"),
    ],
)
def test_a_membership_that_cannot_be_is_refused(contains, message):
    with pytest.raises(bayesrecon.BayesreconError, match=message):
        of_members([replace(grams(table(ALL))[0][0], name="0")], contains)


def posterior(rows):
    """Mean and covariance of slope and intercept, for errors of variance one."""
    z = np.column_stack([X[rows, 0], np.ones(len(X[rows]))])
    covariance = np.linalg.inv(z.T @ z)
    return covariance @ z.T @ Y[rows], covariance


@pytest.mark.slow
def test_draws_hide_single_records_and_say_so():
    rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")

    def draws(rows):
        b = rng.multivariate_normal(*posterior(rows), (4, 500))
        return bayesrecon.posteriors.from_draws({"coef": b[..., None, :1], "intercept": b[..., 1:]}, model)

    finding = found(bayesrecon.audit([draws(ALL), draws(FIRST_GONE)], remedies=False))
    assert (finding.severity, finding.title) == ("info", "draws hide single records from differences")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["full rank", "mean field"])
def test_variational_fits_are_compared_on_what_they_determine(family):
    model = bayesrecon.models.load("linear_predictor")

    def fitted(rows):
        mean, covariance = posterior(rows)
        if family == "mean field":  # at its optimum, precisions are those of the conditional distributions
            covariance = np.diag(1 / np.diag(np.linalg.inv(covariance)))
        return bayesrecon.posteriors.gaussian(model, mean, covariance, fit=family)

    audit = bayesrecon.audit([fitted(ALL), fitted(FIRST_GONE)], remedies=False)
    if family == "full rank":
        age = next(item for item in found(audit).evidence if item.name.startswith("x"))
        assert age.lower <= X[0, 0] <= age.upper < age.lower + 0.1
    else:
        assert any("totals of the records are not determined" in n.reason for n in audit.not_run)


@pytest.mark.slow
@pytest.mark.parametrize("covariates", [1, 4])
def test_intervals_hold_the_person_as_often_as_they_say(covariates):
    nested = differences.measured("nested", covariates, 100)
    assert nested["named"] >= 90
    assert nested["first"] >= 0.9 * nested["named"]  # 95 % less 2.3 standard errors
    slight = differences.measured("slightly corrected", covariates, 100)
    assert slight["second"] >= 0.9 * slight["named"]
    corrected = differences.measured("corrected", covariates, 100)
    assert corrected["second"] >= 0.9 * corrected["named"] > 80
    assert differences.unrelated(covariates, 5)["named"] == 0


@pytest.mark.slow
def test_who_is_named_although_another_was_exchanged_is_within_the_second_interval():
    exchanged = differences.measured("exchanged", 1, 600)
    assert exchanged["second"] >= 0.9 * exchanged["named"] > 5
