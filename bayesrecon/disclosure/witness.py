"""The verb `witness`: the density of the private data along one or two fields, as far as the release determines it.

The witness at a point is the recovered total of a narrow bump function there. The bump is projected on what the release
determines, and the mean embedding evaluates the projection. The undetermined part of the bump is replaced by its
average over the reference distribution, a smooth distribution with the recovered moments. `visibility` is the
determined share. The witness divided by the number of records and the mass of the bump is a density.
"""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError, near
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.releases import EQUATIONS, LIMITED, Release
from bayesrecon.results.diagnosis import Witness
from bayesrecon.verbs.verb import verb

_WIDTH = 0.3  # of the bump, in standard deviations of the field


@verb(EQUATIONS, uses=("total", "domain"), instead=LIMITED)
def witness(
    release: Release,
    fields: str | Sequence[str],
    *,
    model: object = None,
    points: int = 60,
    metric: Metric | str | None = None,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Witness:
    """Estimate the density of the private data over one or two scalar fields.

    Args:
        release: a release from `bayesrecon.posteriors`, or any object or file that holds draws, together with its
            `model`.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        fields: name of one field, or names of two.
        points: grid points per field. The grid spans three standard deviations around the recovered mean. A field with
            finitely many values uses these values instead.
        metric, key, progress, knows: as in `recover`, without `known` and `unit`.

    Raises:
        BayesreconError: the model has no such field, a field holds several numbers, there are fewer than two points, or
            the release does not determine the number of records, which the density is divided by.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.witness(release, "y", points=9)
    >>> found.values.shape, int(found.values.argmax())
    ((9,), 4)
    """
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    model_fields = release.model.fields
    for name in names:
        if name not in model_fields:
            listed = ", ".join(model_fields)
            raise BayesreconError(
                f"{name!r} is not a field of {release.model.name} ({listed}){near(name, model_fields)}"
            )
    if not 1 <= len(set(names)) == len(names) <= 2 or any(model_fields[n].shape for n in names):
        raise BayesreconError("the witness is drawn over one or two different fields that hold one number each")
    if points < 2:
        raise BayesreconError("the witness needs at least two points per field")
    problem = solve_release(release, metric, key=key, progress=progress, **knows)
    solved = problem.solved
    grids = tuple(_grid(problem, name, points) for name in names)
    bumps = np.ones((len(solved.cross), 1))
    for name, grid in zip(names, grids, strict=True):
        along = _bumps(problem, name, grid)
        bumps = (bumps[:, :, None] * along[:, None, :]).reshape(len(bumps), -1)
    values = np.column_stack([np.ones(len(bumps)), bumps])
    projection = solved.project(values)
    residual = ((values - projection.fitted) ** 2).sum(axis=0)
    count, *totals = solved.target @ projection.beta
    if residual[0] > 0.5 * len(values) or count <= 0:
        raise BayesreconError(
            f"{release.name} does not determine how many records there are, so no density can be drawn"
        )
    noise = solved.noise()
    density = np.array(totals) / count
    slopes = (projection.beta[:, 1:] - density * projection.beta[:, :1]) / count  # of the ratio
    se = np.sqrt(np.maximum(np.einsum("rq,rs,sq->q", slopes, noise, slopes, optimize=True), 0.0))
    total = ((values[:, 1:] - values[:, 1:].mean(axis=0)) ** 2).sum(axis=0)
    visibility = np.clip(1 - residual[1:] / np.maximum(total, 1e-300), 0, 1)
    shape = tuple(len(grid) for grid in grids)
    return Witness(
        release.name,
        names,
        grids,
        density.reshape(shape),
        se.reshape(shape),
        visibility.reshape(shape),
        release.model.name,
        release.size,
    )


def _bumps(problem: Problem, name: str, grid: np.ndarray) -> np.ndarray:
    """Bumps of unit mass centred on the grid, at the probes, `(Q, G)`; indicators for finitely many values."""
    values = np.asarray(problem.solved.probes[name], float)[:, None]
    if problem.knowledge.fields[name].domain.kind == "levels":
        return (values == grid).astype(float)
    width = _WIDTH * float(problem.reference.scale[name])
    return np.exp(-0.5 * ((values - grid) / width) ** 2) / (width * np.sqrt(2 * np.pi))


def _grid(problem: Problem, name: str, points: int) -> np.ndarray:
    domain = problem.knowledge.fields[name].domain
    if domain.kind == "levels":
        return np.array(domain.levels)
    centre, scale = float(problem.reference.centre[name]), float(problem.reference.scale[name])
    low, high = max(domain.low, centre - 3 * scale), min(domain.high, centre + 3 * scale)
    return np.linspace(low, high, points)
