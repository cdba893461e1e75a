"""A descent of a reconstruction: its best iterate, its trace, its checkpoint, and why it ended."""

import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.duality import CANDIDATES, Ends, lowest
from bayesrecon.attacks.pseudodata.adam import Slicing, adam_start, adam_steps
from bayesrecon.attacks.pseudodata.descent import merge, newton, nonnegative, quasi_newton
from bayesrecon.attacks.pseudodata.refits import supported
from bayesrecon.attacks.pseudodata.support import Features, Support, Variables, amplitudes, sweep_of
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.problem import Problem
from bayesrecon.files import write_whole
from bayesrecon.json_types import Json
from bayesrecon.model import Model, Progress, PseudoData, Records, entry
from bayesrecon.regularisers import Regulariser
from bayesrecon.results.reconstruction import Reconstruction, moments_of

if TYPE_CHECKING:
    from optax import OptState


# Trace of a descent, and the checkpoint that it can be resumed from.


COLUMNS = ("iteration", "seconds", "objective", "gap")


@dataclass
class Trace:
    """Rows of `iteration, seconds, objective, gap` and the weighted moments of the fields.

    Attributes:
        fields: `{field: shape}` of the fields whose moments are recorded.
        rows: one list per recorded iterate, in the order of `columns`.
        started: time of the start, in seconds.
    """

    fields: Mapping[str, tuple[int, ...]]
    rows: list[list[float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def columns(self) -> list[str]:
        names = [entry(name, index) for name, shape in self.fields.items() for index in np.ndindex(shape)]
        return [*COLUMNS, "n", *(f"mean({n})" for n in names), *(f"var({n})" for n in names)]

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def add(self, iteration: int, objective: float, gap: float, pseudo: PseudoData) -> None:
        total, mean, variance = moments_of(np.asarray(pseudo.weights), pseudo.records, list(self.fields))
        self.rows.append([iteration, self.seconds, objective, gap, total, *mean, *variance])


@dataclass
class Checkpoint:
    """A file with the variables of a descent, its trace and its settings.

    It is written at most once in `interval` seconds and when the descent ends. It is never incomplete, and contains no
    pickles.

    Attributes:
        about: settings that must agree when a descent resumes.
        written: time of the last writing, in seconds.
    """

    path: Path
    about: Json
    interval: float = 10.0
    written: float = field(default_factory=time.perf_counter)

    def due(self) -> bool:
        return time.perf_counter() - self.written >= self.interval

    def save(self, iteration: int, arrays: Mapping[str, Array], trace: Trace) -> None:
        content = {f"x_{k}": np.asarray(v) for k, v in arrays.items()}
        content["trace"] = np.array(trace.rows).reshape(len(trace.rows), len(trace.columns))
        content["about"] = np.array(json.dumps({**self.about, "iteration": iteration, "columns": trace.columns}))

        def write(temporary: Path) -> None:
            with temporary.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **content)

        write_whole(self.path, write)
        self.written = time.perf_counter()

    def load(self, trace: Trace) -> tuple[int, dict[str, np.ndarray]] | None:
        """The iteration and the arrays; None if the file does not exist yet. The rows of the trace are restored.

        Raises `BayesreconError` if the file is not a checkpoint, or one of another descent.
        """
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                content = {k: archive[k] for k in archive.files}
            about = json.loads(str(content.pop("about")))
            rows = content.pop("trace")
            iteration, columns = int(about.pop("iteration")), about.pop("columns")
        except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
            raise BayesreconError(f"{self.path} is not a checkpoint of a reconstruction; choose another file") from None
        expected = json.loads(json.dumps(self.about))
        if columns != trace.columns or about != expected:
            different = [k for k in expected if about.get(k) != expected[k]] or ["fields"]
            raise BayesreconError(
                f"{self.path} is a checkpoint of another reconstruction (different {', '.join(different)}); "
                "choose another file, or remove it"
            )
        trace.rows = rows.tolist()
        if trace.rows:
            trace.started = time.perf_counter() - trace.rows[-1][1]
        return iteration, {k[2:]: v for k, v in content.items() if k.startswith("x_")}


# Certificates of optimality: lower bounds of the divergence.
#
# For a kernel of finite rank and weights that are only constrained to be positive, the bound is the smallest value over
# all signed measures, `-b' G^-1 b / 2`. Otherwise it is the conditional-gradient duality gap. The divergence is convex
# in the measure, so for every feasible nu `FD(mu) - FD(nu) <= <g, mu - nu>` with the witness `g(z) = k(z, mu) -
# mu_data(z)`. The minimum of g over the stated domain bounds the gap to all non-negative measures of the given mass
# there.

_PER_ROW = 64  # values tried per row of a table; with fewer, the smallest witness is missed and the bound is too strong
_BROAD = 0.3  # share of the candidates that are spread broadly: the witness is smallest where records are missing
_WIDE = 10.0  # half width of the search on an unbounded field, in units of the data's spread
_MASS = 2.0  # bound on the mass, as a multiple of the measure's own


Box = dict[str, Ends]
"""Ends `(low, high)` by field."""


@dataclass(frozen=True)
class Certificate:
    """A certified distance to the optimum.

    Attributes:
        kind: "signed measures" or "measures of bounded mass".
        gap: largest difference between the divergence and its optimum.
        minima: records at the smallest local minima of the witness. If it is negative there, mass is missing.
        domain: `{field: (low, high)}`, the domain that was searched.
        mass: bound on the total weight.
    """

    kind: str
    gap: float
    minima: Records | None = None
    domain: Box | None = None
    mass: float | None = None


def signed(features: Features, pseudo: PseudoData) -> Certificate:
    """The gap to the best signed measure."""
    return Certificate("signed measures", 0.5 * float(np.sum(residual(features, pseudo) ** 2)))


def residual(features: Features, pseudo: PseudoData) -> Float[np.ndarray, " r"]:
    """`u = R (s - y)`, `(r,)`."""
    return features.root @ (np.asarray(features.at(pseudo.records)).T @ pseudo.weights) - features.matched


def bounded(
    features: Features, pseudo: PseudoData, support: Support, reference: Reference, rng: np.random.Generator
) -> Certificate:
    """The gap to the best non-negative measure of bounded mass on the stated domain."""
    slope = features.root.T @ residual(features, pseudo)  # the witness is c(z)' slope
    values_here = np.asarray(features.at(pseudo.records)) @ slope
    chart = support.chart
    if reference.known:
        return _by_rows(features, pseudo, support, reference, rng, slope, values_here)
    box, candidates = candidates_of(support, reference, rng, CANDIDATES)
    candidates = {k: np.concatenate([v, np.asarray(pseudo.records[k])]) for k, v in candidates.items()}
    values = np.asarray(features.at(candidates)) @ slope
    moving = {name: box[name] for name, _ in chart.moved}
    arguments = (features.embedding.release.model, tuple(moving), features.embedding.metric, *features.atoms, slope)
    refined = lowest(values, candidates, moving, partial(_witness, *arguments))
    value = min(v for _, v in refined)
    minima = {k: np.stack([np.asarray(record[k]) for record, _ in refined]) for k in candidates}
    mass = float(pseudo.weights.sum())
    if chart.weights in ("total", "fixed", "units"):
        gap = float(pseudo.weights @ values_here) - mass * value
    else:
        mass *= _MASS
        gap = float(pseudo.weights @ values_here) - mass * min(value, 0.0)
    return Certificate("measures of bounded mass", max(gap, 0.0), minima, box, mass)


def candidates_of(support: Support, reference: Reference, rng: np.random.Generator, count: int) -> tuple[Box, Records]:
    """The domain `{field: (low, high)}` to search, and records spread over it."""
    integer_fields = [k for k, f in reference.fields.items() if f.domain.kind == "integer" and k not in reference.known]
    box = {name: _box(reference, name) for name in (*(n for n, _ in support.chart.moved), *integer_fields)}
    broad = Reference(reference.fields, reference.known, reference.centre, reference.scale, _BROAD)
    records = broad.draw(rng, count)
    for name, ends in box.items():
        records[name] = inside(records[name], ends)
    return box, records


def inside(values: np.ndarray, ends: Ends) -> np.ndarray:
    """The values clipped to an interval. Integers stay integers."""
    low, high = ends if values.dtype.kind == "f" else (np.ceil(ends[0]), np.floor(ends[1]))
    return np.clip(values, low, high).astype(values.dtype)


def _by_rows(
    features: Features,
    pseudo: PseudoData,
    support: Support,
    reference: Reference,
    rng: np.random.Generator,
    slope: np.ndarray,
    values_here: np.ndarray,
) -> Certificate:
    """The gap if fields are known: each row of the table has the weight of one record."""
    rows = len(next(iter(reference.known.values())))
    unknown = {k: f for k, f in reference.fields.items() if k not in reference.known}
    best = np.full(rows, np.inf)
    broad = Reference(unknown, {}, reference.centre, reference.scale, _BROAD)
    for _ in range(_PER_ROW):
        values = np.asarray(features.at({**reference.known, **broad.draw(rng, rows)})) @ slope
        best = np.minimum(best, values)
    group = support.chart.group
    best = np.minimum(best, values_here.reshape(rows, group).min(axis=1))
    gap = float(pseudo.weights @ values_here - best.sum())
    box = {name: _box(reference, name) for name, _ in support.chart.moved}
    return Certificate("one record a row", max(gap, 0.0), None, box, float(rows))


def _box(reference: Reference, name: str) -> Ends:
    domain = reference.fields[name].domain
    centre = np.asarray(reference.centre.get(name, 0.0), float)
    reach = _WIDE * np.maximum(np.asarray(reference.scale.get(name, 1.0), float), 1e-12)
    low = np.full_like(centre, domain.low) if np.isfinite(domain.low) else centre - reach
    high = np.full_like(centre, domain.high) if np.isfinite(domain.high) else centre + reach
    return (low, high) if centre.shape else (float(low), float(high))


@partial(jax.jit, static_argnames=("model", "moved"))
def _witness(
    model: Model,
    moved: tuple[str, ...],
    metric: Array,
    theta: Array,
    inverse: Array,
    slope: Array,
    x: Records,
    fixed: Records,
) -> tuple[jax.Array, Records]:
    def value(x: Records) -> Array:
        batch = {k: jnp.asarray(v)[None] for k, v in {**fixed, **x}.items()}
        return amplitudes(model, metric, theta, inverse, batch)[0] @ slope

    return jax.value_and_grad(value)(x)


_ROUNDS = 30  # largest number of rounds of the conditional gradient method
_POOL = 2048  # number of records among which weights are distributed in the first round
_POLISH = 60  # largest number of Newton steps per round
_NOISE_SHARE = 0.01  # a gap below this share of the draws' resolution is small enough
_STRIDE = 100  # steps of Adam between two rows of the trace


@dataclass
class DescentRun:
    """A descent.

    Attributes:
        stopped: why the descent ended.
        best: smallest half of the squared residual, plus the penalty if there is one.
        variables: the best iterate, in the coordinates of the support's chart.
        first: half of the squared residual at the first iterate.
        state: variables and optimiser state of Adam.
        regulariser: penalty that is added to the divergence.
    """

    problem: Problem
    features: Features
    support: Support
    trace: Trace
    tolerance: float
    progress: Progress | None
    checkpoint: Checkpoint | None = None
    stopped: str = "converged"
    iteration: int = 0
    best: float = np.inf
    variables: Variables = field(default_factory=dict)
    first: float = 0.0
    state: tuple[Variables, "OptState"] | None = None
    warnings: list[str] = field(default_factory=list)
    regulariser: Regulariser | None = None

    @property
    def embedding(self) -> OneRelease:
        return self.problem.embedding

    @property
    def scale(self) -> float:
        """Scale of a gap: the divergence that can be gained over the empty measure."""
        return max(abs(self.features.bound), 1e-300)

    @property
    def noise(self) -> float:
        """Resolution of the draws, `rank / (2 T_eff)`."""
        solved = self.problem.solved
        return solved.law.resolution(solved.basis.size, self.embedding.effective_size)

    def watch(self, x: Variables, half: float) -> bool:
        """Record an iterate. Returns whether it has converged."""
        self.iteration += 1
        if half < self.best:
            self.best, self.variables = half, {k: np.asarray(v) for k, v in x.items()}
            self.trace.add(self.iteration, half + self.features.bound, half, self.support.unpack(x))
            self._save()
        self.first = self.first or half
        if self.progress is not None and half > 0 and self.first > 0:
            total_decrease = np.log(self.first / (self.tolerance * self.scale))
            self.progress(
                "fitting the records", float(np.clip(np.log(self.first / half) / max(total_decrease, 1e-9), 0, 1))
            )
        return half <= self.tolerance * self.scale

    def newton(self, steps: int | None) -> None:
        if not np.any(self.features.target) and self.support.chart.weights == "positive":
            self.warnings.append(
                "the target is zero: with a flat prior or regulariser the best weights are all zero; "
                "state what is known, e.g. total="
            )
        self._resume()
        if self.regulariser is not None:
            self.variables, self.stopped = quasi_newton(
                self.features, self.support, self.watch, self.regulariser, steps=steps or 2000
            )
            self.trace.add(self.iteration, *self._value(self.pseudo), self.pseudo)
            return
        chart, rank = self.support.chart, self.problem.solved.spectrum
        if chart.weights in ("fixed", "units") or (rank.gap and chart.moved and chart.weights == "positive"):
            self.stopped = newton(self.features, self.support, self.watch, steps=steps or 300)
            if chart.weights == "positive" and steps is None and self.best > self._sufficient_gap:
                self._continue_globally()
        else:
            self._conditional_gradient()

    @property
    def _sufficient_gap(self) -> float:
        """A gap at which the descent may stop."""
        return max(self.tolerance * self.scale, _NOISE_SHARE * self.noise)

    def _continue_globally(self) -> None:
        """Continue from the best weights on a pool, and keep the result if it is better than the local minimum."""
        local = self.best, self.support, self.variables, self.stopped
        self._conditional_gradient()
        if self._value(self.pseudo)[1] >= local[0]:
            self.best, self.support, self.variables, self.stopped = local

    def _conditional_gradient(self) -> None:
        """Conditional gradient method: best weights on a pool, descent from there, new records at the witness's minima.

        The optimum over non-negative measures has at most `rank` records, for any requested number.
        """
        support, requested = self.support, len(self.support.start.weights)
        total = support.chart.total if support.chart.weights == "total" else None
        pool = support.start.records
        if support.chart.moved:
            box, candidates = candidates_of(support, self.problem.reference, self.problem.rng, _POOL)
            pool = {k: np.concatenate([inside(pool[k], box[k]) if k in box else pool[k], candidates[k]]) for k in pool}
            # The certificate is for a domain, so the records must stay inside it.
            domains = tuple(
                (k, Domain("interval", np.min(box[k][0]), np.max(box[k][1]))) for k, _ in support.chart.moved
            )
            self.support = replace(support, chart=replace(support.chart, moved=domains))
        lowest, best_support = np.inf, self.support
        for step in range(_ROUNDS):
            best = PseudoData(nonnegative(self.features, pool, total), pool)
            if not best.weights.any():
                return
            best = merge(best, self.support.scale, requested)
            self.support, self.variables, self.best = self._with(best), {}, np.inf
            newton(self.features, self.support, self.watch, steps=_POLISH)
            if not support.chart.moved:
                return
            if (value := self._value(self.pseudo)[1]) < lowest:
                lowest, best_support = value, self._with(self.pseudo)
            certificate = self.certify()
            if self.progress is not None:
                self.progress("certifying the records", (step + 1) / _ROUNDS)
            if certificate.minima is None or certificate.gap <= self._sufficient_gap:
                return
            pool = {k: np.concatenate([np.asarray(self.pseudo.records[k]), certificate.minima[k]]) for k in pool}
        self.stopped, self.support, self.variables = "no further progress", best_support, {}

    def adam(self, objective: str, slicing: Slicing, steps: int, rate: float, key: np.ndarray) -> None:
        import jax.numpy as jnp

        if objective == "exact":
            slicing = replace(slicing, count=0)
        release, chart = self.embedding.release, self.support.chart
        plain = (self.embedding.metric, np.asarray(release.theta), self.embedding.weights)
        atoms = sweep_of(self.features) or plain
        start_weights, fixed, whiten = np.asarray(self.support.start.weights), self.support.fixed, self._whiten
        x: Variables = {k: jnp.asarray(v, float) for k, v in self.support.pack().items()}
        state = (x, adam_start(rate, x))
        resumed = self._resume_adam(state)
        if resumed is not None:
            self.iteration, state = resumed
        else:
            self._note(state)
        self.stopped = "all steps taken"
        while self.iteration < steps:
            stride = min(_STRIDE, steps - self.iteration)
            model, temperature = release.model, release.temperature
            static = (chart, model, temperature, slicing, rate, stride)
            state = adam_steps(
                *static, atoms, start_weights, fixed, whiten, key, self.iteration, state, self.regulariser
            )
            self.iteration += stride
            self._note(state)
            if not np.isfinite(self.trace.rows[-1][2]):
                self.stopped = "diverged"
                self.warnings.append("the descent diverged; the best iterate so far is kept. Lower rate=")
                return
            if self.progress is not None:
                self.progress("fitting the records", self.iteration / steps)

    def _note(self, state: tuple[Variables, "OptState"]) -> None:
        x: Variables = {k: np.asarray(v) for k, v in state[0].items()}
        pseudo = self.support.unpack(x)
        objective, gap = self._value(pseudo)
        self.trace.add(self.iteration, objective, gap, pseudo)
        if (value := gap + self._penalty(pseudo)) < self.best:
            self.best, self.variables = value, x
        self.state = state
        self._save()

    def _resume_adam(self, like: tuple[Variables, "OptState"]) -> tuple[int, tuple[Variables, "OptState"]] | None:
        if self.checkpoint is None or (saved := self.checkpoint.load(self.trace)) is None:
            return None
        import jax

        iteration, arrays = saved
        self.variables = {k[5:]: v for k, v in arrays.items() if k.startswith("best_")}
        pseudo = self.support.unpack(self.variables)
        self.best = self._value(pseudo)[1] + self._penalty(pseudo)
        leaves, structure = jax.tree_util.tree_flatten(like)
        return iteration, jax.tree_util.tree_unflatten(structure, [arrays[f"leaf_{i}"] for i in range(len(leaves))])

    def _resume(self) -> None:
        if self.checkpoint is None or (saved := self.checkpoint.load(self.trace)) is None:
            return
        self.iteration, arrays = saved
        self.support = self._with(self.support.unpack(arrays))

    def _save(self, last: bool = False) -> None:
        if self.checkpoint is None or not (last or self.checkpoint.due()) or not self.variables:
            return
        import jax

        arrays = self.variables
        if self.state is not None:  # Adam resumes from its last state, not from the best one
            leaves = jax.tree_util.tree_leaves(self.state)
            arrays = {f"best_{k}": v for k, v in arrays.items()} | {f"leaf_{i}": v for i, v in enumerate(leaves)}
        self.checkpoint.save(self.iteration, arrays, self.trace)

    def _with(self, pseudo: PseudoData) -> Support:
        return replace(self.support, start=pseudo)

    @property
    def _whiten(self) -> tuple[Records, Records]:
        return self.support.centre, self.support.scale

    @property
    def pseudo(self) -> PseudoData:
        return self.support.unpack(self.variables) if self.variables else self.support.start

    def _value(self, pseudo: PseudoData) -> tuple[float, float]:
        gap = 0.5 * float(np.sum(residual(self.features, pseudo) ** 2))
        return gap + self.features.bound, gap

    def _penalty(self, pseudo: PseudoData) -> float:
        return 0.0 if self.regulariser is None else float(self.regulariser(pseudo.weights, pseudo.records))

    def certify(self) -> Certificate:
        positive = self.support.chart.weights in ("positive", "free")
        if self.problem.solved.spectrum.gap and positive and not self.problem.knowledge.known:
            return signed(self.features, self.pseudo)
        return bounded(self.features, self.pseudo, self.support, self.problem.reference, self.problem.rng)

    def result(self, description: Json, seconds: float) -> Reconstruction:
        pseudo, certificate = self.pseudo, self.certify()
        self._save(last=True)
        description = {**description, "n": len(pseudo.weights)}
        noise = self.noise
        return Reconstruction(
            pseudo=pseudo,
            trace=tuple(tuple(row) for row in self.trace.rows),
            columns=tuple(self.trace.columns),
            objective_value=self._value(pseudo)[0],
            bound=self.features.bound,
            gap=certificate.gap,
            relative_gap=certificate.gap / self.scale if self.features.bound else None,
            gap_in_noise=certificate.gap / noise if noise else None,
            certificate=certificate.kind,
            domain=certificate.domain or {},
            mass=certificate.mass,
            rank=self.problem.solved.basis.size,
            weights=self.support.chart.weights,
            stopped=self.stopped,
            warnings=(*self.problem.warnings, *self.warnings),
            failures=self.problem.unfit,
            seconds=seconds,
            judge=partial(supported, self.problem),
            **description,
        )
