"""Weighted records as free variables: what may move, in which coordinates, and under which constraints.

Records move in whitened coordinates inside their fields' domains. Fields that are known, and fields with
finitely many or whole values, stay as they were drawn, and the weights decide between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.domains import Domain
from bayesrecon.model import PseudoData, Records

WeightsKind = Literal["positive", "free", "total", "units", "fixed"]
Variables = dict[str, Any]

_EDGE = 1e-9  # records start at least this far, in units of their scale, from the ends of their domain
_WEIGHT_STEP = 0.1  # weights move less readily than records


@dataclass(frozen=True)
class Chart:
    """Coordinates of weights and records; hashable, so that compiled functions are reused.

    Attributes:
        moved: `(field, domain)` of the fields that move.
        weights: "positive", "free", "total" (positive, with the given sum), "units" (positive, summing to one
            over each run of `group` records) or "fixed".
    """

    moved: tuple[tuple[str, Domain], ...]
    weights: WeightsKind = "positive"
    total: float = 0.0
    group: int = 1

    def weights_at(self, x: Variables, given: Any) -> Any:
        """`(M,)`; `given` are the weights of the start."""
        if self.weights == "fixed":
            return jnp.asarray(given)
        if self.weights == "free":
            return x["weights"]
        if self.weights == "total":
            return self.total * jax.nn.softmax(x["weights"])
        if self.weights == "units":
            return jax.nn.softmax(x["weights"].reshape(-1, self.group), axis=1).reshape(-1)
        return jnp.exp(x["level"] + x["weights"])

    def records_at(self, x: Variables, fixed: Records, centre: Records, scale: Records) -> Records:
        """Records, or one record, from the coordinates of the moving fields."""
        moved = {name: _outward(domain, x[name], centre[name], scale[name]) for name, domain in self.moved}
        return {**fixed, **moved}


@dataclass(frozen=True)
class Support:
    """A chart with its start.

    Attributes:
        start: weights and records to begin with.
        centre, scale: `{field: shape}`, what whitens the moving fields.
    """

    chart: Chart
    start: PseudoData
    centre: Records
    scale: Records

    @property
    def fixed(self) -> Records:
        moved = {name for name, _ in self.chart.moved}
        return {k: np.asarray(v) for k, v in self.start.records.items() if k not in moved}

    def pack(self) -> Variables:
        """The coordinates of the start."""
        weights, kind = np.asarray(self.start.weights, float), self.chart.weights
        x: Variables = {
            name: _inward(domain, np.asarray(self.start.records[name], float), self.centre[name], self.scale[name])
            for name, domain in self.chart.moved
        }
        if kind == "free":
            x["weights"] = weights
        elif kind != "fixed":
            logs = np.log(np.maximum(weights, 1e-12 * max(float(weights.max()), 1e-300)))
            # One coordinate for all of them together: the number of records can change in a single move.
            x["weights"] = logs - logs.mean()
            if kind == "positive":
                x["level"] = np.asarray(logs.mean())
        return x

    def unpack(self, x: Mapping[str, Any]) -> PseudoData:
        """Weights and records as NumPy arrays."""
        arrays = {k: jnp.asarray(v) for k, v in x.items()}
        records = self.chart.records_at(arrays, self.fixed, self.centre, self.scale)
        weights = np.asarray(self.chart.weights_at(arrays, self.start.weights))
        return PseudoData(weights, {k: np.asarray(records[k]) for k in self.start.records})

    def steps(self) -> Variables:
        """How far each coordinate may move at once."""
        size = _WEIGHT_STEP if self.chart.moved else 1.0
        return {k: np.full(np.shape(v), size if k == "weights" else 1.0) for k, v in self.pack().items()}


def _outward(domain: Domain, x: Any, centre: Any, scale: Any) -> Any:
    low, high = domain.low, domain.high
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * jax.nn.sigmoid(x)
    value = centre + scale * x
    if np.isfinite(low):
        return low + scale * jax.nn.softplus((value - low) / scale)
    if np.isfinite(high):
        return high - scale * jax.nn.softplus((high - value) / scale)
    return value


def _inward(domain: Domain, value: np.ndarray, centre: Any, scale: Any) -> np.ndarray:
    low, high = domain.low, domain.high
    if np.isfinite(low) and np.isfinite(high):
        share = np.clip((value - low) / (high - low), _EDGE, 1 - _EDGE)
        return np.log(share) - np.log1p(-share)
    if np.isfinite(low):
        value = low + scale * _softplus_inverse((value - low) / scale)
    elif np.isfinite(high):
        value = high - scale * _softplus_inverse((high - value) / scale)
    return (value - centre) / scale


def _softplus_inverse(y: np.ndarray) -> np.ndarray:
    y = np.maximum(y, _EDGE)
    return y + np.log(-np.expm1(-y))
