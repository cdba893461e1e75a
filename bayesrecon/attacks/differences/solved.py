"""The totals that a solved release determines, as a Gram matrix with its errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.diagnostics import Z95, effective_sample_size
from bayesrecon.estimation.error_laws import SAMPLED
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import Component, Library, components
from bayesrecon.estimation.totals import SampledTotals, totals_of
from bayesrecon.results.row import Row

_MOST_FIELDS = 20  # whose squares and products are compared


@dataclass(frozen=True)
class _Sums:
    """Totals of a solved release.

    Attributes:
        components: the scalar entries of its fields, whose totals are those of standardised values.
        seen: names of the parts that are determined.
    """

    problem: Problem
    library: Library
    totals: SampledTotals
    components: list[Component]
    seen: set[str]

    def of(self, parts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Totals `(q,)`, and columns of their errors with coefficients in [-1, 1] `(b, q)` and normal ones `(g, q)`."""
        at = self.library.index(parts)
        return self.totals.totals[at], *_errors(self.totals, self.problem, at)


def _sums(problem: Problem) -> _Sums:
    knowledge, reference = problem.knowledge, problem.reference
    library, totals = totals_of(problem.solved, knowledge, reference)
    verdicts = (totals.law.verdict(float(v), totals.spanned) for v in totals.visibility)
    seen = {part for part, verdict in zip(library.parts, verdicts, strict=True) if verdict == "determined"}
    found = components(knowledge.fields, knowledge.aside, reference.centre, reference.scale)
    return _Sums(problem, library, totals, found, seen)


def deleted_totals(before: Problem, after: Problem) -> tuple[Row, ...]:
    """Rows for the number of records that are in one release and not in the other, and for the sums of their fields."""
    both = _sums(before), _sums(after)
    rows: list[Row] = []
    for name in ("n", *(c.name for c in both[0].components)):
        label = name if name == "n" else f"sum({name})"
        totals: list[tuple[float, np.ndarray, np.ndarray]] = []
        for sums in both:
            component = next((c for c in sums.components if c.name == name), None)
            parts = ["1"] if component is None else ["1", name]
            change = np.array([1.0] if component is None else [component.centre, component.scale])
            if sums.seen.issuperset(parts):
                values, bounded, normal = sums.of(parts)
                totals.append((float(values @ change), bounded @ change, normal @ change))
        if len(totals) < len(both):
            rows.append(Row(label))
            continue
        (one, *errors), (two, *others) = totals
        bounded, normal = (np.concatenate(pair) for pair in zip(errors, others, strict=True))
        half = float(np.abs(bounded).sum() + Z95 * np.linalg.norm(normal))
        se = float(np.sqrt((bounded**2).sum() / 3 + (normal**2).sum()))
        rows.append(Row(label, one - two, se, one - two - half, one - two + half, None, 1.0, "determined"))
    return tuple(rows)


def gram_of_problem(name: str, problem: Problem, failures: Sequence[str] | None = None) -> Gram | None:
    """The totals of a solved release; None if no data have it, or if it does not determine n, sums and squares.

    Args:
        failures: those of its checks, if they were made.
    """
    if problem.unfit if failures is None else failures:
        return None
    sums = _sums(problem)
    library, seen = sums.library, sums.seen
    found = [c for c in sums.components if {c.name, f"{c.name}*{c.name}"} <= seen][:_MOST_FIELDS]
    if "1" not in seen:
        return None
    names = [c.name for c in found]
    while missing := [sum(_product(library.parts, a, b) not in seen for b in names) for a in names]:
        if not max(missing):
            break
        del found[int(np.argmax(missing))], names[int(np.argmax(missing))]
    if not found:
        return None
    # Totals of 1, of the standardised fields and of their products, row by row of the upper triangle.
    parts = ["1", *names, *(_product(library.parts, a, b) for k, a in enumerate(names) for b in names[k:])]
    change = np.diag([1.0, *(c.scale for c in found)])
    change[1:, 0] = [c.centre for c in found]

    def restored(values: np.ndarray) -> np.ndarray:
        """Symmetric matrices `(k, m, m)` in the fields' own units, from the entries `(k, q)`."""
        full = np.zeros((len(values), len(change), len(change)))
        i, j = np.triu_indices(len(change))
        full[:, i, j] = full[:, j, i] = values
        return change @ full @ change.T

    values, bounded, normal = sums.of(parts)
    noise = restored(normal) if normal.any() else None
    return Gram(name, tuple(names), restored(values[None])[0], restored(bounded), None, noise)


def _product(parts: Mapping[str, object], one: str, other: str) -> str:
    name = f"{one}*{other}"
    return name if name in parts else f"{other}*{one}"


def _errors(totals: SampledTotals, problem: Problem, at: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of totals: columns with coefficients in [-1, 1], and with standard normal ones, each a row `(k, q)`."""
    unseen = np.sqrt(np.mean(totals.unseen**2, axis=0)) if totals.unseen.size else np.zeros(len(totals.rounding))
    bounded = np.diag(np.maximum(totals.rounding, unseen)[at])
    if (errors := totals.errors) is None and totals.law is not SAMPLED:
        return bounded, np.zeros((0, len(at)))
    if errors is not None:
        return np.concatenate([bounded, errors.bounded[at].T, errors.rule[at].T]), errors.normal[at].T
    embedding = problem.solved.embedding
    chosen = np.eye(len(totals.rounding))[:, at]
    series = totals.influence @ chosen
    series = series - embedding.weights @ series
    size = effective_sample_size(series, totals.chain).min() * embedding.effective_size / len(series)
    own, vectors = np.linalg.eigh((embedding.weights[:, None] * series).T @ series / size)
    return bounded, (vectors * np.sqrt(np.maximum(own, 0.0))).T
