"""Releases from draws. All sources go through `from_draws`, which checks the draws."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError, Note, near
from bayesrecon.model import Identity, Model, Parameter
from bayesrecon.models.losses import named_leaves
from bayesrecon.models.power import tempered
from bayesrecon.models.registry import load
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.weights import in_runs, weighted, weights_among
from bayesrecon.precision import in_float64
from bayesrecon.releases import GuaranteedDraws, PosteriorDraws, TrainedParameter


def from_draws(
    draws: Draws | Mapping[str, Array],
    model: Model,
    *,
    power: float | None = None,
    name: str | None = None,
    ignore_unknown: bool = False,
    weights: str | bool = True,
) -> PosteriorDraws:
    """A release from posterior draws in the model's own parameters.

    Args:
        draws: a `Draws`, or `{parameter: (chains, draws, *shape)}`.
        model: the model of the draws.
        power: power of the likelihood, if the posterior is tempered (`models.tempered`). Totals are then those of the
            data. The release only determines the power times each total, so no check can notice a wrong power.
        name: name for display.
        ignore_unknown: leave out variables that the model does not have (transformed parameters, generated quantities)
            with a note, instead of refusing them.
        weights: name of the variable that holds the weights of the draws. True looks for `weight`, `weights`, `mult`,
            `multiplicity`, `log_weight` or `log_weights` beside the parameters. False gives all draws the same weight.
            Whole numbers are multiplicities: how often the chain was in that state.

    Raises:
        BayesreconError: parameters are missing or unknown, shapes are wrong, values are missing, or values are outside
            the support. Draws exactly on a boundary of the support would be infinite when unconstrained. They are
            dropped, and the release notes how many.

    >>> from bayesrecon.models.registry import load
    >>> rng = np.random.default_rng(0)
    >>> values = {"beta": rng.normal(size=(2, 50, 2)), "sigma": rng.gamma(5, size=(2, 50))}
    >>> from_draws(values, load("kidscore_momiq")).theta.shape
    (100, 3)
    """
    model = model if power is None else tempered(model, power)
    draws = draws if isinstance(draws, Draws) else Draws({k: np.asarray(v) for k, v in draws.items()})
    release, positions = accepted_draws(draws, model, name=name, ignore_unknown=ignore_unknown, weights=weights)
    draw_weights = weights_among(draws.values, [p.name for p in model.parameters], weights)
    return release if draw_weights is None else in_runs(release, draw_weights, positions)


@in_float64
def accepted_draws(
    draws: Draws,
    model: Model,
    *,
    name: str | None = None,
    ignore_unknown: bool = False,
    weights: str | bool = True,
) -> tuple[PosteriorDraws, np.ndarray]:
    """Like `from_draws`, together with the positions `(T,)` of the release's draws among all draws, chain by chain.

    Here, each draw appears once: multiplicities become weights.
    """
    expected = {p.name: p for p in model.parameters}
    draw_weights = weights_among(draws.values, expected, weights)
    values = {k: v for k, v in draws.values.items() if draw_weights is None or k != draw_weights.name}
    values = values if model.prepare is None else model.prepare(values)
    notes = list(model.notes)
    if (sanitised := draws.attributes.get("bayesrecon_sanitised")) is not None:
        notes.append(
            f"these draws are marked as sanitised ({sanitised[:40]}): errors of what is recovered do not include "
            "the alteration"
        )
    missing = [k for k in expected if k not in values]
    unknown = [k for k in values if k not in expected]
    if missing:
        raise BayesreconError(
            f"the draws lack parameter {missing[0]} of model {model.name}{near(missing[0], unknown)} "
            f"(they hold {_listed_names(values)})"
        )
    if unknown and not ignore_unknown:
        raise BayesreconError(
            f"the draws hold {unknown[0]}, which model {model.name} does not have{near(unknown[0], expected)} "
            f"(its parameters: {_listed_names(expected)}); is this the right model?"
        )
    if unknown:
        notes.append(Note(f"model {model.name} does not have {_listed_names(unknown)}: ignored"))
    columns = {k: _column(p, values[k]) for k, p in expected.items()}
    shapes = {v.shape[:2] for v in columns.values()}
    if len(shapes) > 1:
        raise BayesreconError(f"parameters have different numbers of chains or draws: {sorted(shapes)}")
    chains, length = shapes.pop()
    flat = {k: v.reshape(chains * length, *v.shape[2:]) for k, v in columns.items()}
    dropped = np.zeros(chains * length, bool)
    for p in model.parameters:
        dropped |= _on_boundary(p, flat[p.name])
    theta = _unconstrained(model, flat)
    dropped |= ~np.isfinite(theta).all(axis=1)
    if dropped.mean() > 0.5:
        raise BayesreconError(
            f"{dropped.sum()} of {dropped.size} draws lie on or outside the support of model {model.name}; "
            "is this the right model?"
        )
    if dropped.any():
        notes.append(f"{dropped.sum()} of {dropped.size} draws lie on a boundary of the support and were dropped")
    if (~dropped).sum() < 2:
        raise BayesreconError(f"{(~dropped).sum()} draw is too few; for a trained parameter use posteriors.dirac")
    log_density = None if draws.log_density is None else np.asarray(draws.log_density, float).reshape(-1)[~dropped]
    count = int((~dropped).sum())
    release = PosteriorDraws(
        theta=theta[~dropped],
        weights=np.full(count, 1.0 / count),
        chain=np.repeat(np.arange(1, chains + 1), length)[~dropped],
        log_density=log_density,
        model=model,
        name=name or draws.name,
        notes=tuple(notes),
    )
    if (mechanism := draws.attributes.get("bayesrecon_guaranteed")) is not None:
        same = {f.name: getattr(release, f.name) for f in fields(release)}
        release = GuaranteedDraws(**same, mechanism=mechanism)
    positions = np.flatnonzero(~dropped)
    return (release if draw_weights is None else weighted(release, draw_weights, positions)), positions


def check_parameters(model: Model, params: Mapping[str, object]) -> None:
    """Raise an error unless `params` has exactly the model's parameters."""
    expected = [p.name for p in model.parameters]
    for k in expected:
        if k not in params:
            raise BayesreconError(f"parameter {k} of model {model.name} is missing{near(k, params)}")
    for k in params:
        if k not in expected:
            raise BayesreconError(f"model {model.name} has no parameter {k}{near(str(k), expected)}")


