import jax
import numpy as np
import pytest

pm = pytest.importorskip("pymc", reason="PyMC is not installed: pip install 'bayesrecon[pymc]'")

from pymc_twins import TWINS, N  # noqa: E402

import bayesrecon  # noqa: E402
from bayesrecon.errors import BayesreconError  # noqa: E402
from bayesrecon.models import from_pymc  # noqa: E402
from bayesrecon.posteriors import nuts  # noqa: E402
from bayesrecon.precision import x64  # noqa: E402

RNG = np.random.default_rng(3)
X, Y, UNIT = RNG.normal(size=N), RNG.normal(size=N), RNG.integers(0, 5, N)


# NumPyro's negative binomial, the constant of its LKJ law, and the tail of a normal law in JAX are not exact.
ROUNDING = {"negative binomial": 1e-5, "correlated": 1e-7, "censored": 1e-7}


def pair(name):
    twin = TWINS[name]
    data = twin.data(np.random.default_rng(1))
    return data, twin.model(), from_pymc(twin.pymc(data))


def draws_of(name, data, theirs, draws=400):
    """Draws of the NumPyro program by the names of the PyMC model."""
    release = nuts(theirs, data, draws=draws, warmup=300, chains=2)
    with x64():
        values = jax.vmap(theirs.constrain)(np.asarray(release.theta))
    values = {k: np.asarray(v).reshape(2, draws, *v.shape[1:]) for k, v in values.items()}
    if name == "correlated":
        root = values.pop("root")
        values["chol"] = np.stack([root[..., 0, 0], root[..., 1, 0], root[..., 1, 1]], axis=-1)
    return release, values


@pytest.mark.parametrize("name", TWINS)
def test_densities_are_those_of_the_numpyro_program(name):
    """Of every record, of the prior up to a constant, and their derivatives."""
    data, theirs, ours = pair(name)
    assert {k: (f.shape, f.domain.kind) for k, f in ours.fields.items()} == {
        k: (f.shape, f.domain.kind) for k, f in theirs.fields.items()
    }
    rng, values = np.random.default_rng(0), []
    for _ in range(3):
        theta = rng.normal(0, 0.4, theirs.dimension)
        with x64():
            params = theirs.constrain(theta)
            if name == "correlated":
                root = params["root"]
                params = {"mu": params["mu"], "chol": jax.numpy.stack([root[0, 0], root[1, 0], root[1, 1]])}
            same = np.asarray(ours.unconstrain(params))
            batch = {k: np.asarray(v)[:20] for k, v in data.items()}
            one, other = (
                jax.vmap(jax.value_and_grad(m.log_lik), in_axes=(None, 0))(t, batch)
                for m, t in ((theirs, theta), (ours, same))
            )
            priors = [float(m.log_prior(t) + m.log_det(t)) for m, t in ((theirs, theta), (ours, same))]
        few = ROUNDING.get(name, 1e-9)
        np.testing.assert_allclose(np.asarray(other[0]), np.asarray(one[0]), rtol=few, atol=few)
        gradients = [np.sort(np.asarray(g[1]), axis=1) for g in (one, other)]  # coordinates may come in another order
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=10 * few, atol=10 * few)
        values.append(priors[1] - priors[0])
    assert np.ptp(values) < 10 * ROUNDING.get(name, 1e-9)


@pytest.mark.parametrize("name", ["linear", "hierarchical", "correlated"])
def test_what_is_determined_is_that_of_the_numpyro_program(name):
    data, theirs, ours = pair(name)
    release, values = draws_of(name, data, theirs)
    one, other = bayesrecon.recover(release), bayesrecon.recover(values, model=ours)
    assert [r.name for r in one if r.verdict == "determined"] == [r.name for r in other if r.verdict == "determined"]
    assert one["n"].verdict == "determined"
    for row in one:
        if row.verdict == "determined":
            assert other[row.name].estimate == pytest.approx(row.estimate, rel=1e-6)
            assert other[row.name].se == pytest.approx(row.se, rel=1e-6)


def regression(x, y, unit):
    with pm.Model(coords={"clinic": range(5)}) as model:
        data = pm.Data("x", x)
        effect, sigma = pm.Normal("effect", 0, 2, dims="clinic"), pm.HalfNormal("sigma", 5)
        pm.Normal("y", effect[unit] + 0.5 * data, sigma, observed=y)
    return model


def test_the_data_inside_the_model_are_not_used():
    values = {"effect": RNG.normal(size=(2, 400, 5)), "sigma": RNG.gamma(20, 0.05, size=(2, 400))}
    noise = np.random.default_rng(9)
    models = [regression(X, Y, UNIT), regression(noise.normal(size=N), noise.normal(size=N), noise.permutation(UNIT))]
    one, other = (bayesrecon.recover(values, model=m, force=True) for m in models)
    assert [(r.name, r.estimate, r.lower, r.upper) for r in one] == [
        (r.name, r.estimate, r.lower, r.upper) for r in other
    ]


