"""Likelihoods whose score jumps, such as those with absolute errors, hinges or rectifiers.

If the score of a record jumps as parameters move, integration by parts leaves a term at the jump that no derivative
contains, and recovered statistics are far off. The traced program shows where branches depend on the parameters:
absolute values, maxima, signs and choices. Most branches join smoothly, or occur where no record of the model lies
(limits against overflow). So records and draws on either side of a branch are joined by a line, the branch is located
on it, and the scores just before and after are compared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.models.inspection import typical_values
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.draws_on_disk import as_rows

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var

_POINTS, _RECORDS, _SPREADS = 8, 36, (1.0, 1.0, 10.0)  # draws, records of each and how far they lie from typical ones
_LINES = 32  # lines that are searched for a branch
_HALVINGS, _STEP = 44, 1e-6  # of a line, and the part of one between a branch and the scores beside it
_JUMP, _CURVED = 1e-3, 20.0  # of a usual score; of its change over as short a way on one side
_PLAUSIBLE = 8.0  # log densities below the most likely record, from which records do not matter
_SUBPROGRAMS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLS = {"jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
# What libraries compute by branches that join smoothly, by name; this only saves time, others are tested.
_SMOOTH = {
    "logaddexp",
    "softplus",
    "logsumexp",
    "log_softmax",
    "softmax",
    "log_sigmoid",
    "xlogy",
    "xlog1py",
    "log_ndtr",
    "_clipped_expit",
    "clamp_probs",
    "binary_cross_entropy_with_logits",
    "betaln",
    "log1mexp",
    "remainder",
}
_LIBRARIES = ("/jax/", "/numpyro/", "/bayesrecon/")
_OPERATIONS = {
    "abs": "an absolute value",
    "sign": "a sign",
    "clamp": "a clipped value",
    "select_n": "a choice",
    "max": "a maximum",
    "reduce_max": "a maximum",
    "min": "a minimum",
    "reduce_min": "a minimum",
}

_kinks_found: WeakKeyDictionary[Callable[..., object], str | None] = WeakKeyDictionary()


def refuse_kinks(release: PosteriorDraws) -> None:
    """Refuse draws of a model whose score jumps. Each model is tested once.

    Raises:
        BayesreconError: the score jumps; the message names the operation.
    """
    model = release.model
    if model.smooth or model.gaussian is not None:
        return
    key = model.log_lik_at
    if key not in _kinks_found:
        _kinks_found[key] = kink(release)
    if (what := _kinks_found[key]) is not None:
        raise BayesreconError(
            f"{model.name}: {what} makes the score of a record jump as parameters move, as absolute errors, hinges and "
            "rectifiers do; totals are recovered only from smooth scores. `bayesrecon audit` attacks log densities, if "
            "the file has any"
        )


def kink(release: PosteriorDraws) -> str | None:
    """The operation that makes the score jump, in words; None if there is none."""
    model, rng = release.model, np.random.default_rng(0)
    draws = as_rows(release.theta)
    theta = np.asarray(draws[evenly(release.size, _POINTS)])
    example = {k: v[0] for k, v in _plain(model, rng).items()}
    traced = jax.make_jaxpr(model.log_lik)(theta[0], example)
    depends = [True, *[False] * len(example)]
    switches = list(_static(traced.jaxpr, depends))
    if not switches:
        return None
    records = [_records(model, rng, point) for point in theta]
    scale = np.std(draws[evenly(release.size, 1000)], axis=0)
    passes = _compiled_passes(model, traced, depends)
    places, highest, typical_score = _branches_at_records(passes, theta, records, scale)
    lines = list(_lines(places, len(switches), rng))
    if not lines:
        return None
    starts, stops, which = (np.array(x) for x in zip(*lines, strict=True))
    flat = {k: np.concatenate([r[k] for r in records]) for k in example}
    real = {k: f.domain.kind in ("real", "positive", "interval") for k, f in model.fields.items()}
    begin = {k: v[starts] for k, v in flat.items()}
    end = {k: v[stops] if real[k] else begin[k] for k, v in flat.items()}
    points = np.repeat(theta, _RECORDS, axis=0)
    jump, change, value, discontinuity = passes.jumps(points[starts], points[stops], begin, end, which, scale)
    kinked = (np.asarray(value) > highest - _PLAUSIBLE) & np.isfinite(jump)
    kinked &= (np.asarray(jump) > _JUMP * typical_score) & (np.asarray(jump) > _CURVED * np.asarray(change))
    kinked |= (np.asarray(value) > highest - _PLAUSIBLE) & (np.asarray(discontinuity) > _JUMP)
    found = which[kinked]
    return _OPERATIONS[switches[int(np.bincount(found).argmax())]] if found.size else None


def _records(model: Model, rng: np.random.Generator, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Records that the model simulates with these parameters, `(_RECORDS, ...)`."""
    records = _plain(model, rng)
    if model.simulate is None:
        return records
    try:
        drawn = model.simulate(model.constrain(theta), records, jax.random.key(0))
    except Exception:  # a distribution that cannot be sampled
        return records
    return {k: np.asarray(drawn[k]) for k in records}


