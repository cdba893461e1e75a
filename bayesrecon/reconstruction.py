"""The verb `reconstruct`: weighted records whose posterior has the released draws' score."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.certificate import Certificate, bounded, candidates_of, residual, signed
from bayesrecon.descent import merge, newton, nonnegative, quasi_newton
from bayesrecon.domains import Domain
from bayesrecon.embedding import Embedding, Progress
from bayesrecon.errors import BayesreconError
from bayesrecon.features import Features
from bayesrecon.gradient import Slicing, adam_start, adam_steps, sliced_target
from bayesrecon.precision import in_float64
from bayesrecon.problem import Problem, solve_release
from bayesrecon.pseudodata import Reconstruction
from bayesrecon.start import make_support
from bayesrecon.support import Support, Variables
from bayesrecon.trace import Checkpoint, Trace
from bayesrecon.types import PseudoData, Records, Release

_RECORDS = 200
_ROUNDS, _POOL, _POLISH = 30, 2048, 60
_NOISE_SHARE = 0.01  # of what the draws can resolve, that a gap may still be
_STEPS_OF_ADAM = 20_000
_STRIDE = 100  # steps of Adam between two rows of the trace


@in_float64
def reconstruct(
    release: Release,
    *,
    n: int | None = None,
    objective: str | None = None,
    method: str = "newton",
    start: str | PseudoData | None = None,
    slicing: Slicing | None = None,
    regulariser: Callable[[Any, Records], Any] | None = None,
    known: Mapping[str, Any] | None = None,
    unit: str | None = None,
    total: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    domain: Mapping[str, Any] | None = None,
    metric: str | None = None,
    coordinates: str | None = None,
    tolerance: float = 1e-10,
    steps: int | None = None,
    rate: float = 1e-3,
    checkpoint: str | Path | None = None,
    key: Any = 0,
    progress: Progress | None = None,
) -> Reconstruction:
    """Find weights and records whose Fisher divergence from the release is smallest.

    The divergence is `1/2 w'Kw - w'b + const` with `K = k(Z, Z)`, `b = mu(Z)` (see `bayesrecon.embedding`); the result
    says how far it can still be from its minimum. Many measures have the smallest divergence: what they share is what
    `recover` reports, and the records themselves are one choice among them.

    Args:
        release: draws, or a trained parameter (the objective is then half the squared gradient norm).
        n: M, the number of records (default 200; the number of rows where fields are known).
        objective: "exact" or "sliced" (default: exact; sliced for "adam").
        method: "newton", Gauss-Newton on whitened coordinates with positive weights; or "adam", the published
            recipe: identity metric, the parameters' own coordinates, free weights, fresh slices.
        start: "located" (around the recovered data), "published" (covariates standard normal, observed fields drawn
            from the model at the mean parameters, weights one) or a `PseudoData`.
        slicing: how the sliced objective is sliced.
        regulariser: `(weights, records) -> scalar`, added to the divergence; written with `jax.numpy`.
        known, unit, total, bounds, domain: what the attacker knows, as in `recover`. With known fields every row
            carries the weight of one record; fields with finitely many values become candidates of each row.
        metric, coordinates: as in `recover`.
        tolerance: relative gap at which to stop.
        steps, rate: of "adam".
        checkpoint: file to write progress to, and to resume from when it exists.
        key: an integer or a JAX key.
        progress: called with a label and the fraction done.

    Returns:
        A `Reconstruction`: `pseudo`, `trace`, `gap`, `relative_gap`, `certificate`.

    Raises:
        BayesreconError: for input that cannot be used, saying what to change.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.from_posteriordb("kidiq-kidscore_momiq")  # doctest: +SKIP
    >>> bayesrecon.reconstruct(release, n=100).relative_gap < 1e-6  # doctest: +SKIP
    True
    """
    began = time.perf_counter()
    published = method == "adam"
    objective = objective or ("sliced" if published else "exact")
    _check(release, n, objective, method, regulariser, steps, rate, tolerance)
    slicing = slicing or Slicing(fresh=published)
    if objective == "sliced" and slicing.count < 1:
        raise BayesreconError(f"slicing: {slicing.count} slices; expected a positive whole number")
    if slicing.law not in ("normal", "rademacher"):
        raise BayesreconError(f"slicing: law {slicing.law!r}; expected 'normal' or 'rademacher'")
    if objective == "sliced" and not published and slicing.fresh:
        raise BayesreconError("method='newton' needs fixed slices: pass slicing=Slicing(fresh=False), or method='adam'")
    name = coordinates or ("constrained" if published and release.temperature else "unconstrained")
    problem = solve_release(
        release,
        known=known,
        unit=unit,
        total=total,
        bounds=bounds,
        domain=domain,
        metric=metric or ("identity" if published else None),
        coordinates=name,
        key=key,
        progress=progress,
    )
    random = _jax_key(problem.rng)
    target = problem.solved.moments.target
    if objective == "sliced" and not published:
        target = sliced_target(problem.embedding, problem.solved.basis, target, slicing, random)
    features = Features(problem.embedding, problem.solved, target)
    support = make_support(
        problem, n or _RECORDS, start or ("published" if published else "located"), random, published
    )
    about = {
        "release": release.name,
        "draws": release.size,
        "model": release.model.name,
        "n": len(support.start.weights),
        "objective": objective,
        "method": method,
        "metric": problem.metric,
        "coordinates": name,
    }
    shapes = {f: problem.attacker.fields[f].shape for f in problem.attacker.fields if f not in problem.attacker.known}
    run = _Run(problem, features, support, Trace(shapes or _shapes(problem)), tolerance, progress)
    if checkpoint is not None:
        settings = {**about, "rate": rate, "slicing": str(slicing), "key": str(random.tolist())}
        run.checkpoint = Checkpoint(Path(checkpoint), settings)
    try:
        if published:
            run.adam(objective, slicing, steps or _STEPS_OF_ADAM, rate, random)
        else:
            run.newton(regulariser, steps)
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    return run.result(about, time.perf_counter() - began)


def _check(
    release: Release,
    n: int | None,
    objective: str,
    method: str,
    regulariser: Any,
    steps: int | None,
    rate: float,
    tolerance: float,
) -> None:
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise BayesreconError(f"n={n}: the number of pseudo-records is a positive whole number")
    if objective not in ("exact", "sliced"):
        raise BayesreconError(f"objective={objective!r}: expected 'exact' or 'sliced'")
    if method not in ("newton", "adam"):
        raise BayesreconError(f"method={method!r}: expected 'newton' or 'adam'")
    if regulariser is not None and method == "adam":
        raise BayesreconError("a regulariser needs method='newton'")
    if objective == "sliced" and not release.temperature:
        raise BayesreconError("a trained parameter has no Laplacian to slice; use objective='exact'")
    if steps is not None and steps < 1:
        raise BayesreconError(f"steps={steps}: expected a positive whole number")
    if not (rate > 0 and np.isfinite(rate)):
        raise BayesreconError(f"rate={rate}: the learning rate is a positive number")
    if not 0 < tolerance < 1:
        raise BayesreconError(f"tolerance={tolerance}: expected a relative gap between 0 and 1, e.g. 1e-10")


def _jax_key(rng: np.random.Generator) -> Any:
    import jax

    return np.asarray(jax.random.PRNGKey(int(rng.integers(2**31))))


def _shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    return {name: spec.shape for name, spec in problem.attacker.fields.items()}


@dataclass
class _Run:
    """One descent: its best iterate, its trace, and why it ended."""

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
    warnings: list[str] = field(default_factory=list)

    @property
    def embedding(self) -> Embedding:
        return self.problem.embedding

    @property
    def scale(self) -> float:
        """What a gap is relative to: the divergence that can be gained over the empty measure."""
        return max(abs(self.features.bound), 1e-300)

    @property
    def noise(self) -> float:
        """What the draws can resolve, `rank / (2 T_eff)`."""
        if not self.embedding.temperature:
            return 0.0
        return self.problem.solved.basis.size / (2 * self.embedding.effective_size)

    def watch(self, x: Variables, half: float) -> bool:
        """Note an iterate; True when it is good enough."""
        self.iteration += 1
        if half < self.best:
            self.best, self.variables = half, {k: np.asarray(v) for k, v in x.items()}
            self.trace.add(self.iteration, half + self.features.bound, half, self.support.unpack(x))
            self._save()
        self.first = self.first or half
        if self.progress is not None and half > 0 and self.first > 0:
            whole = np.log(self.first / (self.tolerance * self.scale))
            self.progress("descent", float(np.clip(np.log(self.first / half) / max(whole, 1e-9), 0, 1)))
        return half <= self.tolerance * self.scale

    def newton(self, regulariser: Callable[[Any, Records], Any] | None, steps: int | None) -> None:
        if not np.any(self.features.target) and self.support.chart.weights == "positive":
            self.warnings.append(
                "the target is zero: with a flat prior or regulariser the best weights are all zero; "
                "state what is known, e.g. total="
            )
        self._resume()
        if regulariser is not None:
            self.variables = quasi_newton(self.features, self.support, self.watch, regulariser, steps=steps or 2000)
            self.trace.add(self.iteration, *self._value(self.pseudo), self.pseudo)
            return
        chart, rank = self.support.chart, self.problem.solved.spectrum
        if chart.weights in ("fixed", "units") or (rank.gap and chart.moved and chart.weights == "positive"):
            newton(self.features, self.support, self.watch, steps=steps or 300)
        else:
            self._conditional_gradient()

    def _conditional_gradient(self) -> None:
        """Best weights on a pool of records, descent from there, and new records where the witness is smallest.

        The optimum over non-negative measures sits on at most `rank` records, however many were asked for.
        """
        support, most = self.support, len(self.support.start.weights)
        total = support.chart.total if support.chart.weights == "total" else None
        pool = support.start.records
        if support.chart.moved:
            box, more = candidates_of(support, self.problem.reference, self.problem.rng, _POOL)
            pool = {k: np.concatenate([np.clip(pool[k], *box[k]) if k in box else pool[k], more[k]]) for k in pool}
            # What is certified on a domain must stay inside it.
            inside = tuple(
                (k, Domain("interval", np.min(box[k][0]), np.max(box[k][1]))) for k, _ in support.chart.moved
            )
            self.support = replace(support, chart=replace(support.chart, moved=inside))
        for step in range(_ROUNDS):
            best = PseudoData(nonnegative(self.features, pool, total), pool)
            if not best.weights.any():
                return
            best = merge(best, self.support.scale, most)
            self.support, self.variables, self.best = self._with(best), {}, np.inf
            newton(self.features, self.support, self.watch, steps=_POLISH)
            if not support.chart.moved:
                return
            found = self.certify()
            if self.progress is not None:
                self.progress("conditional gradient", (step + 1) / _ROUNDS)
            if found.minima is None or found.gap <= max(self.tolerance * self.scale, _NOISE_SHARE * self.noise):
                return
            pool = {k: np.concatenate([np.asarray(self.pseudo.records[k]), found.minima[k]]) for k in pool}
        self.stopped = "no further progress"

    def adam(self, objective: str, slicing: Slicing, steps: int, rate: float, key: Any) -> None:
        import jax.numpy as jnp

        if objective == "exact":
            slicing = replace(slicing, count=0)
        release, chart = self.embedding.release, self.support.chart
        atoms = (self.embedding.metric, np.asarray(release.theta), self.embedding.weights)
        given, fixed, whiten = np.asarray(self.support.start.weights), self.support.fixed, self._whiten
        x = {k: jnp.asarray(v, float) for k, v in self.support.pack().items()}
        state = (x, adam_start(rate, x))
        done = self._resume_adam(state)
        if done is not None:
            self.iteration, state = done
        else:
            self._note(state)
        self.stopped = "all steps taken"
        while self.iteration < steps:
            stride = min(_STRIDE, steps - self.iteration)
            model, temperature = release.model, release.temperature
            static = (chart, model, temperature, slicing, rate, stride)
            state = adam_steps(*static, atoms, given, fixed, whiten, key, self.iteration, state)
            self.iteration += stride
            self._note(state)
            if not np.isfinite(self.trace.rows[-1][2]):
                self.stopped = "diverged"
                self.warnings.append("the descent diverged; the best iterate before is kept. Lower rate=")
                return
            if self.progress is not None:
                self.progress("descent", self.iteration / steps)

    def _note(self, state: tuple[Variables, Any]) -> None:
        x = {k: np.asarray(v) for k, v in state[0].items()}
        pseudo = self.support.unpack(x)
        objective, gap = self._value(pseudo)
        self.trace.add(self.iteration, objective, gap, pseudo)
        if gap < self.best:
            self.best, self.variables = gap, x
        if self.checkpoint is not None and (self.checkpoint.due() or self.progress is None):
            import jax

            leaves = jax.tree_util.tree_leaves(state)
            best = {f"best_{k}": v for k, v in self.variables.items()}
            self.checkpoint.save(self.iteration, {**{f"leaf_{i}": v for i, v in enumerate(leaves)}, **best}, self.trace)

    def _resume_adam(self, like: tuple[Variables, Any]) -> tuple[int, tuple[Variables, Any]] | None:
        if self.checkpoint is None or (found := self.checkpoint.load(self.trace)) is None:
            return None
        import jax

        iteration, arrays = found
        self.variables = {k[5:]: v for k, v in arrays.items() if k.startswith("best_")}
        self.best = self._value(self.support.unpack(self.variables))[1]
        leaves, shape = jax.tree_util.tree_flatten(like)
        return iteration, jax.tree_util.tree_unflatten(shape, [arrays[f"leaf_{i}"] for i in range(len(leaves))])

    def _resume(self) -> None:
        if self.checkpoint is None or (found := self.checkpoint.load(self.trace)) is None:
            return
        self.iteration, arrays = found
        self.support = self._with(self.support.unpack(arrays))

    def _save(self) -> None:
        if self.checkpoint is not None and (self.checkpoint.due() or self.iteration == 1):
            self.checkpoint.save(self.iteration, self.variables, self.trace)

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

    def certify(self) -> Certificate:
        positive = self.support.chart.weights in ("positive", "free")
        if self.problem.solved.spectrum.gap and positive and not self.problem.attacker.known:
            return signed(self.features, self.pseudo)
        return bounded(self.features, self.pseudo, self.support, self.problem.reference, self.problem.rng)

    def result(self, about: dict[str, Any], seconds: float) -> Reconstruction:
        pseudo, certificate = self.pseudo, self.certify()
        if self.checkpoint is not None and self.variables and about["method"] != "adam":
            self.checkpoint.save(self.iteration, self.variables, self.trace)
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
            warnings=(*self.problem.release.notes, *self.warnings),
            seconds=seconds,
            **about,
        )
