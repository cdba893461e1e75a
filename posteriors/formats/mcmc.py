"""Draws of a NumPyro MCMC that has run."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Variable, from_named_draws
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.formats.npz import LOG_DENSITY, from_arrays

if TYPE_CHECKING:
    from numpyro.infer import MCMC


def read_mcmc(mcmc: "MCMC", *, name: str | None = None) -> Draws:
    """The samples, and minus the potential energy where it was kept.

    Raises:
        BayesreconError: it has not run, or ran on a potential function.
    """
    with reading("a NumPyro MCMC", "draws (has it run?)"):
        samples = mcmc.get_samples(group_by_chain=True)
        if not isinstance(samples, dict):
            raise BayesreconError("this MCMC ran on a potential function, so its draws have no parameter names")
        energy = mcmc.get_extra_fields(group_by_chain=True).get("potential_energy")
    return from_arrays(samples if energy is None else {**samples, LOG_DENSITY: -energy}, name=name or "draws")


def _contents(mcmc: "MCMC", *, name: str | None = None, progress: Progress | None = None) -> Contents:
    contents = from_named_draws(read_mcmc(mcmc, name=name), "NumPyro MCMC", sign="NumPyro MCMC")
    energy = mcmc.get_extra_fields(group_by_chain=True).get("energy")
    if energy is None:
        return contents
    flat = np.asarray(energy, float).reshape(-1)
    return replace(contents, variables=(*contents.variables, Variable("sample_stats", "energy", (), True, flat)))


def _holds(source: object) -> bool:
    return callable(getattr(source, "get_samples", None))


FORMAT = Format("NumPyro MCMC", (), read_mcmc, _contents, _holds, rank=20)
