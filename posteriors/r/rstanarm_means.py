"""Means of the covariates of a fit of rstanarm, from the starting points and the means of its chains.

rstanarm centres the covariates x at their means m. Its program has the intercept gamma for centred covariates, and
computes the intercept alpha for x (rstanarm, `stan_glm.fit`). A `stanfit` stores both and the slopes beta at the
starting point of each chain, and their means over each chain. At both, `gamma - alpha = m' beta`, so each chain gives
two equations for m.
"""

from collections.abc import Iterator

import numpy as np

from bayesrecon.posteriors.r.parts import vector_of
from bayesrecon.posteriors.r.r_objects import RObjects

MEANS = "xbar"
"""Name of these means in the programs of rstanarm."""

_TOLERANCE = 1e-8  # relative error of an equation: means over chains have rounding errors


def means_of(objects: RObjects, fit: int, slopes: int) -> np.ndarray | None:
    """Means of the covariates `(K,)` of a `stanfit` of rstanarm; None if its equations do not determine them.

    With `QR = TRUE` the stored slopes belong to rotated columns, so the equations do not apply.

    Args:
        objects: the objects of the file.
        fit: node of the `stanfit`.
        slopes: number of slopes, K.
    """
    if _are_rotated(objects, fit):
        return None
    rows = list(_equations(objects, fit, slopes))
    if not rows:
        return None
    first, second = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    size = np.linalg.norm(first, axis=1)
    if not (np.isfinite(size).all() and np.isfinite(second).all() and (size > 0).all()):
        return None
    scaled, right = first / size[:, None], second / size
    columns = np.linalg.norm(scaled, axis=0)
    if not (columns > 0).all():
        return None
    solution, _, rank, _ = np.linalg.lstsq(scaled / columns, right, rcond=_TOLERANCE)
    residual = np.abs(scaled / columns @ solution - right)
    return solution / columns if rank == slopes and (residual <= _TOLERANCE * (1 + np.abs(right))).all() else None


def _equations(objects: RObjects, fit: int, slopes: int) -> Iterator[tuple[np.ndarray, float]]:
    """beta and `gamma - alpha` at the starting point of each chain, and their means over each chain."""
    for _, start in objects.elements(objects.element(fit, "@inits")):
        parts = [vector_of(objects, start, name) for name in ("gamma", "alpha", "beta")]
        if [len(p) for p in parts] == [1, 1, slopes]:
            yield parts[2], float(parts[0][0] - parts[1][0])
    for _, chain in objects.elements(objects.element(fit, "@sim", "samples")):
        parts = [_mean(objects, fit, chain, name) for name in ("gamma", "alpha", "beta")]
        if [len(p) for p in parts] == [1, 1, slopes]:
            yield parts[2], float(parts[0][0] - parts[1][0])


def _are_rotated(objects: RObjects, fit: int) -> bool:
    """Whether the draws of the slopes have other means than the chains store, or no means are stored."""
    chains = objects.elements(objects.element(fit, "@sim", "samples"))
    before = vector_of(objects, fit, "@sim", "warmup2")
    for (_, chain), skip in zip(chains, before.tolist(), strict=False):
        stored = _mean(objects, fit, chain, "beta")
        for k, value in enumerate(stored.tolist()):
            draws = vector_of(objects, chain, f"beta[{k + 1}]")[int(max(skip, 0)) :]
            if not len(draws) or abs(draws.mean() - value) > _TOLERANCE * (abs(value) + draws.std()):
                return True
        if not len(stored):
            return True
    return not chains or len(before) != len(chains)


def _mean(objects: RObjects, fit: int, chain: int, name: str) -> np.ndarray:
    """Mean of a variable over a chain; empty if it is not stored."""
    places, count = _places(objects, fit)
    means = np.ravel(objects.numbers(objects.attributes(chain).get("mean_pars", 0))).astype(float)
    return means[slice(*places[name])] if len(means) == count and name in places else means[:0]


def _places(objects: RObjects, fit: int) -> tuple[dict[str, tuple[int, int]], int]:
    """First and last position of each variable in a vector of all variables, and the length of that vector."""
    result, start = {}, 0
    for name, child in objects.elements(objects.element(fit, "@par_dims")):
        shape = np.ravel(objects.numbers(child)).astype(float)
        if name == "lp__" or not np.isfinite(shape).all() or np.any((shape < 0) | (shape > 1e6)):
            continue
        size = int(np.prod(shape)) if len(shape) else 1
        result[name], start = (start, start + size), start + size
    return result, start
