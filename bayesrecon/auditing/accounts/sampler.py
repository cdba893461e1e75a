"""Statistics that samplers write beside their draws, and the values that each can have.

A name alone is not enough: an array `step_size` that contains data is not a step size.
"""

from collections.abc import Callable

import numpy as np

_OFTEN = 0.2  # largest share of divergent draws of a useful fit; bits of data are set half of the time
_VARIED = 0.15  # largest relative variation of a step size; nutpie uses a tenth
_TUNED = (0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0)  # factors by which PyMC's Metropolis sampler scales its steps

Check = Callable[[np.ndarray], bool]
"""A test of finite values `(chains, draws)`."""


def _between(low: float, high: float) -> Check:
    return lambda v: bool(np.all((v >= low - 1e-6) & (v <= high + 1e-6)))


def _whole(low: float, high: float) -> Check:
    return lambda v: bool(np.all((v == np.round(v)) & (v >= low) & (v <= high)))


_FLAG = _whole(0, 1)


def _constant(low: float = -np.inf) -> Check:
    """One value a chain."""
    return lambda v: bool(np.all(np.ptp(v, axis=1) == 0) and np.all(v > low))


def _step(v: np.ndarray) -> bool:
    """One value per chain, possibly with small variations, as in nutpie."""
    if not np.all(v > 0):
        return False
    low, high = v.min(axis=1), v.max(axis=1)
    return bool(np.all(high == low)) or bool(_real(v) and np.all(high - low <= 2 * _VARIED * (high + low) / 2))


def _seldom(v: np.ndarray) -> bool:
    """Flags that are set rarely or always, but not as often as bits of data."""
    return _FLAG(v) and (bool(v.mean() <= _OFTEN) or bool(v.all()))


def _ended(v: np.ndarray) -> bool:
    """Flags that are set only at the start of a chain."""
    return _FLAG(v) and bool(np.all(np.diff(v.astype(float), axis=1) <= 0))


def _rising(v: np.ndarray) -> bool:
    return bool(np.all(np.diff(v, axis=1) >= 0))


def _counting(v: np.ndarray) -> bool:
    """Integers that count up."""
    return _COUNT(v) and _rising(v)


def _scaled(v: np.ndarray) -> bool:
    """Positive numbers: one per chain, or each a fixed multiple of the previous one."""
    if not np.all(v > 0):
        return False
    ratios = v[:, 1:] / v[:, :-1]
    return bool(np.isclose(ratios[..., None], _TUNED, rtol=1e-6, atol=0).any(axis=-1).all())


def _real(v: np.ndarray) -> bool:
    """Real numbers from a sampler, which hardly ever repeat unless the sampler did not move."""
    for chain in v:
        moved = chain[np.append(True, np.diff(chain) != 0)]
        if len(moved) >= 8 and len(np.unique(moved)) < 0.8 * len(moved):
            return False
    return True


def _energy_like(v: np.ndarray) -> bool:
    return _real(v) and bool(np.all(np.abs(v) < 1e12))


_COUNT = _whole(0, 2**31)

PHYLOGENIES = ("posterior", "likelihood", "prior", "lnl", "lnpr", "treelikelihood")
"""Log densities under the names of programs for phylogenies."""