@in_float64
def dirac(
    model: Model,
    params: Mapping[str, object] | Sequence[object],
    *,
    tolerance: float = 0.0,
    name: str = "trained parameter",
) -> TrainedParameter:
    """A release from a trained parameter: one atom at temperature 0.

    Args:
        params: `{parameter: value}` in the model's own parameters. Nested dicts and lists as in `models.from_loss`.
        tolerance: largest entry of the mean gradient over the records at which training may have stopped. Deletion
            attacks say nothing about smaller changes.

    Raises:
        BayesreconError: parameters are missing or unknown, shapes are wrong, or values are outside the support.

    >>> from bayesrecon.models import load
    >>> dirac(load("linear_predictor"), {"coef": [[2.0]], "intercept": [1.0]}).theta.tolist()
    [[2.0, 1.0]]
    """
    expected = {p.name: p for p in model.parameters}
    if not isinstance(params, Mapping) or set(params) != set(expected):
        params = named_leaves(params)
    check_parameters(model, params)
    values = {k: _column(p, np.asarray(params[k])[None, None])[0] for k, p in expected.items()}
    theta = _unconstrained(model, values)
    if not np.isfinite(theta).all():
        raise BayesreconError(f"the parameters lie on or outside the support of model {model.name}")
    return TrainedParameter(theta, model, name=name, tolerance=tolerance)


def _unconstrained(model: Model, params: dict[str, np.ndarray]) -> np.ndarray:
    """Unconstrained draws `(T, d)`, from `(T, ...)` of every parameter. Nothing is compiled if all are real numbers."""
    if all(isinstance(p.transform, Identity) for p in model.parameters):
        return np.concatenate([params[p.name].reshape(len(params[p.name]), p.size) for p in model.parameters], axis=1)
    return np.array(_transformed(model, params), float)


@partial(jax.jit, static_argnames="model")
def _transformed(model: Model, params: dict[str, np.ndarray]) -> jax.Array:
    return jax.vmap(model.unconstrain)(params)


def _column(parameter: Parameter, values: Array) -> np.ndarray:
    """Checked draws `(chains, draws, *shape)` of one parameter."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise BayesreconError(f"draws of {parameter.name} are not numbers (dtype {values.dtype})")
    values = values.astype(float)
    if values.ndim == 2 and parameter.shape and set(parameter.shape) == {1}:  # `beta` for `beta.1`: one entry
        values = values.reshape(*values.shape, *parameter.shape)
    if values.ndim < 2 or values.shape[2:] != parameter.shape:
        raise BayesreconError(
            f"draws of {parameter.name} have shape {values.shape}, expected (chains, draws"
            f"{''.join(f', {n}' for n in parameter.shape)}); are these draws of another model?"
        )
    infinite = int((~np.isfinite(values)).sum())
    if infinite:
        raise BayesreconError(
            f"draws of {parameter.name} hold {infinite} missing or infinite values; remove those draws"
        )
    if parameter.bounds is not None:
        low, high = parameter.bounds
        outside = values[(values < low) | (values > high)]
        if outside.size:
            raise BayesreconError(
                f"{outside.size} draws of {parameter.name} lie outside its support [{low:g}, {high:g}], "
                f"e.g. {outside[0]:g}; are they on another scale?"
            )
    return values


def _on_boundary(parameter: Parameter, values: np.ndarray) -> np.ndarray:
    if parameter.bounds is None:
        return np.zeros(len(values), bool)
    edge = (values == parameter.bounds[0]) | (values == parameter.bounds[1])
    return edge.reshape(len(values), -1).any(axis=1)


def _listed_names(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:6]) + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")


def stored_model(draws: Draws) -> Model:
    """The shipped model that is named in the attributes of a file, with the settings and power stored there."""
    name = draws.attributes.get("bayesrecon_model")
    if name is None:
        raise BayesreconError(
            f"{draws.name} does not name its model; pass one (model=, or --model NAME or file.py:name)"
        )
    try:
        settings = json.loads(draws.attributes.get("bayesrecon_model_settings", "{}"))
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise BayesreconError(f"{draws.name}: the stored model settings are damaged; pass the model yourself")
    model = load(name, **settings)
    stored = draws.attributes.get("bayesrecon_power")
    try:
        return model if stored is None else tempered(model, float(stored))
    except ValueError:
        raise BayesreconError(f"{draws.name}: the stored power is damaged; pass the model yourself") from None
