"""The published form of a release of draws: named draws of the model's parameters."""

import jax
import numpy as np

from bayesrecon.diagnostics import by_chain
from bayesrecon.posteriors.contents import Contents, from_named_draws
from bayesrecon.posteriors.draws import Draws
from bayesrecon.releases import PosteriorDraws


def named_draws(release: PosteriorDraws) -> Draws:
    """Draws `(chains, draws, *shape)` of every parameter, with all chains cut to the length of the shortest.

    Log densities are included if the release has them, and a variable `weights` if the weights differ.

    >>> from bayesrecon.models.registry import load
    >>> from bayesrecon.posteriors import from_draws
    >>> draws = {"coef": np.ones((2, 50, 1, 1)) + np.arange(50)[:, None, None]}
    >>> named_draws(from_draws(draws, load("linear_predictor", intercept=False))).values["coef"].shape
    (2, 50, 1, 1)
    """
    model, chain = release.model, np.asarray(release.chain)
    params = jax.vmap(model.constrain)(np.asarray(release.theta))
    values = {}
    for p in model.parameters:
        flat = by_chain(np.asarray(params[p.name]).reshape(release.size, -1), chain)
        values[p.name] = flat.reshape(*flat.shape[:2], *p.shape)
    if np.ptp(np.asarray(release.weights)) > 0:
        values["weights"] = by_chain(np.asarray(release.weights)[:, None], chain)[..., 0]
    density = release.log_density
    lp = None if density is None else by_chain(np.asarray(density)[:, None], chain)[..., 0]
    return Draws(values, lp, release.name, {})


def contents_of(release: PosteriorDraws) -> Contents:
    """Everything that is published with a release of draws."""
    return from_named_draws(named_draws(release), "release of draws", notes=release.notes, sign="a release of draws")
