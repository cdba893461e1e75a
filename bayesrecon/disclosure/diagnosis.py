"""The verb `diagnose`: what a release determines about its data, and what it does not."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Unpack

import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.disclosure.categories import counted
from bayesrecon.disclosure.output_numbers import diagnose_outputs
from bayesrecon.divergence.metrics import Metric
from bayesrecon.divergence.output_embedding import Outputs, refuse_given
from bayesrecon.estimation.categories import add_units
from bayesrecon.estimation.recovered import Statistics, solve_release
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Component, Library, Part, Statistic, add_functions, components
from bayesrecon.estimation.totals import part_totals, rows_of
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.releases import EQUATIONS, LIMITED, Release
from bayesrecon.results.diagnosis import Diagnosis, Eigenfunction, Feature
from bayesrecon.results.input_estimate import OutputsDiagnosis
from bayesrecon.verbs.verb import verb

_MOST_FEATURES = 400  # largest number of monomials; records with many fields lose the higher degrees


@verb((*EQUATIONS, Outputs), instead=LIMITED)
def diagnose(
    release: object,
    *,
    model: object = None,
    order: int = 3,
    statistics: Statistics = None,
    metric: Metric | str | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Diagnosis:
    """Report which functions of the data a release determines, and how precisely.

    The visibility of a function f is `1 - |f - P f|^2 / |f - P_low f|^2` in L2 of generic records around the data. P is
    the projection on the kernel's numerically non-zero features. P_low is the projection on monomials of lower order:
    on the constants for the user's functions, and zero for the constant itself. A field of codes is represented by the
    indicators of its categories (`[clinic=2]`) if the number of records in each category is determined. The spectrum is
    that of the kernel operator on the generic records (Mercer). The noise of the target is given for each eigenvalue.

    Args:
        release: a release from `bayesrecon.posteriors`, or any object or file that holds draws, together with its
            `model`. For the outputs of a model, the result is the number of independent quantities that they determine
            about the input (`OutputsDiagnosis`).
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        order: highest degree of the monomials. It is lowered, with a warning, if there would be more than 400
            monomials.
        statistics: further functions of a record, `{name: f}`.
        metric, force, key, progress, knows: as in `recover`.

    Raises:
        BayesreconError: the knowledge does not fit the model, the metric does not fit the draws, there are too few
            draws, or a function of a record cannot be evaluated.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.diagnose(release)
    >>> found["x[1]^2"].verdict, found["y^2"].verdict
    ('determined', 'undetermined')
    """
    return _diagnosis(release, order, statistics, metric, key, progress, knows)


@singledispatch
def _diagnosis(
    release: Release,
    order: int,
    statistics: Statistics,
    metric: Metric | str | None,
    key: Key,
    progress: Progress | None,
    knows: Knows,
) -> Diagnosis:
    start = time.perf_counter()
    problem = solve_release(release, metric, key=key, progress=progress, **knows)
    solved, knowledge, reference = problem.solved, problem.knowledge, problem.reference
    fields = components(knowledge.fields, knowledge.aside, reference.centre, reference.scale)
    categories, undetermined = counted(solved, knowledge.fields, fields)
    library, orders, highest = monomials([c for c in fields if c.name not in categories], order, categories)
    polynomial = Library(dict(library.parts), [])
    library.parts.update({part.name: part for parts in undetermined.values() for part in parts})
    if knowledge.unit is not None:
        add_units(library, str(knowledge.unit), knowledge.levels, fields)
    if statistics:
        add_functions(library, statistics, solved.probes)
    totals = part_totals(solved, library, knowledge)
    count = abs(totals.totals[library.index(["1"])[0]])
    library.statistics[:] = [_average(name, count) for name in library.parts]
    rows = {row.name: row for row in rows_of(library, totals, solved.embedding)}
    values = library.evaluate(solved.probes)
    residuals = values - solved.project(values, limit=True).fitted
    limit = library.visibility(values, values - residuals, solved.basis.size)
    residual = np.sqrt(np.mean(residuals**2, axis=0))
    eigenvalues, noise, functions = mercer(solved, max(count, 1.0))
    features = []
    for i, name in enumerate(library.parts):
        verdict = totals.law.verdict(float(limit[i]), totals.spanned)
        row, reported = rows[name], verdict != "undetermined"
        features.append(
            Feature(
                name.removeprefix("f:"),
                orders.get(name, 0),
                float(limit[i]),
                float(totals.visibility[i]),
                row.se if reported else None,
                row.floor if reported else None,
                float(residual[i]),
                verdict,
            )
        )
    return Diagnosis(
        release=release.name,
        model=release.model.name,
        draws=release.size,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        resolved=int((eigenvalues > noise).sum()),
        index=float((eigenvalues / (eigenvalues + noise)).sum()),
        spectrum=eigenvalues / eigenvalues[0],
        noise=noise / eigenvalues[0],
        features=tuple(features),
        eigenfunctions=_describe(eigenvalues, noise, functions, polynomial, solved),
        warnings=(*problem.warnings, *_left_out(highest, order)),
        failures=problem.failures(totals.scores),
        seconds=time.perf_counter() - start,
    )


@_diagnosis.register
def _(
    release: Outputs,
    order: int,
    statistics: Statistics,
    metric: Metric | str | None,
    key: Key,
    progress: Progress | None,
    knows: Knows,
) -> OutputsDiagnosis:
    refuse_given("outputs", statistics=statistics, metric=metric, **knows)
    return diagnose_outputs(release)


def _left_out(highest: int, order: int) -> tuple[str, ...]:
    """A note on the degrees that were requested and not tried."""
    if highest >= order:
        return ()
    degrees = f"degree {order}" if highest + 1 == order else f"degrees {highest + 1} to {order}"
    return (f"monomials of {degrees} were not tried: there are more than {_MOST_FEATURES} of them",)


def monomials(
    variables: Sequence[Component], order: int, categories: Mapping[str, Sequence[Part]]
) -> tuple[Library, dict[str, int], int]:
    """Monomials of the standardised fields, each preceded by those of lower degree.

    Args:
        categories: for categorical fields, the indicators that replace the powers of the field.

    Returns:
        The monomials, the degree of each by name, and the highest degree that is included.
    """
    library = Library()
    orders: dict[str, int] = {}
    highest = 0
    for degree in range(order + 1):
        remaining = _MOST_FEATURES - len(library.parts)
        terms = list(itertools.islice(_terms(variables, categories, degree), remaining + 1))
        if len(terms) > remaining:
            break
        highest, lower = degree, tuple(library.parts)
        for term in terms:

            def product(records: dict[str, Array], term: tuple[Component | Part, ...] = term) -> np.ndarray:
                result = np.ones(len(next(iter(records.values()))))
                for factor in term:
                    result = result * factor.values(records)
                return result

            name = _monomial_name(term)
            library.parts[name] = Part(name, product, lower)
            orders[name] = degree
    return library, orders, highest


def _terms(
    variables: Sequence[Component], categories: Mapping[str, Sequence[Part]], degree: int
) -> Iterator[tuple[Component | Part, ...]]:
    """Factors of the monomials of one degree, with at most one category per field."""
    for indicators in range(min(degree, len(categories)) + 1):
        for fields in itertools.combinations(categories, indicators):
            for levels in itertools.product(*(categories[name] for name in fields)):
                for powers in itertools.combinations_with_replacement(variables, degree - indicators):
                    yield (*levels, *powers)


def _monomial_name(term: Sequence[Component | Part]) -> str:
    powers = [(name, len(list(group))) for name, group in itertools.groupby(factor.name for factor in term)]
    return "*".join(name if power == 1 else f"{name}^{power}" for name, power in powers) or "1"


def _average(part: str, count: float) -> Statistic:
    """The average of a part over the records; for the constant, the count relative to `count`."""
    if part == "1":
        return Statistic("1", ("1",), lambda totals: totals["1"] / count, lambda totals: {"1": 1 / count})
    return Statistic(
        part,
        ("1", part),
        lambda totals: totals[part] / totals["1"],
        lambda totals: {part: 1 / totals["1"], "1": -totals[part] / totals["1"] ** 2},
    )


def mercer(solved: Fit, count: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of the kernel operator on the probes, their noise, and the eigenfunctions at the probes.

    The average of an eigenfunction over `count` records has noise of variance `noise / eigenvalue`.

    Returns:
        `(r,)`, `(r,)` and `(Q, r)`. The eigenfunctions have unit mean square.
    """
    gram, cross = solved.gram, solved.functions
    values, vectors = np.linalg.eigh(gram)
    whiten = vectors / np.sqrt(np.maximum(values, 1e-14 * values[-1]))
    orthonormal = cross @ whiten
    _, singular, rotation = np.linalg.svd(orthonormal / np.sqrt(len(cross)), full_matrices=False)
    directions = whiten @ rotation.T
    eigenvalues = np.maximum(singular**2, 1e-300)
    covariance = solved.noise()
    noise = np.einsum("rk,rs,sk->k", directions, covariance, directions, optimize=True) / count**2
    return eigenvalues, noise, cross @ directions / np.sqrt(eigenvalues)


def _describe(
    eigenvalues: np.ndarray, noise: np.ndarray, functions: np.ndarray, library: Library, solved: Fit
) -> tuple[Eigenfunction, ...]:
    """Shares of the leading eigenfunctions' variance on monomials, each orthogonalised against simpler ones."""
    names = list(library.parts)
    q, r = np.linalg.qr(library.evaluate(solved.probes))
    alive = np.abs(np.diag(r)) > 1e-9 * np.abs(np.diag(r)).max()
    described = []
    for k in range(min(len(eigenvalues), 12)):
        shares = np.where(alive, (q.T @ functions[:, k]) ** 2, 0.0) / (functions[:, k] @ functions[:, k])
        largest = np.argsort(-shares)[:3]
        loadings = tuple((names[i], float(shares[i])) for i in largest if shares[i] > 0.05)
        described.append(
            Eigenfunction(float(eigenvalues[k] / eigenvalues[0]), float(noise[k] / eigenvalues[0]), loadings)
        )
    return tuple(described)
