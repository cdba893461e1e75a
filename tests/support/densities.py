"""Checks of a model against the density of the program it restates, written out by an outside library."""

import jax
import numpy as np

from bayesrecon.models import find
from bayesrecon.precision import x64


def check_density(model, oracle, records, spread=0.7, atol=1e-8):
    """Our joint density is the oracle's, up to a constant and the Jacobian of the map between coordinates.

    The oracle takes our parameters and the records; it returns the published program's parameters where they
    differ, its log density, and the log Jacobian of ours -> theirs. `model.prepare` has to undo the map.
    """
    thetas = spread * np.random.default_rng(2).standard_normal((5, model.dimension))
    with x64():

        @jax.jit
        def joint(theta, z):
            return jax.vmap(model.log_lik, (None, 0))(theta, z).sum() + model.log_prior(theta)

        ours = np.array([joint(theta, records) for theta in thetas])
        constrain = jax.jit(model.constrain)
        params = [{k: np.asarray(v) for k, v in constrain(theta).items()} for theta in thetas]
    assert set(find(model.name).design) < set(model.fields)
    published, densities, jacobians = zip(*(oracle(p, records) for p in params), strict=True)
    difference = ours - np.array(densities) - np.array(jacobians)
    np.testing.assert_allclose(difference, difference.mean(), rtol=0, atol=atol * (1 + np.abs(ours).max()))
    # A density that does not depend on the parameters would pass: the values must move.
    assert np.ptp(ours) > 1
    if model.prepare is None or "W" in model.fields:  # draws of abilities that hold covariates are only refused
        assert not published[0]
        return
    theirs = {k: np.stack([f[k] for f in published])[None] for k in published[0]}
    kept = {k: np.stack([p[k] for p in params])[None] for k in params[0]}
    latent = {k for k in kept if k in REBUILT or k.endswith("_raw")}
    back = model.prepare({**{k: v for k, v in kept.items() if k not in latent}, **theirs})
    assert back.keys() == kept.keys()
    for k in kept:
        np.testing.assert_allclose(back[k], kept[k], rtol=1e-6, atol=1e-6)
    # Draws of our own coordinates pass through.
    for k, v in model.prepare(kept).items():
        assert v is kept[k]


REBUILT = {"theta_trans", "f_tilde", "share"}
