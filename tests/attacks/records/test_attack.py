"""Individual records: the structured solve against the dense one, decoding against enumeration, real posteriors."""

import dataclasses
import itertools

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesrecon
from bayesrecon import BayesreconError
from bayesrecon.attacks.records.decode import decode
from bayesrecon.attacks.records.rows import make_rows
from bayesrecon.attacks.records.slots import make_slots
from bayesrecon.attacks.records.system import _disagreement, _solve, make_system, units_of
from bayesrecon.diagnostics import calibration_table
from bayesrecon.evaluate import calibration_error, score_records
from bayesrecon.kernels.metric import metric_factor
from bayesrecon.kernels.score import feature_gradients
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_numpyro, load
from bayesrecon.models.registry import find
from bayesrecon.posteriors import from_draws, from_posteriordb, nuts
from bayesrecon.posteriors.database import open_database, read_data
from bayesrecon.precision import x64
from bayesrecon.types import Release


def answers(persons, items):
    """A two-parameter item response model: an ability a person, a slope and a difficulty an item."""

    def program(person, item, y=None):
        ability = numpyro.sample("ability", dist.Normal(0, 1).expand((persons,)).to_event(1))
        slope = numpyro.sample("slope", dist.LogNormal(0, 0.4).expand((items,)).to_event(1))
        hard = numpyro.sample("hard", dist.Normal(0, 1).expand((items,)).to_event(1))
        logits = slope[item - 1] * (ability[person - 1] - hard[item - 1])
        with numpyro.plate("records", person.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)

    levels = {"person": list(range(1, persons + 1)), "item": list(range(1, items + 1)), "y": "binary"}
    return from_numpyro(program, {"person": (), "item": (), "y": ()}, domain=levels, name="answers")


def design(persons, items):
    person, item = np.meshgrid(np.arange(1, persons + 1), np.arange(1, items + 1))
    return {"person": person.ravel(), "item": item.ravel()}


def drawn(model, known, rng):
    """Answers from the model at parameters drawn from its prior."""
    with x64():
        params = {p.name: rng.normal(size=p.shape) for p in model.parameters}
        params["slope"] = np.exp(0.4 * params["slope"])
        start = {**known, "y": np.zeros(len(known["person"]), int)}
        return np.asarray(model.simulate(params, start, jax.random.key(int(rng.integers(1000))))["y"])


@pytest.fixture(scope="module")
def loose():
    """Draws that belong to no data: what is checked holds for any."""
    model, rng = answers(4, 3), np.random.default_rng(1)
    theta = rng.normal(0, 0.3, (60, model.dimension))
    return Release(theta, np.full(60, 1 / 60), np.zeros(60, int), None, model)


def parts(release, known):
    knowledge = check_knowledge(release.model, known=known, unit=("person", "item"))
    unknown = {k: f for k, f in knowledge.fields.items() if k not in knowledge.known}
    rows = make_rows(release, knowledge.known, unknown, np.random.default_rng(0))
    metric = metric_factor(release, None)
    return rows, metric, make_slots(release.model, np.asarray(release.theta), metric, rows.pairs())


def test_structured_kernel_is_the_dense_one(loose):
    """Colours, products per coordinate and sweeps give what full gradients and Hessians give, with the metric that
    holds each group of parameters given all others: abilities one by one, slope and difficulty of an item together."""
    with x64():
        rows, metric, slots = parts(loose, design(4, 3))
        assert slots.width == 3
        system = make_system(loose, slots, rows.base(), rows.pairs())
        model, precision = loose.model, np.linalg.inv(metric @ metric.T)
        sigma = np.zeros((10, 10))
        for own in [[i] for i in range(4)] + [[4 + i, 7 + i] for i in range(3)]:
            sigma[np.ix_(own, own)] = np.linalg.inv(precision[np.ix_(own, own)])
        gradients = np.stack([np.asarray(feature_gradients(model, t, rows.pairs())) for t in loose.theta])  # (T, M, d)
        np.testing.assert_allclose(
            system.gram, np.einsum("tnd,de,tme->nm", gradients, sigma, gradients) / 60, rtol=1e-10, atol=1e-12
        )

        def feature(t, known, base, other):
            return model.log_lik(t, {**known, **other}) - model.log_lik(t, {**known, **base})

        def base_posterior(t):
            own = jax.vmap(model.log_lik, (None, 0))(t, rows.base())
            return own.sum() + model.log_prior(t) + model.log_det(t)

        hessian = jax.jit(jax.vmap(jax.hessian(feature), (None, 0, 0, 0)))
        score = jax.jit(jax.grad(base_posterior))
        target = np.zeros(12)
        for t, g in zip(loose.theta, gradients, strict=True):
            target -= np.einsum("de,mde->m", sigma, hessian(t, *rows.pairs())) + g @ sigma @ np.asarray(score(t))
        np.testing.assert_allclose(system.target, target / 60, rtol=1e-9, atol=1e-10)
        # The influence averages to nothing at the solution, row by row.
        influence = system.influence(np.eye(12))
        np.testing.assert_allclose(influence.mean(axis=0), 0, atol=1e-7 * np.abs(influence).max())