def _plain(model: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Records that do not depend on parameters."""
    spreads = np.resize(_SPREADS, _RECORDS)
    records = {}
    for k, field in model.fields.items():
        values = np.asarray(typical_values(field.domain, rng, (_RECORDS, *field.shape)))
        if field.domain.kind == "real":
            values = (values - 1.0) * 2 * spreads.reshape(-1, *[1] * len(field.shape))
        records[k] = values
    return records


@dataclass(frozen=True)
class _Passes:
    """Compiled passes over points and records: the branches, values and scores at them, and the jumps beside
    branches."""

    ends: Callable[..., tuple[list[jax.Array], jax.Array, jax.Array]]
    jumps: Callable[..., tuple[jax.Array, jax.Array, jax.Array, jax.Array]]


def _compiled_passes(model: Model, traced: "ClosedJaxpr", depends: Sequence[bool]) -> _Passes:
    def branches(theta: Array, record: Records) -> list[jax.Array]:
        values = jax.tree.leaves((theta, record))
        taken: list[jax.Array] = []
        _run(
            traced.jaxpr,
            traced.consts,
            [jnp.asarray(v, a) for v, a in zip(values, _types(traced), strict=True)],
            depends,
            taken,
        )
        return taken

    score = jax.value_and_grad(model.log_lik)

    @jax.jit
    def ends(theta: Array, records: Records, scale: Array) -> tuple[list[jax.Array], jax.Array, jax.Array]:
        def single(t: Array, record: Records) -> tuple[list[jax.Array], jax.Array, jax.Array]:
            value, slope = score(t, record)
            return branches(t, record), value, jnp.linalg.norm(slope * scale)

        return jax.vmap(single)(theta, records)

    @jax.jit
    def jumps(
        t0: Array, t1: Array, z0: Records, z1: Records, which: Array, scale: Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        def single(
            t0: Array, t1: Array, z0: Records, z1: Records, which: Array
        ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
            def at(u: Array) -> tuple[Array, Records]:
                return t0 + u * (t1 - t0), jax.tree.map(lambda a, b: a if _is_integer(a) else a + u * (b - a), z0, z1)

            first = branches(t0, z0)

            def same_branch(u: Array) -> jax.Array:
                current = branches(*at(u))
                return jnp.stack([jnp.all(a == b) for a, b in zip(first, current, strict=True)])[which]

            def bisect(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
                low, high = ends
                midpoint = (low + high) / 2
                unchanged = same_branch(midpoint)
                return jnp.where(unchanged, midpoint, low), jnp.where(unchanged, high, midpoint)

            low, high = jax.lax.fori_loop(0, _HALVINGS, bisect, (0.0, 1.0))
            theta, record = at((low + high) / 2)
            direction = jnp.where(jnp.any(t0 != t1), t1 - t0, scale)
            values, slopes = jax.vmap(lambda step: score(theta + step * direction, record))(
                _STEP * jnp.array([-3.0, -1.0, 1.0, 3.0])
            )
            slopes = slopes * scale
            size = jnp.linalg.norm(slopes[1:] - slopes[:-1], axis=1)
            discontinuity = jnp.abs(values[2] - values[1]) / (1 + jnp.abs(values[1]))
            return size[1], jnp.maximum(size[0], size[2]), jnp.maximum(values[1], values[2]), discontinuity

        return jax.vmap(single)(t0, t1, z0, z1, which)

    return _Passes(ends, jumps)


def _is_integer(values: Array) -> bool:
    return not jnp.issubdtype(values.dtype, jnp.floating)


def _types(traced: "ClosedJaxpr") -> list[np.dtype]:
    return [v.aval.dtype for v in traced.jaxpr.invars]


def _branches_at_records(
    passes: _Passes, theta: np.ndarray, records: Sequence[dict[str, np.ndarray]], scale: np.ndarray
) -> tuple[list[np.ndarray], float, float]:
    """The branches `(T R, ...)` that are taken, the highest density, and a typical score."""
    flat = {k: np.concatenate([r[k] for r in records]) for k in records[0]}
    branches, values, slopes = passes.ends(np.repeat(theta, _RECORDS, axis=0), flat, scale)
    values, slopes = np.asarray(values), np.asarray(slopes)
    finite = np.isfinite(values) & np.isfinite(slopes)
    if not finite.any():
        return [], 0.0, 0.0
    highest = float(values[finite].max())
    plausible = finite & (values > highest - _PLAUSIBLE)
    return [np.asarray(b).reshape(len(values), -1) for b in branches], highest, float(np.median(slopes[plausible]))


def _lines(places: Sequence[np.ndarray], count: int, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Pairs of points on either side of each branch, `_LINES` in all, or none."""
    pairs = []
    for k, taken in enumerate(places):
        first, second = (rng.permutation(len(taken)) for _ in range(2))
        differing = np.flatnonzero((taken[first] != taken[second]).any(axis=1))[: max(1, _LINES // count)]
        pairs += [(int(first[i]), int(second[i]), k) for i in differing]
    if pairs:
        yield from (pairs[i % len(pairs)] for i in range(_LINES))


# The traced program


def _inner(eqn: "JaxprEqn") -> Any:
    """The program that an equation calls; None if it calls none."""
    if eqn.primitive.name not in _CALLS:
        return None
    return next((eqn.params[k] for k in _SUBPROGRAMS if k in eqn.params), None)


def _smooth(eqn: "JaxprEqn", outermost: bool) -> bool:
    """Whether the equation is from a library function that is known to be smooth.

    An inner program may have been traced for another caller, so only the outermost program shows the caller.
    """
    if _called(eqn) in _SMOOTH:
        return True
    frames = getattr(eqn.source_info.traceback, "frames", ()) if outermost else ()
    return any(f.function_name in _SMOOTH and any(part in f.file_name for part in _LIBRARIES) for f in frames)


def _called(eqn: "JaxprEqn") -> str:
    """The name of the function that an equation calls. With custom derivatives, only its program has the name."""
    if "name" in eqn.params:
        return str(eqn.params["name"])
    inner = _inner(eqn)
    return getattr(getattr(getattr(inner, "jaxpr", inner), "debug_info", None), "func_name", "")


def _static(jaxpr: "Jaxpr", depends: Sequence[bool]) -> Iterator[str]:
    """Names of the operations that branch by quantities that depend on the parameters."""
    yield from _branching_operations(jaxpr, depends)[1]


def _branching_operations(
    jaxpr: "Jaxpr", depends: Sequence[bool], outermost: bool = True
) -> tuple[list[bool], list[str]]:
    depending, names = dict(zip(jaxpr.invars, depends, strict=True)), []

    def of(v: Any) -> bool:
        return not hasattr(v, "val") and depending.get(v, False)

    for eqn in jaxpr.eqns:
        inputs_depend = [of(v) for v in eqn.invars]
        inner, smooth = _inner(eqn), any(inputs_depend) and _smooth(eqn, outermost)
        if inner is not None and any(inputs_depend) and not smooth:
            out, more = _branching_operations(getattr(inner, "jaxpr", inner), inputs_depend, False)
            names += more
        else:
            if not smooth and _branch(eqn.primitive.name, inputs_depend):
                names.append(eqn.primitive.name)
            out = [any(inputs_depend) and eqn.primitive.name != "stop_gradient"] * len(eqn.outvars)
        depending.update(zip(eqn.outvars, out, strict=True))
    return [of(v) for v in jaxpr.outvars], names


def _branch(name: str, depends: Sequence[bool]) -> bool:
    return name in _OPERATIONS and (depends[0] if name == "select_n" else any(depends))


def _run(
    jaxpr: "Jaxpr",
    consts: Sequence[Array],
    values: Sequence[Array],
    depends: Sequence[bool],
    taken: list[jax.Array],
    outermost: bool = True,
) -> tuple[list[Array], list[bool]]:
    """The program's results, and whether they move; the branches that are taken are appended to `taken`."""
    env: dict[Var, Array] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(
        zip(jaxpr.invars, values, strict=True)
    )
    depending = dict(zip(jaxpr.invars, depends, strict=True))

    def of(v: Any) -> tuple[Array, bool]:
        return (v.val, False) if hasattr(v, "val") else (env[v], depending.get(v, False))

    for eqn in jaxpr.eqns:
        values_in, depends_in = zip(*map(of, eqn.invars), strict=True) if eqn.invars else ((), ())
        name, inner, smooth = eqn.primitive.name, _inner(eqn), any(depends_in) and _smooth(eqn, outermost)
        if inner is not None and any(depends_in) and not smooth:
            program, consts = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
            out, out_moves = _run(program, consts, values_in, depends_in, taken, False)
        else:
            if not smooth and _branch(name, depends_in):
                taken.append(_branch_taken(eqn, values_in))
            bound = eqn.primitive.get_bind_params(eqn.params)  # a pair before JAX 0.9
            functions, params = bound if isinstance(bound, tuple) else ((), bound)
            out = eqn.primitive.bind(*functions, *values_in, **params)
            out = out if eqn.primitive.multiple_results else [out]
            out_moves = [any(depends_in) and name != "stop_gradient"] * len(out)
        env.update(zip(eqn.outvars, out, strict=True))
        depending.update(zip(eqn.outvars, out_moves, strict=True))
    result = [of(v) for v in jaxpr.outvars]
    return [v for v, _ in result], [m for _, m in result]


def _branch_taken(eqn: "JaxprEqn", operands: Sequence[Array]) -> jax.Array:
    name = eqn.primitive.name
    if name in ("abs", "sign"):
        return jnp.real(operands[0]) >= 0
    if name in ("max", "min"):
        return jnp.asarray(operands[0] >= operands[1])
    if name == "clamp":
        low, value, high = operands
        return jnp.where(value < low, 0, jnp.where(value > high, 2, 1))
    if name == "select_n":
        return jnp.asarray(operands[0], int)
    axes = tuple(eqn.params["axes"])
    kept_axes = [k for k in range(operands[0].ndim) if k not in axes]
    flattened = jnp.transpose(operands[0], (*kept_axes, *axes)).reshape(*(operands[0].shape[k] for k in kept_axes), -1)
    return jnp.argmax(flattened if name == "reduce_max" else -flattened, axis=-1)
