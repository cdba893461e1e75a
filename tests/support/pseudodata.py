"""A reconstruction made by hand."""

from dataclasses import replace

import numpy as np

from bayesrecon.attacks.pseudodata.descent_run import Trace
from bayesrecon.results.reconstruction import Reconstruction
from bayesrecon.types import PseudoData


def example(fields=("x", "y"), steps=range(1, 11), weights=None, **changes):
    """A reconstruction of five records that got there geometrically."""
    rng = np.random.default_rng(0)
    weights = np.arange(1.0, 6.0) if weights is None else np.asarray(weights, float)
    pseudo = PseudoData(weights, {name: rng.normal(size=len(weights)) for name in fields})
    trace = Trace(dict.fromkeys(fields, ()))
    for i, step in enumerate(steps):
        trace.add(step, -1 + 10.0 ** (-i - 1), 10.0 ** (-i - 1), PseudoData(weights + 10.0**-i, pseudo.records))
    last = trace.rows[-1] if trace.rows else [0, 0, -1, 0.0]
    result = Reconstruction(
        pseudo=pseudo,
        trace=tuple(map(tuple, trace.rows)),
        columns=tuple(trace.columns),
        release="some-release",
        model="some-model",
        draws=1000,
        n=len(weights),
        objective="exact",
        method="newton",
        metric="covariance",
        coordinates="unconstrained",
        objective_value=last[2],
        bound=-1.0,
        gap=last[3],
        relative_gap=last[3],
        gap_in_noise=last[3] / 0.003,
        certificate="signed measures",
        domain={},
        mass=None,
        rank=6,
        weights="positive",
        stopped="converged",
    )
    return replace(result, **changes)
