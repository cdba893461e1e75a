"""The mean embedding over a field or a pair of fields: where the private data lie as far as the release can tell.

    witness(z) = mu(z) / sqrt(k(z, z) |mu|^2)

is the cosine between the score of a record at z and the score of all private records together, in [-1, 1] up to
noise: high where records like z carry what the data carry, negative where they would undo it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.embedding import Progress
from bayesrecon.errors import BayesreconError, near
from bayesrecon.precision import in_float64
from bayesrecon.problem import Problem, solve_release
from bayesrecon.types import Records, Release


@dataclass(frozen=True)
class Witness:
    """The witness on a grid.

    Attributes:
        fields: the one or two fields varied.
        grids: their values, `(G,)` each.
        values, se: `(G,)` or `(G, G)`, first field first; `se` is zero for a trained parameter.
        others: the values at which the other fields stand (their recovered means).
    """

    release: str
    fields: tuple[str, ...]
    grids: tuple[np.ndarray, ...]
    values: np.ndarray
    se: np.ndarray
    others: dict[str, Any]

    def to_dataframe(self) -> Any:
        """One row per grid point."""
        import pandas as pd

        mesh = np.meshgrid(*self.grids, indexing="ij")
        columns = {name: m.ravel() for name, m in zip(self.fields, mesh, strict=True)}
        return pd.DataFrame({**columns, "witness": self.values.ravel(), "se": self.se.ravel()})

    def plot(self, ax: Any = None) -> Any:
        """Curve with a 95 % band, or a map for two fields; see `bayesrecon.plots.plot_witness`."""
        from bayesrecon.plots.witness import plot_witness

        return plot_witness(self, ax=ax)


@in_float64
def witness(
    release: Release,
    fields: str | Sequence[str],
    *,
    points: int = 60,
    at: Mapping[str, Any] | None = None,
    domain: Mapping[str, Any] | None = None,
    metric: str | None = None,
    key: Any = 0,
    progress: Progress | None = None,
) -> Witness:
    """Evaluate the witness over one or two scalar fields.

    Args:
        fields: a field's name or two names.
        points: grid points per field, over three standard deviations about the recovered mean or the levels.
        at: values of the other fields; their recovered means by default.
        domain, metric, key, progress: as in `recover`.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.from_posteriordb("kidiq-kidscore_momiq")  # doctest: +SKIP
    >>> bayesrecon.witness(release, ("mom_iq", "kid_score")).plot()  # doctest: +SKIP
    """
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    known = release.model.fields
    for name in (*names, *(at or {})):
        if name not in known:
            raise BayesreconError(
                f"{name!r} is not a field of {release.model.name} ({', '.join(known)}){near(name, known)}"
            )
    if not 1 <= len(set(names)) == len(names) <= 2 or any(known[n].shape for n in names):
        raise BayesreconError("the witness is drawn over one or two different fields that hold one number each")
    if points < 2:
        raise BayesreconError("the witness needs at least two points per field")
    problem = solve_release(
        release,
        known=None,
        unit=None,
        total=None,
        bounds=None,
        domain=domain,
        metric=metric,
        coordinates="unconstrained",
        key=key,
        progress=progress,
    )
    grids = tuple(_grid(problem, name, points) for name in names)
    others = {n: np.asarray((at or {}).get(n, _typical(problem, n))) for n in known if n not in names}
    mesh = [m.ravel() for m in np.meshgrid(*grids, indexing="ij")]
    records: Records = {n: np.broadcast_to(v, (mesh[0].size, *v.shape)).copy() for n, v in others.items()}
    records |= dict(zip(names, mesh, strict=True))
    records = {n: np.asarray(records[n], known[n].domain.dtype) for n in known}
    solved, embedding = problem.solved, problem.solved.embedding
    cross = embedding.cross(solved.basis, records)
    # mu(z) is the total of k(z, .), a function in the span of the basis.
    beta = np.linalg.solve(solved.moments.gram, cross.T)
    size = np.sqrt(np.einsum("qr,rq->q", cross, beta) * float(solved.y @ solved.moments.gram @ solved.y))
    noise = np.zeros((solved.basis.size,) * 2)
    if release.temperature:
        noise = embedding.noise(solved.basis, solved.y) / embedding.effective_size
    error = np.sqrt(np.einsum("rq,rs,sq->q", beta, noise, beta, optimize=True))
    shape = tuple(len(g) for g in grids)
    values, se = ((x / size).reshape(shape) for x in (cross @ solved.y, error))
    return Witness(release.name, names, grids, values, se, {n: v.tolist() for n, v in others.items()})


def _grid(problem: Problem, name: str, points: int) -> np.ndarray:
    domain = problem.attacker.fields[name].domain
    if domain.kind == "levels":
        return np.array(domain.levels)
    centre, scale = float(problem.reference.centre[name]), float(problem.reference.scale[name])
    low, high = max(domain.low, centre - 3 * scale), min(domain.high, centre + 3 * scale)
    grid = np.linspace(low, high, points)
    return np.unique(np.round(grid)) if domain.kind == "integer" else grid


def _typical(problem: Problem, name: str) -> np.ndarray:
    """The recovered mean, moved to the nearest legal value."""
    domain = problem.attacker.fields[name].domain
    centre = np.asarray(problem.reference.centre[name], float)
    if domain.kind == "levels":
        levels = np.array(domain.levels)
        return levels[np.abs(levels - centre[..., None]).argmin(axis=-1)]
    return np.round(centre) if domain.kind == "integer" else centre
