from dataclasses import replace

import conjugate
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import summaries
from answered import answers, design, drawn
from numpyro.infer import MCMC, NUTS

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro, load, tempered
from bayesrecon.posteriors import from_arviz, from_draws, gaussian
from bayesrecon.posteriors.fitting.nuts import save_draws
from bayesrecon.precision import x64

RNG = np.random.default_rng(11)
Y = RNG.normal(2.0, 1.0, 60)


def tempered_mean(y, power, draws, rng):
    precision = power * len(y) + conjugate.PRIOR_SCALE**-2
    return {"theta": rng.normal(power * y.sum() / precision, precision**-0.5, (1, draws))}


@pytest.mark.parametrize(
    "power, runs", [(0.5, 4), *(pytest.param(p, 20, marks=pytest.mark.slow) for p in (0.1, 0.5, 2))]
)
def test_totals_are_those_of_the_data(power, runs):
    model, z = conjugate.normal_mean_model(), []
    for seed in range(runs):
        values = tempered_mean(Y, power, 2000, np.random.default_rng(seed))
        found = bayesrecon.recover(from_draws(values, model, power=power))
        assert not found.failures
        rows = found["n"], found["mean(y)"]
        z.append([(row.estimate - true) / row.se for row, true in zip(rows, (60, Y.mean()), strict=True)])
    z = np.array(z)
    assert (np.abs(z) < 4).all()
    size = np.sqrt(np.mean(z**2))
    assert runs < 20 or 0.7 < size < 1.35  # 40 scores, two by two of one release: a standard error of an eighth


def test_the_power_scales_what_the_model_alone_would_say():
    values = tempered_mean(Y, 0.5, 2000, np.random.default_rng(0))
    model = conjugate.normal_mean_model()
    right, wrong = (bayesrecon.recover(from_draws(values, model, power=p))["n"].estimate for p in (0.5, 1.0))
    assert wrong == pytest.approx(0.5 * right, rel=1e-6)


def effects(units):
    """`y ~ Bernoulli(logit = b[unit])`, `b ~ Normal(0, 1.5)`: a record of its own for each effect."""

    def program(unit, y=None):
        b = numpyro.sample("b", dist.Normal(0, 1.5).expand((units,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=b[unit - 1]), obs=y)

    levels = {"unit": list(range(1, units + 1)), "y": "binary"}
    return from_numpyro(program, {"unit": (), "y": ()}, domain=levels)


def sample_effects(y, power, draws, rng):
    grid = np.linspace(-12, 12, 20_000)
    density = np.exp(-0.5 * (grid / 1.5) ** 2 - power * np.logaddexp(0, -grid * np.array([[-1], [1]])))
    cumulative = np.cumsum(density, axis=1) / density.sum(axis=1, keepdims=True)
    u = rng.uniform(size=(draws, len(y)))
    return np.where(y == 1, np.interp(u, cumulative[1], grid), np.interp(u, cumulative[0], grid))


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_single_records_have_the_law_of_the_model_not_of_the_power(power):
    rng, units = np.random.default_rng(3), 40
    y = rng.integers(0, 2, units)
    draws = sample_effects(y, power, 4000, rng)
    release = from_draws({"b": draws[None]}, effects(units), power=power)
    found = bayesrecon.reconstruct(release, known={"unit": np.arange(1, units + 1)}, unit="unit")
    assert not found.failures
    column = found["y"]
    assert (column.value == y).all()
    np.testing.assert_allclose(column.estimate, y, atol=5 * column.se.max())
    z = (column.estimate - y) / column.se
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.35  # 40 of them: a standard error of a ninth
    some = np.linspace(0, 3999, 1024).astype(int)
    one = 1 / (1 + np.exp(-draws[some]))
    odds = np.array([1 - one.mean(axis=0), one.mean(axis=0)])
    np.testing.assert_allclose(column.prior, odds[y, np.arange(units)], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.large
def test_answers_of_a_tempered_item_response_model():
    rng, (persons, items) = np.random.default_rng(5), (60, 12)
    model, known = answers(persons, items), design(persons, items)
    y = drawn(model, known, rng)

    def log_joint(theta):
        batch = {**known, "y": y}
        terms = jax.vmap(model.log_lik, (None, 0))(theta, batch)
        return -(0.5 * terms.sum() + model.log_prior(theta) + model.log_det(theta))

    with x64():
        kernel = NUTS(potential_fn=log_joint)
        run = MCMC(kernel, num_warmup=500, num_samples=4000, progress_bar=False)
        run.run(jax.random.key(0), init_params=np.zeros(model.dimension))
        theta = np.asarray(run.get_samples())
        params = {k: np.asarray(v)[None] for k, v in jax.vmap(model.constrain)(theta).items()}
    found = bayesrecon.reconstruct(from_draws(params, model, power=0.5), known=known, unit=("person", "item"))
    column = found["y"]
    right = column.value == y
    assert right.mean() > 0.95
    assert right.mean() > column.probability.mean() - 0.02


@pytest.mark.slow
def test_closed_forms_and_the_general_path_agree():
    model = load("kidscore_momiq")
    rng = np.random.default_rng(1)
    values = {"beta": rng.normal([20, 0.6], [3, 0.1], (1, 500, 2)), "sigma": rng.gamma(400, 0.05, (1, 500))}
    power = tempered(model, 0.3)
    assert power.gaussian is not None
    general = replace(power, gaussian=None)
    one, other = (bayesrecon.recover(from_draws(values, m), force=True) for m in (power, general))
    assert one["n"].estimate == pytest.approx(other["n"].estimate, rel=1e-6)
    assert one["n"].se == pytest.approx(other["n"].se, rel=1e-5)


@pytest.mark.slow
def test_a_mode_of_a_tempered_posterior():
    model = tempered(summaries.MODEL, 0.25)
    found = bayesrecon.recover(
        gaussian(model, *summaries.mode(model, summaries.DATA, summaries.start()), jacobian=True)
    )
    for name, true in summaries.TRUTH.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-8)


def test_a_file_keeps_the_power(tmp_path):
    model = tempered(load("linear_predictor", intercept=False), 0.5)
    rng = np.random.default_rng(0)
    path = save_draws(from_draws({"coef": rng.normal(size=(2, 50, 1, 1))}, model), tmp_path / "draws.nc")
    assert from_arviz(path).model.power == 0.5


def test_powers_are_absolute_and_models_are_kept():
    model = load("kidscore_momiq")
    half = tempered(model, 0.5)
    assert tempered(model, 0.5) is half
    assert half.name == "kidscore_momiq to the power 0.5"
    assert tempered(half, 2).name == "kidscore_momiq to the power 2"
    assert half.untempered.power == 1


@pytest.mark.parametrize("power", [0, -1.0, float("nan"), float("inf"), True, "half"])
def test_bad_powers(power):
    with pytest.raises(BayesreconError, match="power="):
        tempered(load("kidscore_momiq"), power)