KNOWN: dict[str, Check] = {
    **dict.fromkeys(
        ("acceptance_rate", "accept_prob", "accept_stat", "acceptance_prob", "mean_accept_prob", "mean_tree_accept",
         "mean_tree_accept_sym", "acceptance_probability", "p_accept", "accepted", "is_accepted"), _between(0, 1)
    ),
    **dict.fromkeys(("diverging", "divergent", "is_divergent", "has_divergence"), _seldom),
    **dict.fromkeys(("tune", "tuning"), _ended),
    **dict.fromkeys(("reached_max_treedepth", "maxdepth_reached", "reach_max_depth"), _seldom),
    "is_turning": lambda v: _seldom(v) or _seldom(1 - v),  # a trajectory ends in no other way unless it is very long
    **dict.fromkeys(
        ("n_steps", "n_leapfrog", "leapfrogs_taken", "num_steps", "tree_size", "num_integration_steps", "divergences"),
        _COUNT,
    ),
    **dict.fromkeys(("tree_depth", "treedepth", "depth", "num_trajectory_expansions"), _whole(0, 30)),
    **dict.fromkeys(("step_size", "stepsize"), _step),
    "step_size_bar": _constant(0.0),
    **dict.fromkeys(("int_time", "largest_eigval", "smallest_eigval", "beta"), _constant()),
    **dict.fromkeys(("weight", "weights", "mult", "multiplicity"), _whole(0, 10**6)),  # visits to a state
    "scaling": _scaled,
    **dict.fromkeys(("nstep_in", "nstep_out"), _whole(0, 10_000)),
    **dict.fromkeys(("transformation_index", "transformation_update_id"), _counting),
    **dict.fromkeys(("samples_id", "samples_it", "samples_n", "samples_batch", "ncall", "bound_iter"), _COUNT),
    "logvol": lambda v: _rising(-v),
    **dict.fromkeys(("logz", "logzerr", "information"), _between(-1e12, 1e12)),
    "index_in_trajectory": _whole(-(2**31), 2**31),
    "perf_counter_start": _rising,
    "accept": _between(0, 1e300),  # a ratio of densities
    **dict.fromkeys(("perf_counter_diff", "process_time_diff"), _between(0, 1e7)),
    **dict.fromkeys(
        ("energy_error", "max_energy_error", "energy_change", "energy", "lp", "logp", "log_p", "log_prob", "model_logp",
         "log_density", "logdensity", "log_posterior", "potential_energy", "log_accept_prob", "log_accept_ratio",
         "fisher_distance", "log_likelihood", "log_prior", "log_g", "log_q", "lp_approx", "logl", *PHYLOGENIES),
        _energy_like,
    ),
}  # fmt: skip
"""Tests by name, without Stan's trailing underscores."""

AMBIGUOUS = {
    "beta", "accept", "depth", "energy", "lp", "logp", "log_p", "log_prob", "model_logp", "log_density", "logdensity",
    "log_posterior", "potential_energy", "log_likelihood", "log_prior", "log_g", "log_q", "lp_approx", "logl",
    *PHYLOGENIES,
}  # fmt: skip
"""Names that parameters can also have, and statistics that depend on the data. Among parameters they prove nothing."""

METRICS = {"mass_matrix_inv", "inv_metric", "inverse_mass_matrix"}
"""Names of the diagonal of the sampler's metric: one positive number per parameter, constant within a chain."""


def is_metric(name: str, values: np.ndarray) -> bool:
    """Whether an array with this name and these values `(chains, draws, parameters)` can be the diagonal of a metric.

    >>> is_metric("mass_matrix_inv", np.ones((2, 9, 3))), is_metric("mass_matrix_inv", np.arange(54.0).reshape(2, 9, 3))
    (True, False)
    """
    return name in METRICS and bool((values > 0).all() and (np.ptp(values, axis=1) == 0).all())


def is_statistic(name: str, values: np.ndarray) -> bool:
    """Whether values `(chains, draws)` can be the statistic with this name.

    >>> is_statistic("treedepth__", np.array([[3, 4, 2]])), is_statistic("tree_depth", np.array([[41.5, 17.25]]))
    (True, False)
    >>> is_statistic("step_size", np.array([[0.41, 0.44]])), is_statistic("step_size", np.array([[0.4, 0.9, 0.4]]))
    (True, False)
    """
    check = KNOWN.get(name.rstrip("_").lower())
    if check is None or values.ndim != 2:
        return False
    finite = np.isfinite(values)
    if not finite.any():
        return True
    return check(values) if finite.all() else check(values[finite][None])