def test_shared_coordinates_are_conditioned_on():
    """With more rows than coordinates a parameter that every row touches takes no part."""

    def program(group, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand((3,)).to_event(1))
        scale = numpyro.sample("scale", dist.Normal(0, 1))
        with numpyro.plate("records", group.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=np.e**scale * effect[group - 1]), obs=y)

    model = from_numpyro(program, {"group": (), "y": ()}, domain={"group": [1, 2, 3], "y": "binary"})
    rng = np.random.default_rng(0)
    known = {"group": np.tile([1, 2, 3], 3)}
    release = Release(rng.normal(size=(50, 4)), np.full(50, 0.02), np.zeros(50, int), None, model)
    with x64():
        knowledge = check_knowledge(model, known=known)
        unknown = {"y": knowledge.fields["y"]}
        for repeat, left_out in ((1, 1), (0, 0)):
            few = {"group": known["group"] if repeat else np.array([1, 2, 3])}
            rows = make_rows(release, few, unknown, rng)
            slots = make_slots(model, np.asarray(release.theta), metric_factor(release, None), rows.pairs())
            assert slots.left_out == left_out
            assert slots.width == (1 if left_out else 2)


def test_features_that_say_the_same_are_solved_for_once():
    """Items of two and three categories: the third value of a binary item, given an odds of nothing, has the gradient
    of its second. Solved for both of them, the two coordinates add up to the one of the row."""
    model = load("gpcm_latent_reg_irt", persons=5, covariates=0, steps=(1, 2, 1))
    rng = np.random.default_rng(5)
    theta = rng.normal(0, 0.3, (80, model.dimension))
    release = Release(theta, np.full(80, 1 / 80), np.zeros(80, int), None, model)
    person, item = np.meshgrid(np.arange(1, 6), np.arange(1, 4))
    with x64():
        rows, _, slots = parts(release, {"person": person.ravel(), "item": item.ravel()})
        assert rows.distinct.tolist() == [[True, bool(i == 2)] for i in item.ravel()]
        system = make_system(release, slots, rows.base(), rows.pairs())
        twice = dataclasses.replace(rows, distinct=np.ones_like(rows.distinct))
        first = np.repeat(np.flatnonzero(np.nonzero(rows.distinct)[1] == 0), 2)
        slots = dataclasses.replace(slots, index=slots.index[first])  # the same metric
        both = make_system(release, slots, rows.base(), twice.pairs()).solution.reshape(-1, 2)
    found, three = rows.padded(system.solution), item.ravel() == 2
    np.testing.assert_allclose(both[~three].sum(axis=1), found[~three, 0], rtol=1e-6)
    # Of three categories partial credit shows the score of a row and how often each was given, not which row's.
    np.testing.assert_allclose(both[three] @ [1, 2], found[three] @ [1, 2], rtol=1e-6)
    np.testing.assert_allclose(both[three].sum(axis=0), found[three].sum(axis=0), rtol=1e-6)


def test_the_halves_of_the_draws_tell_the_noise(loose):
    """Their solutions differ by twice the noise of the whole."""
    with x64():
        rows, _, slots = parts(loose, design(4, 3))
        whole, first, second = (
            make_system(release, slots, rows.base(), rows.pairs())
            for release in (loose, loose.take(np.arange(30)), loose.take(np.arange(30, 60)))
        )
    np.testing.assert_allclose(whole.disagreement, (first.solution - second.solution) / 2, rtol=1e-6)


def test_the_halves_where_the_kernel_has_low_rank():
    rng = np.random.default_rng(2)
    tall = rng.normal(size=(40, 5)) * 10.0 ** rng.uniform(-3, 3, (40, 1))
    first, second = (tall @ np.diag(rng.uniform(0.5, 1, 5)) @ tall.T for _ in range(2))
    at, rest = first @ rng.normal(size=40), second @ rng.normal(size=40)
    gram = first + second
    expected = gram @ (_solve(first, at)[0] - _solve(second, rest)[0]) / 2
    found = _disagreement(gram, at + rest, _solve(gram, at + rest)[1], first.copy(), at, 0.5)
    np.testing.assert_allclose(gram @ found, expected, atol=1e-8 * np.abs(expected).max())


