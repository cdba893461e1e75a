"""The totals that a solved release determines, as a Gram matrix with its errors."""

from collections.abc import Mapping

import numpy as np

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.estimation.error_laws import SAMPLED
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import components
from bayesrecon.estimation.totals import SampledTotals, totals_of

_MOST_FIELDS = 20  # whose squares and products are compared


def gram_of_problem(name: str, problem: Problem) -> Gram | None:
    """The totals of a solved release; None if no data have it, or if it does not determine n, sums and squares."""
    if problem.unfit:
        return None
    knowledge, reference = problem.knowledge, problem.reference
    library, totals = totals_of(problem.solved, knowledge, reference)
    verdicts = (totals.law.verdict(float(v), totals.spanned) for v in totals.visibility)
    seen = {part for part, verdict in zip(library.parts, verdicts, strict=True) if verdict == "determined"}
    found = components(knowledge.fields, knowledge.aside, reference.centre, reference.scale)
    found = [c for c in found if {c.name, f"{c.name}*{c.name}"} <= seen][:_MOST_FIELDS]
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
    at = library.index(parts)
    change = np.diag([1.0, *(c.scale for c in found)])
    change[1:, 0] = [c.centre for c in found]

    def restored(values: np.ndarray) -> np.ndarray:
        """Symmetric matrices `(k, m, m)` in the fields' own units, from the entries `(k, q)`."""
        full = np.zeros((len(values), len(change), len(change)))
        i, j = np.triu_indices(len(change))
        full[:, i, j] = full[:, j, i] = values
        return change @ full @ change.T

    bounded, normal = _errors(totals, problem, at)
    noise = restored(normal) if normal.any() else None
    return Gram(name, tuple(names), restored(totals.totals[at][None])[0], restored(bounded), None, noise)


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
