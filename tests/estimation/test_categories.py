"""Fields whose values are codes are told by how many records have each of them."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from conjugate import PRIOR_SCALE, sample_regression

import bayesrecon
from bayesrecon.auditing.channels.draws import draws_finding
from bayesrecon.auditing.pointwise_arrays import counts_by_category
from bayesrecon.domains import Domain
from bayesrecon.estimation.categories import categories
from bayesrecon.estimation.statistics import Component
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.results.findings import Thresholds

pytestmark = pytest.mark.small

CLINICS = [3.0, 7.0, 8.0]
DOSES = [0.0, 0.5, 1.0, 2.0, 4.0]


def means(clinic, y):
    level = numpyro.sample("level", dist.Normal(0, PRIOR_SCALE).expand([9]).to_event(1))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(level[clinic], 1.0), obs=y)


def response(dose, y):
    variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.5))
    beta = numpyro.sample("beta", dist.Normal(0, PRIOR_SCALE * variance**0.5).expand([2]).to_event(1))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0] + dose * beta[1], variance**0.5), obs=y)


@pytest.fixture(scope="module")
def clinics():
    """What is in the data, and exact draws of the means of three of nine clinics."""
    rng = np.random.default_rng(0)
    clinic = rng.choice([3, 7, 8], 200, p=[0.6, 0.3, 0.1])
    data = {"clinic": clinic, "y": rng.normal(size=200) + clinic}
    precision = np.bincount(clinic, minlength=9) + PRIOR_SCALE**-2
    centre = np.bincount(clinic, data["y"], 9) / precision
    model = from_numpyro(means, {"clinic": (), "y": ()}, domain={"clinic": CLINICS})
    return data, from_draws({"level": rng.normal(centre, precision**-0.5, (1, 4000, 9))}, model)


@pytest.fixture(scope="module")
def doses():
    rng = np.random.default_rng(1)
    dose = rng.choice(DOSES, 200)
    data = {"dose": dose, "y": 1 + dose + rng.normal(size=200)}
    model = from_numpyro(response, {"dose": (), "y": ()}, domain={"dose": DOSES})
    return data, from_draws(sample_regression(dose[:, None], data["y"], 4000, rng), model)


def test_categories_are_counted_in_the_place_of_their_codes_mean(clinics):
    data, release = clinics
    found, truth = bayesrecon.recover(release), true_statistics(release.model, data)
    names = [row.name for row in found]
    assert names == ["n", "mean(y)", "var(y)", "n[clinic=3]", "n[clinic=7]", "n[clinic=8]"]
    for name in ("n", *names[3:]):
        row = found[name]
        assert row.verdict == "determined"
        assert 0 < row.se < 10
        assert abs(row.estimate - truth[name]) < 4 * row.se  # of four, one in 4,000
        assert row.lower < row.estimate < row.upper
    assert sum(found[name].estimate for name in names[3:]) == pytest.approx(found["n"].estimate, rel=1e-6)
    table = found.categories("clinic")
    assert table.index.tolist() == CLINICS
    assert table.loc[7.0, "count"] == found["n[clinic=7]"].estimate
    with pytest.raises(bayesrecon.BayesreconError, match="categories of 'clinics' were not counted"):
        found.categories("clinics")
    rows = {row["name"]: row for row in found.to_dict()["statistics"]}
    assert rows["n[clinic=8]"]["upper"] == found["n[clinic=8]"].upper


def test_codes_that_are_numbers_keep_their_mean_where_they_are_not_counted(doses):
    """Three sums of powers do not tell five counts: what is determined is said, and what is not as well."""
    data, release = doses
    found, truth = bayesrecon.recover(release), true_statistics(release.model, data)
    assert found["mean(dose)"].verdict == "determined"
    assert abs(found["mean(dose)"].estimate - truth["mean(dose)"]) < 4 * found["mean(dose)"].se
    assert found["cov(dose,y)"].verdict == "determined"
    counts = [row for row in found if row.name.startswith("n[")]
    assert len(counts) == len(DOSES)
    assert {row.verdict for row in counts} == {"partly", "undetermined"}
    for row in counts:
        if row.estimate is not None:
            assert 0 <= row.lower <= truth[row.name] <= row.upper


@pytest.mark.slow
def test_diagnosis_names_categories(clinics, doses):
    told = bayesrecon.diagnose(clinics[1], order=2)
    assert told["[clinic=7]*y"].verdict == "determined"
    assert all("clinic" not in f.name.replace("[clinic=", "") for f in told.features)
    other = bayesrecon.diagnose(doses[1], order=2)
    assert other["dose^2"].verdict == "determined"
    assert other["[dose=1]"].verdict == "undetermined"
    assert not any("not looked at" in warning for warning in (*told.warnings, *other.warnings))


@pytest.mark.slow
def test_bounds_count_categories(clinics):
    data, release = clinics
    found = bayesrecon.bound(release, domain={"y": (-10, 20)}, variances=False)
    assert [i.name for i in found.intervals] == ["n", *(f"n[clinic={k:g}]" for k in CLINICS), "mean(y)"]
    truth = true_statistics(release.model, data)
    for interval in found.intervals:
        assert interval.lower <= truth[interval.name] <= interval.upper


@pytest.mark.slow
def test_groups_are_counted_by_the_categories_of_another_field():
    rng = np.random.default_rng(2)
    ward, kind = rng.integers(0, 2, 300), rng.integers(1, 4, 300)

    def cells(ward, kind, y):
        level = numpyro.sample("level", dist.Normal(0, PRIOR_SCALE).expand([2, 4]).to_event(2))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(level[ward, kind], 1.0), obs=y)

    model = from_numpyro(cells, {"ward": (), "kind": (), "y": ()}, domain={"ward": [0, 1], "kind": [1, 2, 3]})
    precision = np.zeros((2, 4)) + PRIOR_SCALE**-2
    np.add.at(precision, (ward, kind), 1)
    draws = {"level": rng.normal(0, precision**-0.5, (1, 4000, 2, 4))}
    found = bayesrecon.recover(from_draws(draws, model), unit="ward")
    row = found["n[ward=1,kind=2]"]
    assert abs(row.estimate - ((ward == 1) & (kind == 2)).sum()) < 4 * row.se
    assert "mean(kind)[ward=1]" not in {row.name for row in found}
    assert list(found.units().index) == [0.0, 1.0]


def test_levels_next_to_each_other_have_names_of_their_own():
    parts = categories(Component("zip"), Domain("levels", levels=(1000001.0, 1000002.0, 0.5)))
    assert [part.name for part in parts] == ["[zip=1000001]", "[zip=1000002]", "[zip=0.5]"]
    values = np.array([0.5, 1000002.0, 0.5])
    assert [part.values({"zip": values}).sum() for part in parts] == [0, 1, 2]
    assert not categories(Component("y"), Domain("levels", levels=(0.0, 1.0)))
    assert not categories(Component("y"), Domain("levels", levels=tuple(range(501))))


def test_counts_of_records_that_were_solved_for_one_by_one():
    clear, codes = np.zeros(3, bool), np.array([2.0, 1.0, 2.0])
    items = counts_by_category("clinic", [1.0, 2.0], codes, clear)
    assert [(i.name, i.estimate, i.se) for i in items] == [("n[clinic=1]", 1.0, 0.0), ("n[clinic=2]", 2.0, 0.0)]
    assert counts_by_category("clinic", [1.0], codes, ~clear)[0].se is None


def test_an_audit_says_how_well_categories_are_counted(clinics):
    found = draws_finding(bayesrecon.recover(clinics[1]), None, Thresholds())
    assert "3 categories of clinic counted to ± " in found.summary
    item = next(item for item in found.evidence if item.name == "n[clinic=8]")
    assert item.lower < item.estimate < item.upper


def test_groups_of_many_records_are_no_single_units(clinics):
    recovery = bayesrecon.recover(clinics[1], unit="clinic")
    found = draws_finding(recovery, "clinic", Thresholds())
    assert found.severity == "low"
    assert found.summary.startswith("totals of 3 groups (clinic), the smallest of at least ")
    assert not any(item.person for item in found.evidence)
    few = draws_finding(recovery, "clinic", Thresholds(small_count=10_000))
    assert (few.severity, few.title) == ("high", "the draws give the records of single units (clinic)")
