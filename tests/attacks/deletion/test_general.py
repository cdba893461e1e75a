"""HRec of models without a linear predictor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from predictors import CASES, X, make

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import Improvements
from bayesrecon.attacks.deletion.hrec import gradient_of_deleted
from bayesrecon.divergence.outer_products import join, split_gradient
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_loss
from bayesrecon.posteriors import dirac, newton_step_without, retrain_without, train, train_network
from bayesrecon.precision import x64


@pytest.mark.parametrize(("loss", "tolerance"), [("squared", 1e-8), ("softmax", 1e-4)])
def test_a_linear_predictor_has_the_closed_form(loss, tolerance):
    """Least squares have one Hessian; else Gauss' rule along the way errs by the change to the fourth."""
    outputs, y, below, _ = CASES[loss]
    model = make(loss, outputs, intercept_penalty=below)
    data, public = {"x": X[:200], "y": y[:200]}, {"x": X[200:], "y": y[200:]}
    before = train(model, data, tolerance=1e-11).release
    pair = bayesrecon.deletion(before, retrain_without(before, data, [5], tolerance=1e-10)[0].release)
    prepared = HRec(public=public, improvements=Improvements(shrinkage=False)).prepare(model, 200.0)
    with x64():
        theta = [np.asarray(r.theta)[0] for r in (pair.before, pair.after)]
        closed = join(model, prepared.gradient(*(split_gradient(model, t) for t in theta))[0])
        found, _ = gradient_of_deleted(pair, public, 200.0)
    np.testing.assert_allclose(found, closed, atol=tolerance * np.abs(closed).max())


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    start = {"w": rng.normal(size=(3, 3)), "v": rng.normal(size=(3, 2)), "c": np.zeros(2)}
    model = from_loss(
        lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"] + p["c"],
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda p: 0.5 * sum(jnp.sum(v**2) for v in p.values()),
        params=start,
        record={"x": (3,), "y": ()},
        domain={"y": [0, 1]},
        name="two layers",
    )
    x = rng.normal(size=(160, 3))
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * rng.normal(size=160) > 0).astype(int)
    data = {"x": x[:80], "y": y[:80]}
    return model, data, {"x": x[80:], "y": y[80:]}, train_network(model, start, data).release


@pytest.mark.slow
def test_a_newton_step_is_undone_exactly(network):
    """With the data that it was computed from as public records, the step gives the gradient, and that the record."""
    model, data, _, before = network
    rest = {k: np.delete(v, 4, axis=0) for k, v in data.items()}
    with x64():
        theta = jnp.asarray(before.theta[0])

        def kept(t):
            return -jax.vmap(model.log_lik, in_axes=(None, 0))(t, rest).sum() - model.log_prior(t)

        step = np.linalg.solve(np.asarray(jax.hessian(kept)(theta)), np.asarray(jax.grad(kept)(theta)))
        one = np.asarray(gradients(model, theta, {k: v[4:5] for k, v in data.items()}))[0]
        moved = {k: np.asarray(v) for k, v in model.constrain(theta - step).items()}
    pair = bayesrecon.deletion(before, dirac(model, moved))
    with x64():
        found, _ = gradient_of_deleted(pair, rest, 79.0, path=False)
    np.testing.assert_allclose(found, one, rtol=1e-6, atol=1e-8 * np.abs(one).max())
    result = bayesrecon.reconstruct(pair, attack=HRec(public=rest, improvements=Improvements(path=False)), total=79)
    assert result.record["y"] == data["y"][4]
    np.testing.assert_allclose(result.record["x"], data["x"][4], atol=1e-4)


@pytest.mark.slow
def test_few_public_records_make_the_label_less_certain(network):
    model, data, public, before = network
    kept = {k: np.delete(v, 4, axis=0) for k, v in data.items()}
    held = {k: np.asarray(v) for k, v in model.constrain(before.theta[0]).items()}
    pair = bayesrecon.deletion(before, train_network(model, held, kept).release)
    found = [
        bayesrecon.reconstruct(pair, attack=HRec(public={k: v[:m] for k, v in public.items()}), total=80)
        for m in (80, 8)
    ]
    assert found[0].record["y"] == data["y"][4]
    assert 1 > found[0].probability > found[1].probability
    assert not found[0].warnings
    one = bayesrecon.reconstruct(
        pair, attack=HRec(public={k: v[public["y"] == 1] for k, v in public.items()}), total=80
    )
    assert one.probability is not None  # the other label is among the field's levels, though public records lack it
    other = {k: np.random.default_rng(5).normal(size=v.shape) for k, v in held.items()}
    elsewhere = bayesrecon.deletion(before, train_network(model, other, kept).release)
    doubted = bayesrecon.reconstruct(elsewhere, attack=HRec(public=public), total=80)
    assert doubted.warnings
    assert doubted.probability < 0.9
    which = bayesrecon.infer_deletion(pair, {k: v[:20] for k, v in data.items()}, public=public, total=80)
    assert which.ranking[0] == 4


def test_what_cannot_be(network):
    model, _, public, before = network
    pair = bayesrecon.deletion(before, dirac(model, {k: v + 0.01 for k, v in model.constrain(before.theta[0]).items()}))
    for wrong, message in (
        ({"x": public["x"]}, "lack field 'y'"),
        ({k: v[:1] for k, v in public.items()}, "at least two records"),
        (None, "has no linear predictor: HRec needs public records"),
    ):
        with pytest.raises(BayesreconError, match=message):
            bayesrecon.reconstruct(pair, attack=HRec(public=wrong))


@pytest.mark.slow
def test_above_four_thousand_parameters_products_do_the_same(network, monkeypatch):
    """The same network by products and a sketch: the same gradient, nearly the same record, the same candidate."""
    _, data, public, before = network
    pair = bayesrecon.deletion(before, newton_step_without(before, data, [4])[0])

    def told():
        found = bayesrecon.reconstruct(pair, attack=HRec(public=public), total=80)
        which = bayesrecon.infer_deletion(pair, {k: v[:9] for k, v in data.items()}, public=public, total=80)
        with x64():
            return found, which, gradient_of_deleted(pair, public, 80)[0]

    whole = told()
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature.MOST", 3)
    products = told()
    np.testing.assert_allclose(products[2], whole[2], atol=1e-9)
    np.testing.assert_allclose(products[0].record["x"], whole[0].record["x"], atol=0.05)
    assert products[0].record["y"] == whole[0].record["y"]
    assert products[1].ranking[0] == whole[1].ranking[0]