def test_fields_have_their_names():
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=5)
        pm.Normal("y", a[UNIT] * X[:, None][:, 0] + X**2, 1.0, observed=Y)
    assert set(from_pymc(model).fields) == {"unit", "x1", "x2", "y"}
    assert set(from_pymc(model, {"age": X, "age_squared": X**2}).fields) == {"age", "age_squared", "unit", "y"}
    assert set(from_pymc(model, ["a", "b", "c"]).fields) == {"a", "b", "c", "y"}
    assert from_pymc(model, domain={"x1": "positive"}).fields["x1"].domain.low == 0


def test_records_can_be_drawn():
    with x64():
        for name in ("ordered", "mixture", "censored"):
            data, _, ours = pair(name)
            batch = {k: np.repeat(np.asarray(v)[:1], 4000, axis=0) for k, v in data.items()}
            params = ours.constrain(np.linspace(0.1, 0.5, ours.dimension))
            drawn = np.asarray(ours.simulate(params, batch, jax.random.key(0))["y"])
            assert drawn.shape == np.shape(batch["y"])
            assert len(np.unique(drawn)) > 1
            # The score of the law that it was drawn from has mean zero.
            theta = np.asarray(ours.unconstrain(params))
            one = {k: np.asarray(v) for k, v in {**batch, "y": drawn}.items()}
            score = np.asarray(jax.vmap(jax.grad(ours.log_lik), in_axes=(None, 0))(theta, one))
            error = score.std(axis=0) / np.sqrt(len(score))
            assert (np.abs(score.mean(axis=0)) <= 5 * error + 1e-12).all(), name


def latent_per_record():
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", pm.Normal("theta", mu, 1, shape=N), 1.0, observed=Y)


def potential():
    mu = pm.Normal("mu", 0, 5)
    pm.Potential("extra", pm.logp(pm.Normal.dist(mu, 1), Y).sum())
    pm.Normal("z", mu, 1.0, observed=X)


def lengths():
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, 1.0, observed=Y)
    pm.Normal("z", mu, 1.0, observed=X[:10])


def centred():
    x = pm.Data("x", X)
    pm.Normal("y", pm.Normal("slope") * (x - x.mean()), 1.0, observed=Y)


def lagged():
    pm.AR("y", [pm.Normal("rho", 0, 0.5)], sigma=1.0, observed=Y)


def multivariate():
    pm.MvNormal("y", np.zeros(N), pm.HalfNormal("s") * np.eye(N), observed=Y)


def discrete():
    pm.Normal("y", pm.Bernoulli("k", 0.5), 1.0, observed=Y)


def missing():
    pm.Normal("y", 0, pm.HalfNormal("s"), observed=np.where(np.arange(N) == 3, np.nan, Y))


def unobserved():
    pm.Normal("mu")


def bounded_by_another():
    low = pm.Normal("low")
    pm.Normal("y", pm.Uniform("level", low, 10), 1.0, observed=Y)


REFUSED = {
    latent_per_record: "theta has an entry per record.*index a fixed number of units",
    potential: "the potential extra depends on the records",
    lengths: r"different lengths: y \(120\), z \(10\)",
    centred: "not a product over records",
    lagged: "not a product over records",
    multivariate: "not a product over records",
    discrete: "k is discrete",
    missing: "y has missing values",
    unobserved: "no observed variable",
    bounded_by_another: "bounds of level must be plain numbers",
}


@pytest.mark.filterwarnings("ignore")  # PyMC's own, of missing values
@pytest.mark.parametrize("write", REFUSED, ids=lambda f: f.__name__)
def test_models_outside_the_class_are_refused(write):
    with pm.Model() as model:
        write()
    with pytest.raises(BayesreconError, match=REFUSED[write]) as caught:
        from_pymc(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("record", "message"),
    [({"age": X + 1}, r"record: age \(120,\) is not an array of"), (["a", "b"], "1 arrays without a name.*2 names")],
)
def test_names_that_do_not_fit(record, message):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope") * X, 1.0, observed=Y)
    with pytest.raises(BayesreconError, match=message):
        from_pymc(model, record)


def test_a_trace_of_another_model_and_something_else():
    model = regression(X, Y, UNIT)
    with pytest.raises(BayesreconError, match="lack parameter effect"):
        bayesrecon.recover({"slope": RNG.normal(size=(2, 50))}, model=model)
    with pytest.raises(BayesreconError, match="expected a PyMC model"):
        from_pymc(3)