def test_errors_wider_than_the_guess_determine_nothing():
    """y_j ~ Normal(effect_j, 1) with effects of sd 0.1: a draw tells y_j to ten standard deviations, 4,000 to 0.16."""

    def program(unit, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 0.1).expand((8,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit - 1], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(1, 9))})
    rng, known = np.random.default_rng(6), {"unit": np.arange(1, 9)}
    y = rng.normal(size=8)
    for size, seen in ((40, False), (4000, True)):
        draws = y / 101 + rng.normal(size=(size, 8)) / np.sqrt(101)
        release = Release(draws, np.full(size, 1 / size), np.zeros(size, int), None, model)
        table = bayesrecon.reconstruct(release, known=known, unit="unit")
        column = table["y"]
        assert np.isfinite(column.estimate).all() == seen
        assert set(column.verdict) == {"determined" if seen else "undetermined"}
        assert any("own spread" in w for w in table.warnings) != seen
        if seen:
            assert score_records(table, {"y": y})["y"]["rmse"] < 0.3
            # The mean of independent draws is normal: nothing better is possible.
            np.testing.assert_allclose(column.floor, np.sqrt(101 / size), rtol=0.05)
            np.testing.assert_allclose(column.se, column.floor, rtol=0.05)
            gained = np.log2(np.hypot(1, column.se) / column.se)  # and what the guess is off, in its own spread
            np.testing.assert_allclose(column.bits(), gained + 0.72 * (column.estimate - column.naive) ** 2, rtol=0.3)


def test_a_record_that_stands_out_is_shown():
    """25 where the model says 0 +- 1, from draws that tell a record to +- 1.2; others are not told from the guess."""

    def program(unit, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 0.1).expand((8,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit - 1], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(1, 9))})
    y = np.array([25.0, -1, 0, 1, 0, -1, 2, 0])
    draws = y / 101 + np.random.default_rng(0).normal(size=(40, 8)) / np.sqrt(101)
    release = Release(draws, np.full(40, 1 / 40), np.zeros(40, int), None, model)
    table = bayesrecon.reconstruct(release, known={"unit": np.arange(1, 9)}, unit="unit")
    assert table["y"].se[0] > table["y"].naive_sd[0]
    assert (np.isfinite(table["y"].estimate) == (y == 25)).all()
    assert table.exposure().index[0] == 1
    # Records that are not shown are not right.
    assert score_records(table, {"y": y})["y"]["exact"] <= 1 / 8


def test_a_category_that_an_item_lacks_hides_nothing():
    model = load("gpcm_latent_reg_irt", persons=5, covariates=0, steps=(1, 2, 1))
    theta = np.random.default_rng(5).normal(0, 0.3, (80, model.dimension))
    release = Release(theta, np.full(80, 1 / 80), np.zeros(80, int), None, model)
    person, item = np.meshgrid(np.arange(1, 6), np.arange(1, 4))
    known = {"person": person.ravel(), "item": item.ravel()}
    table = bayesrecon.reconstruct(release, known=known, unit=("person", "item"))
    np.testing.assert_allclose(table["y"].visibility, 1)
    assert not any("one by one" in w for w in table.warnings)
    assert table.unknowns == 20


def test_features_that_differ_at_few_draws_are_kept():
    """Two categories whose odds part only where the parameter exceeds 2, at a few draws in a hundred."""

    def program(unit, y=None):
        a = numpyro.sample("a", dist.Normal(0, 1).expand((4,)).to_event(1))[unit - 1]
        logits = jax.numpy.stack([0 * a, a, a + jax.nn.softplus(20 * (a - 2))], axis=1)
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Categorical(logits=logits), obs=y)

    domain = {"unit": [1, 2, 3, 4], "y": [0, 1, 2]}
    model = from_numpyro(program, {"unit": (), "y": ()}, domain=domain)
    theta = np.random.default_rng(0).normal(size=(2000, 4))
    release = Release(theta, np.full(2000, 1 / 2000), np.zeros(2000, int), None, model)
    knowledge = check_knowledge(model, known={"unit": np.arange(1, 5)}, unit="unit")
    with x64():
        rows = make_rows(release, knowledge.known, {"y": knowledge.fields["y"]}, np.random.default_rng(0))
    assert rows.distinct.all()


