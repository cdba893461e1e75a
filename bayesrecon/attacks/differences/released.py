"""Gram matrices of releases: the totals that the equations of any release determine, and those of a table without."""

import math
from functools import singledispatch

import numpy as np

from bayesrecon.attacks.differences.gram import ARITHMETIC, STEP, Gram, gram_of, moved_gram
from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.estimation.error_laws import SAMPLED
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.statistics import components
from bayesrecon.estimation.totals import SampledTotals, totals_of
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.posteriors.approximated.normal import order_of
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.precision import in_float64
from bayesrecon.releases import Derived, Release, StatedLimits

_MOST_FIELDS = 20  # whose squares and products are compared


@in_float64
def grams_of(
    release: Release,
    n: float | None = None,
    knows: Knows | None = None,
    solved: Problem | None = None,
) -> list[Gram]:
    """The Gram matrices that a release determines: none, one, or two that differ in the sign of a covariate's mean.

    Args:
        release: any release.
        n: number of records, if the release does not tell.
        knows: what an attacker knows. A covariate's domain may tell the sign where correlations were not released.
        solved: the solved release, if it is there.
    """
    settings = release.about.settings
    if settings.get("offset") or settings.get("fit_weights"):
        return []
    return _grams(release, n, knows or {}, solved)


@singledispatch
def _grams(release: Release, n: float | None, knows: Knows, solved: Problem | None) -> list[Gram]:
    """The totals that the equations of a release determine."""
    gram = gram_of_problem(release.name, solved or solve_release(release, **knows))
    gram = None if gram is None else gram.counted(n)
    return [] if gram is None else [gram]


@_grams.register
def _of_table(release: StatedLimits, n: float | None, knows: Knows, solved: Problem | None) -> list[Gram]:
    table, settings = release.limits, release.about.settings
    if release.about.name != "ols" or not settings["intercept"] or not isinstance(table, Coded) or table.scale is None:
        return []
    counted = table.footer.records(len(table.coefficients))
    if counted is not None:
        n = counted[0] if counted[0] == counted[1] else n
    known = check_knowledge(release.about, **knows).fields
    low, high = (-math.inf, math.inf) if len(known) != 2 else known[settings["covariates"][0]].domain.ends
    signs = [1.0] if low >= 0 or len(table.coefficients) == 1 else [-1.0] if high <= 0 else [1.0, -1.0]
    fields = (*settings["covariates"], settings["response"])
    numbers = table.coefficients, table.errors, table.scale
    found = [gram_of(release.name, fields, *numbers, n=n, sign=sign) for sign in signs]
    return [gram for gram in found if gram is not None]


@_grams.register
def _of_estimates(release: Derived, n: float | None, knows: Knows, solved: Problem | None) -> list[Gram]:
    """Those of least squares in closed form, which is exact in all units."""
    model, noise, phi = release.about, getattr(release, "noise", None), np.asarray(release.theta)[0]
    sampled = noise is not None and bool(np.asarray(noise.normal).any())
    if model.name != "ols" or not model.settings["intercept"] or sampled:
        return _grams.dispatch(Release)(release, n, knows, solved)
    fields = (*model.settings["covariates"], model.settings["response"])
    d, p = model.dimension, len(fields)
    half = np.zeros((len(phi), 0)) if noise is None else np.asarray(noise.bounded)
    half = np.column_stack([half, np.diag(ARITHMETIC * np.abs(phi))])
    size = np.maximum(np.abs(half) / np.maximum(np.abs(phi), 1e-300)[:, None], 0.0).max(axis=0)
    stretch = np.maximum(1.0, STEP / np.maximum(size, 1e-300)) * (size > 0)
    moved = phi + np.concatenate([np.zeros((1, len(phi))), (half * stretch).T, -(half * stretch).T])
    factor = np.zeros((len(moved), d, d))
    factor[:, *np.tril_indices(d)] = moved[:, d:]
    back = np.argsort(order_of(model))
    factor = factor[:, back]
    covariance = factor @ factor.transpose(0, 2, 1)
    distances = 2 * np.where(stretch, stretch, 1.0)
    gram = moved_gram(release.name, fields, moved[:, :p], covariance[:, :p, :p], moved[:, p], n, distances)
    return [] if gram is None else [gram]


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


def _product(parts: dict[str, object], one: str, other: str) -> str:
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
