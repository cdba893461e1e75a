"""Means of the covariates of a fit of rstanarm, from where its chains began and from their means.

rstanarm centres the covariates x at their means m: its program has an intercept gamma of centred covariates, and gives
alpha, that of the others (rstanarm, `stan_glm.fit`). A `stanfit` notes both and the slopes beta where each chain began,
and their means over each chain, and `gamma - alpha = m' beta` at both: two equations a chain for m.
"""

from collections.abc import Iterator

import numpy as np

from bayesrecon.posteriors.r.parts import vector_of
from bayesrecon.posteriors.r.r_objects import Objects

MEANS = "xbar"
"""Their name in the programs of rstanarm."""

_AGREES = 1e-8  # of its size, up to which an equation may be off: those of chains are of sums of many


def means_of(objects: Objects, fit: int, slopes: int) -> np.ndarray | None:
    """Means of the covariates `(K,)` of a `stanfit` of rstanarm, None if its equations do not tell them.

    Slopes that were turned after sampling (`QR = TRUE`) are of other columns, of which nobody asks the means.
    """
    if _are_turned(objects, fit):
        return None
    rows = list(_equations(objects, fit, slopes))
    if not rows:
        return None
    first, second = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    size = np.linalg.norm(first, axis=1)
    if not (np.isfinite(size).all() and np.isfinite(second).all() and (size > 0).all()):
        return None
    scaled, wanted = first / size[:, None], second / size
    columns = np.linalg.norm(scaled, axis=0)
    if not (columns > 0).all():
        return None
    solution, _, rank, _ = np.linalg.lstsq(scaled / columns, wanted, rcond=_AGREES)
    off = np.abs(scaled / columns @ solution - wanted)
    return solution / columns if rank == slopes and (off <= _AGREES * (1 + np.abs(wanted))).all() else None


def _equations(objects: Objects, fit: int, slopes: int) -> Iterator[tuple[np.ndarray, float]]:
    """beta and `gamma - alpha`: where each chain began, and their means over it."""
    for _, start in objects.elements(objects.element(fit, "@inits")):
        parts = [vector_of(objects, start, name) for name in ("gamma", "alpha", "beta")]
        if [len(p) for p in parts] == [1, 1, slopes]:
            yield parts[2], float(parts[0][0] - parts[1][0])
    for _, chain in objects.elements(objects.element(fit, "@sim", "samples")):
        parts = [_mean(objects, fit, chain, name) for name in ("gamma", "alpha", "beta")]
        if [len(p) for p in parts] == [1, 1, slopes]:
            yield parts[2], float(parts[0][0] - parts[1][0])


def _are_turned(objects: Objects, fit: int) -> bool:
    """Whether slopes of the draws are not those whose means each chain notes, or nobody can tell."""
    chains = objects.elements(objects.element(fit, "@sim", "samples"))
    before = np.ravel(objects.numbers(objects.element(fit, "@sim", "warmup2"))).astype(float)
    for (_, chain), skip in zip(chains, before.tolist(), strict=False):
        noted = _mean(objects, fit, chain, "beta")
        for k, value in enumerate(noted.tolist()):
            draws = vector_of(objects, chain, f"beta[{k + 1}]")[int(max(skip, 0)) :]
            if not len(draws) or abs(draws.mean() - value) > _AGREES * (abs(value) + draws.std()):
                return True
        if not len(noted):
            return True
    return not chains or len(before) != len(chains)


def _mean(objects: Objects, fit: int, chain: int, name: str) -> np.ndarray:
    """Mean of a variable over a chain, which stores the means of all variables one after another."""
    places, count = _places(objects, fit)
    every = np.ravel(objects.numbers(objects.attributes(chain).get("mean_pars", 0))).astype(float)
    return every[slice(*places[name])] if len(every) == count and name in places else every[:0]


def _places(objects: Objects, fit: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Position of each variable of the program in a vector of all of them, and the length of that vector."""
    result, at = {}, 0
    for name, child in objects.elements(objects.element(fit, "@par_dims")):
        shape = np.ravel(objects.numbers(child)).astype(float)
        if name == "lp__" or not np.isfinite(shape).all() or np.any((shape < 0) | (shape > 1e6)):
            continue
        size = int(np.prod(shape)) if len(shape) else 1
        result[name], at = (at, at + size), at + size
    return result, at