@pytest.fixture(scope="module")
def counted():
    """Counts with rates from a thousandth to 30, and one whose rate does not move with its parameter."""

    def program(unit, expected, exponent, y=None):
        a = numpyro.sample("a", dist.Normal(0, 1).expand((6,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Poisson(expected * jax.numpy.exp(exponent * a[unit - 1])), obs=y)

    record = {"unit": (), "expected": (), "exponent": (), "y": ()}
    model = from_numpyro(program, record, domain={"unit": list(range(1, 7))})
    known = {
        "unit": np.arange(1, 7),
        "expected": np.array([0.001, 0.001, 0.3, 3, 30, 5]),
        "exponent": np.array([1.0, 1, 1, 1, 1, 0]),
    }
    y = np.array([0, 1, 1, 4, 25, 11])
    # Parameters are independent, so that each is drawn from its posterior on a fine grid.
    rng, grid = np.random.default_rng(0), np.linspace(-8, 8, 8001)
    log_density = (
        np.multiply.outer(y * known["exponent"], grid)
        - known["expected"][:, None] * np.exp(np.multiply.outer(known["exponent"], grid))
        - grid**2 / 2
    )
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    a = [rng.choice(grid, 4000, p=p / p.sum()) + rng.uniform(-1e-3, 1e-3, 4000) for p in density]
    release = from_draws({"a": np.transpose(a)[None]}, model)
    return known, y, bayesrecon.reconstruct(release, known=known, unit="unit")["y"]


def test_a_count_that_the_model_does_not_expect_is_determined(counted):
    _, y, column = counted
    assert (column.verdict[:5] == "determined").all()
    assert (column.value[:5] == y[:5]).all()
    assert column.bits()[1] > 6  # a case where a thousandth was expected
    # The guess is the law of the count, not what is left of it in the values that are looked at.
    assert column.prior[4] == pytest.approx(scipy.stats.poisson.pmf(25, 25), rel=0.1)


def test_a_count_of_which_nothing_is_seen_has_the_law_of_the_model(counted):
    _, _, column = counted
    assert column.verdict[5] == "undetermined"
    assert column.value[5] in (4, 5)
    assert column.probability[5] == pytest.approx(scipy.stats.poisson.pmf(5, 5), abs=0.01)
    assert column.bits()[5] == pytest.approx(0, abs=0.05)


def test_a_kernel_of_low_rank_is_solved_on_what_it_determines():
    rng = np.random.default_rng(2)
    tall = rng.normal(size=(40, 5)) * 10.0 ** rng.uniform(-3, 3, (40, 1))
    gram = tall @ tall.T
    target = gram @ rng.normal(size=40)
    solution, visible, solve = _solve(gram, target)
    unit = units_of(gram)
    np.testing.assert_allclose(gram @ solution, target, atol=1e-8 * np.abs(target).max())
    np.testing.assert_allclose(visible.T @ visible, np.eye(5), atol=1e-12)
    span = np.linalg.qr(tall / unit[:, None])[0]
    np.testing.assert_allclose(visible @ visible.T, span @ span.T, atol=1e-9)
    # Of least norm in these units, and linear in the right-hand side.
    np.testing.assert_allclose(span @ (span.T @ (solution * unit)), solution * unit, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(solve(np.stack([target, 2 * target], axis=1))[:, 1], 2 * solution)


def test_probabilities_are_those_of_enumeration():
    """Expectation propagation against the sum over all 2^8 tables of a correlated system."""
    rng = np.random.default_rng(3)
    n = 8
    root = rng.normal(size=(n, 40))
    precision = 0.4 * root @ root.T / 4
    truth = rng.integers(0, 2, n)
    solution = truth + np.linalg.cholesky(np.linalg.inv(precision)) @ rng.normal(size=n)
    candidates = np.tile([[0.0], [1.0]], (n, 1, 1))
    log_prior = np.log(rng.dirichlet([3, 3], n))
    found = decode(precision, solution, candidates, log_prior)
    tables = np.array(list(itertools.product([0, 1], repeat=n)))
    gap = tables - solution
    energy = -0.5 * np.einsum("kn,nm,km->k", gap, precision, gap) + sum(log_prior[i, tables[:, i]] for i in range(n))
    weight = np.exp(energy - energy.max())
    exact = (weight[:, None] * tables).sum(axis=0) / weight.sum()
    assert np.abs(found[:, 1] - exact).max() < 0.06
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_two_coordinates_a_row_and_padding():
    """Rows of two features with different numbers of legal values; without noise the true ones have probability one."""
    rng = np.random.default_rng(4)
    candidates = rng.normal(size=(5, 4, 2))
    log_prior = np.zeros((5, 4))
    log_prior[2, 3] = -np.inf
    truth = candidates[np.arange(5), [0, 1, 2, 3, 0]]
    found = decode(1e6 * np.eye(10), truth.ravel(), candidates, log_prior)
    assert found.argmax(axis=1).tolist() == [0, 1, 2, 3, 0]
    assert found.max(axis=1).min() > 0.999
    assert found[2, 3] == 0


def test_values_that_differ_by_rounding_are_the_same():
    """A direction in which the candidates move by rounding alone must not be taken for one of their distances."""
    rng, n = np.random.default_rng(0), 40
    candidates = np.zeros((n, 3, 2))
    candidates[:, 1, 0] = 1
    candidates[:, 2] = 1 / 3
    candidates += 2e-9 * rng.normal(size=candidates.shape)
    truth = rng.integers(0, 2, n)
    solution = candidates[np.arange(n), truth].ravel()
    root = rng.normal(size=(2 * n, 2 * n))
    root[1::2] = 0  # nothing is seen of the second coordinate
    found = decode(50 * root @ root.T, solution, candidates, np.tile(np.log([0.6, 0.39, 0.01]), (n, 1)))
    assert (found.argmax(axis=1) == truth).all()


def test_calibration_counts_every_bin():
    stated, right = np.array([0.55, 0.95, 0.95, 1.0]), np.array([True, True, False, True])
    assert [n for _, _, n in calibration_table(stated, right)] == [1, 3]
    assert calibration_error(stated, right) == pytest.approx((0.45 + abs(2.9 - 2)) / 4)


def test_eight_schools(database):
    release = from_posteriordb("eight_schools-eight_schools_noncentered")
    data = read_data(open_database(), "eight_schools")
    known = {"school": np.arange(1, 9), "sigma": np.asarray(data["sigma"], float)}
    table = bayesrecon.reconstruct(release, known=known, unit="school")
    truth = {"y": np.asarray(data["y"], float)}
    score = score_records(table, truth)["y"]
    assert score["rmse"] <= 0.45
    assert score["exact"] >= 7 / 8
    assert score["chance"] <= 1 / 2**7
    assert score["z_sd"] < 1.5
    assert score["naive_rmse"] > 8
    assert (np.abs(table["y"].estimate - truth["y"]) < 3 * table["y"].se).all()
    # The two schools that the model expects least, in units of their own spread, are the most exposed ones.
    assert set(table.exposure().index[:2]) == {1, 7}
    assert table.to_dict()["records"][0]["verdict"] == "determined"
    whole = bayesrecon.reconstruct(release, known=known, unit="school", domain={"y": "integer"})
    # Two schools lie half-way between whole numbers for their error, and their probabilities say so.
    right = whole["y"].value == truth["y"]
    assert right.mean() >= 6 / 8
    assert whole["y"].probability[~right].max() < 0.7
    assert whole["y"].probability[right].max() > 0.8
    axes = whole.plot(truth=truth)
    assert axes.shape == (1, 2)
    assert axes[0, 1].get_xlabel() == "stated probability"


def test_records_on_the_command_line(database, run, tmp_path):
    data = read_data(open_database(), "eight_schools")
    lines = ["school,sigma", *(f"{i + 1},{s}" for i, s in enumerate(data["sigma"]))]
    (tmp_path / "design.csv").write_text("\n".join(lines))
    name = "eight_schools-eight_schools_noncentered"
    done = run("reconstruct", name, "--known", "design.csv", "--unit", "school", "--out", "y.csv", "--json")
    assert done.code == 0
    import json

    records = json.loads(done.out)["records"]
    assert len(records) == 8
    assert records[0]["estimate"] == pytest.approx(28, abs=3)
    assert (tmp_path / "y.csv").read_text().count("\n") == 9
    assert run("reconstruct", name, "--known", "design.csv", "--unit", "school", "--out", "y.nc").code == 2
    assert "most exposed" in run("reconstruct", name, "--known", "design.csv", "--unit", "school").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known": {"person": [1, 1], "item": [1, 1]}, "unit": ("person", "item")}, "its known values repeat"),
        ({"known": {"person": [1, 2]}, "unit": ("person", "item")}, "must be one of the known fields"),
        ({"known": {"person": [1], "item": [1], "y": [1]}, "unit": "person"}, "nothing is left to recover"),
        ({"known": {"person": [1], "item": [1]}, "unit": "person", "n": 3}, "n= has no part"),
    ],
)
def test_bad_input(loose, options, message):
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.reconstruct(loose, **options)


def test_units_that_several_fields_name_belong_to_reconstruct(loose):
    with pytest.raises(BayesreconError, match="several fields together name a record in `reconstruct`"):
        bayesrecon.recover(loose, known=design(4, 3), unit=("person", "item"))


def test_a_trained_parameter_has_no_records(loose):
    point = dataclasses.replace(loose, temperature=0.0)
    with pytest.raises(BayesreconError, match="SingleRecords takes posterior draws"):
        bayesrecon.reconstruct(point, known=design(4, 3), unit=("person", "item"))


@pytest.fixture(scope="module")
def answered():
    """40 persons, 12 items: a posterior of their answers, and answers that it has never seen."""
    model, rng = answers(40, 12), np.random.default_rng(7)
    known = design(40, 12)
    y, other = drawn(model, known, rng), drawn(model, known, rng)
    release = nuts(model, {**known, "y": y}, chains=4, draws=1000, warmup=500, key=2)
    return known, y, other, bayesrecon.reconstruct(release, known=known, unit=("person", "item"))


@pytest.mark.slow
def test_answers_of_persons(answered):
    known, y, _, table = answered
    score = score_records(table, {"y": y})["y"]
    assert score["exact"] > 0.99
    assert score["exact"] > score["naive_exact"] + 0.1
    assert score["calibration"] < 0.03
    assert 0.85 < score["z_sd"] < 1.15
    assert score["coverage"] > 0.9
    assert len(table) == len(known["person"]) == table.unknowns
    assert table.exposure("person").index.nunique() == 40


@pytest.mark.slow
def test_draws_of_other_data_say_nothing(answered):
    """Null: against answers that the posterior has never seen, agreement is that of two unrelated tables."""
    _, y, other, table = answered
    value = table["y"].value
    chance = np.mean(value) * np.mean(other) + (1 - np.mean(value)) * (1 - np.mean(other))
    # Two-sided, one in 100,000 under chance; unrelated persons and items leave some dependence between answers.
    width = scipy.stats.norm.isf(5e-6) * np.sqrt(0.25 / len(other)) * 2
    assert abs(np.mean(value == other) - chance) < width
    assert abs(np.mean(value == other) - np.mean(y == other)) < 0.02


@pytest.mark.slow
def test_surgical_deaths(database):
    """Twelve hospitals: all deaths exact with the operations known; with their number unknown, both recovered."""
    data = find("surgical_model").records(read_data(open_database(), "surgical_data"))
    release = nuts(load("surgical_model"), data, chains=4, draws=2500, thinning=3, target_accept=0.9, key=1)
    known = {"hospital": data["hospital"], "n": data["n"]}
    table = bayesrecon.reconstruct(release, known=known, unit="hospital")
    score = score_records(table, data)["r"]
    assert score["exact"] == 1
    assert table["r"].probability.min() > 0.9
    free = bayesrecon.reconstruct(release, known={"hospital": data["hospital"]}, unit="hospital")
    found = score_records(free, data)
    # Without the number of operations the model says nothing of deaths by itself.
    assert free["r"].naive is None
    assert np.isfinite(free["r"].estimate).all()
    assert found["r"]["z_sd"] < 2
    assert found["n"]["z_sd"] < 2


@pytest.mark.slow
def test_counties_are_counted(database):
    """Radon in 85 counties, nothing known but their number: records per county from the draws alone."""
    name = "radon_variable_intercept_noncentered"
    data = read_data(open_database(), "radon_mn")
    records = find(name).records(data)
    release = nuts(load(name, **find(name).constants(data)), records, chains=4, draws=2500, target_accept=0.9, key=0)
    table = bayesrecon.recover(release, unit="county").units()
    true = np.array([(records["county"] == c).sum() for c in table.index])
    assert (table["n_rounded"] == true).mean() >= 0.85
    assert scipy.stats.spearmanr(table["n_rounded"], true).statistic >= 0.995
    assert ((table["n"] - true) / table["n_se"]).std() < 1.3
    sums = np.array([records["log_radon"][records["county"] == c].sum() for c in table.index])
    assert ((table["sum(log_radon)"] - sums) / table["sum(log_radon)_se"]).std() < 1.4
