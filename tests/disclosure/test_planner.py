"""The release planner: predicted against measured errors."""

import dataclasses

import numpy as np
import pytest
from conjugate import regression_model, sample_regression
from parts import slow_then_large

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.results.plan import Outlook, Plan


def blocks(release, size, count):
    for start in range(0, count * size, size):
        rows = slice(start, start + size)
        yield dataclasses.replace(
            release, theta=release.theta[rows], weights=np.full(size, 1 / size), chain=np.ones(size, int)
        )


@pytest.mark.parametrize("size, count", slow_then_large((1000, 10), (100, 100)))
def test_planned_error_of_thinner_releases(database, size, count):
    """Predicted against measured over disjoint blocks of the reference draws, all statistics together."""
    release = from_posteriordb("kidiq-kidscore_momiq")
    plan = bayesrecon.plan(release, draws=(size,), digits=(), summaries=False)
    whole = bayesrecon.recover(release)
    ratios = [
        (row.estimate - whole[row.name].estimate) / plan[row.name].se[size]
        for block in blocks(release, size, count)
        for row in bayesrecon.recover(block)
    ]
    assert 0.75 < np.sqrt(np.mean(np.square(ratios))) < 1.25


@pytest.mark.slow
@pytest.mark.large
def test_planned_error_of_ten_thousand_exact_draws():
    """Predicted from 10,000 exact draws, measured on 40 independent sets of as many."""
    rng = np.random.default_rng(2)
    x = rng.normal(3, 2, (60, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)
    model = regression_model()
    truth = true_statistics(model, {"x": x, "y": y})
    release = from_draws(sample_regression(x, y, 10_000, rng), model)
    plan = bayesrecon.plan(release, draws=(10_000,), digits=(), summaries=False)
    ratios = [
        (row.estimate - truth[row.name]) / plan[row.name].se[10_000]
        for _ in range(40)
        for row in bayesrecon.recover(from_draws(sample_regression(x, y, 10_000, rng), model))
    ]
    assert 0.75 < np.sqrt(np.mean(np.square(ratios))) < 1.25


@pytest.mark.slow
def test_planned_effect_of_rounding(database, monkeypatch):
    """Rounding moves the estimates as predicted from the full draws alone, unless it is made good for."""
    release = from_posteriordb("kidiq-kidscore_momiq")
    honest = bayesrecon.plan(release, draws=(1000,), digits=(1, 3, 6), summaries=False)
    for outlook in honest.outlooks:
        assert outlook.shift[3] == 0
        assert outlook.shift[1] != 0  # the loss of precision is too large
    monkeypatch.setattr("bayesrecon.estimation.rounding.Rounding.correctable", False)
    plan = bayesrecon.plan(release, draws=(1000,), digits=(3, 6), summaries=False)
    beta, sigma = np.asarray(release.theta)[:, :2], np.exp(np.asarray(release.theta)[:, 2])
    cut = np.vectorize(lambda v: float(f"{v:.3g}"))
    rounded = dataclasses.replace(release, theta=np.column_stack([cut(beta), np.log(cut(sigma))]))
    whole = bayesrecon.recover(release)
    for row in bayesrecon.recover(rounded):
        moved = row.estimate - whole[row.name].estimate
        assert moved == pytest.approx(plan[row.name].shift[3], rel=0.25)
        assert abs(plan[row.name].shift[6]) < 0.01 * row.se


@pytest.mark.slow
def test_draws_for_a_precision(database):
    plan = bayesrecon.plan(from_posteriordb("kidiq-kidscore_momiq"), digits=(), summaries=False)
    few = plan.most_draws("n", precision=44)
    assert 80 < few < 160
    assert plan.most_draws("n", precision=22) > 3 * few
    with pytest.raises(bayesrecon.BayesreconError, match="precision"):
        plan.most_draws("n", precision=0)
    assert "se @ 1000 draws" in plan.to_dataframe().columns
    equal = plan.as_protective("n", 100)
    assert equal["draws"] == plan.most_draws("n", plan["n"].sanitised[100])
    assert 100 < equal["draws"] < 1000
    with pytest.raises(bayesrecon.BayesreconError, match="planned for a worth of 100, 300"):
        plan.as_protective("n", 7)


@pytest.mark.slow
@pytest.mark.large
def test_summaries_are_planned_beside_draws(tmp_path):
    """A mode with its covariance at full precision leaves nothing open, digits widen its bounds, moments are draws."""
    rng = np.random.default_rng(4)
    x = rng.normal(3, 2, (400, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 400)
    release = from_draws(sample_regression(x, y, 4000, rng), regression_model())
    plan = bayesrecon.plan(release, draws=(400, 4000), digits=(3, 5))
    assert not plan.warnings
    for name in ("n", "mean(y)", "var(y)"):
        found = plan[name]
        assert found.moments[4000] == pytest.approx(found.se[4000], rel=0.2)
        assert found.moments[400] == pytest.approx(found.moments[4000] * np.sqrt(10))
        assert found.mode[15] < 1e-6 * found.mode[5]
        assert 30 < found.mode[3] / found.mode[5] < 300
        assert found.mode[5] < 0.1 * found.half_width(4000)
        assert found.variational[15] < 1e-6 * found.estimate
        assert found.variational[3] == pytest.approx(found.mode[3], rel=0.1)
    assert plan["n"].mean_field[15] < 1e-6 * 400
    assert 0.3 < plan["n"].mean_field[3] < 40
    assert plan["mean(y)"].mean_field == {3: None, 5: None, 15: None}  # five totals of six
    names = [text.get_text() for text in plan.plot().get_yticklabels()]
    assert names[0] == "400 draws"
    assert names[-2:] == ["sanitised, worth 400 draws", "sanitised, worth 4,000 draws"]
    assert names[-6:-2] == ["full-rank fit: all digits", *(f"mean-field fit: {k} digits" for k in (3, 5, "all"))]


def test_what_nothing_is_said_of_stands_apart():
    outlook = Outlook("n", 100.0, {100: 12.0}, {}, {100: None}, {3: 2.0, 15: 0.0}, {15: None})
    ax = Plan("survey", 100, (outlook,)).plot()
    at = ax.lines[0].get_xdata()
    assert at[1] == at[4] == max(ax.get_xlim())
    assert at[3] == min(ax.get_xlim())
    assert {text.get_text() for text in ax.texts} == {"exact", "not determined"}


@pytest.mark.slow
def test_sanitised_draws_are_planned_by_their_worth():
    """As many draws leave about the same error, which is what a worth is."""
    rng = np.random.default_rng(0)
    values = {"coef": rng.normal(2, 0.1, (2, 2000, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 2000, 1))}
    release = bayesrecon.posteriors.from_draws(values, bayesrecon.models.load("linear_predictor"))
    plan = bayesrecon.plan(release, draws=(50, 100, 400), digits=(), summaries=False)
    assert list(plan["n"].sanitised) == [100, 400]
    for worth, error in plan["n"].sanitised.items():  # where a cap makes it smaller, by less than half
        assert 0.5 < error / plan["n"].se[worth] < 1.2
    assert "se @ sanitised, worth 100" in plan.to_dataframe().columns
    assert "sanitised, worth 100 draws" in [text.get_text() for text in plan.plot().get_yticklabels()]


@pytest.mark.slow
def test_sixty_releases_share_a_budget(tmp_path):
    """What the plan says is what the ledger then allows."""
    rng = np.random.default_rng(0)
    values = {"coef": rng.normal(2, 0.1, (2, 500, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 500, 1))}
    release = bayesrecon.posteriors.from_draws(values, bayesrecon.models.load("linear_predictor"))
    options = {"draws": (100,), "digits": (), "summaries": False, "ledger": tmp_path / "ledger.json"}
    series = bayesrecon.plan(release, releases=60, **options).series
    assert (series.each, series.budget, series.needed) == (series.least, 60 * series.least, 60 * series.least)
    plan = bayesrecon.plan(release, releases=60, budget=9050, **options)
    assert (plan.series.each, plan.series.apart) == (150, 9050)
    assert plan["n"].sanitised[9000] < plan["n"].sanitised[150] / 5  # all of them together
    few = bayesrecon.plan(release, releases=60, budget=3000, **options).series
    assert few.each is None
    assert "30 of them fit, worth 100 each; all need budget=6000" in few.sentence
    assert not list(tmp_path.iterdir())
    bayesrecon.sanitise(release, worth=150, budget=9050, ledger=options["ledger"])
    left = bayesrecon.plan(release, releases=59, **options).series
    assert (left.spent, left.each) == (150, 150)
    for wrong in ({"releases": 0}, {"budget": 300}, {"releases": 2, "account": ""}):
        with pytest.raises(bayesrecon.BayesreconError):
            bayesrecon.plan(release, **wrong, **options)
