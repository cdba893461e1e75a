"""The input of an audit of draws: contents of a file or a release, and the model, passed or stored in the file."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayesrecon.attacks.sidechannels.centred_prior import PRIOR, means_from_log_prior, prior_of_intercept
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Progress
from bayesrecon.models.conversion import model_of
from bayesrecon.posteriors.contents import Contents, SavedProgram
from bayesrecon.posteriors.conversion import release_of
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.fits.saved_programs import model_of_program
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.posteriors.named_draws import contents_of
from bayesrecon.releases import PosteriorDraws

if TYPE_CHECKING:
    from bayesrecon.models.stan import StanModel


def contents_and_model(
    source: object, model: object, name: str | None, progress: Progress | None
) -> "tuple[Contents, Model | StanModel | None, str]":
    """Contents of a file or a release, its model or None, and the reason if the model is missing."""
    if isinstance(source, PosteriorDraws):
        release = release_of(source, model)
        # The model's own parameters are published: none of another parametrisation has to be mapped.
        return replace(contents_of(source), name=name or source.name), replace(release.model, prepare=None), ""
    contents = read_leaves(source, name=name, progress=progress)
    if model is not None:
        return contents, model_of(model, None if contents.draws is None else contents.draws.shapes), ""
    stored, missing = stored_model_of(contents)
    return contents, stored, missing


def stored_model_of(contents: Contents) -> tuple[Model | None, str]:
    """The model that a file names or None, and the reason if that model cannot be built."""
    from bayesrecon.posteriors.sources import stored_model

    if contents.draws is None:
        return None, ""
    if "bayesrecon_model" not in contents.draws.attributes:
        return (None, "") if contents.program is None else _of_program(contents.program, contents.draws)
    try:
        return stored_model(contents.draws), ""
    except BayesreconError as error:
        return None, str(error)


def _of_program(program: SavedProgram, draws: Draws) -> tuple[Model | None, str]:
    """The model of a Stan program in the file or None, and the reason if it cannot be built."""
    try:
        return model_of_program(program, draws, partial(_centres, program, draws)), ""
    except BayesreconError as error:
        return None, f"its Stan program is in the file and gives no model: {error}"


def _centres(
    program: SavedProgram, draws: Draws, prior: Callable[[str, dict[str, float]], npt.ArrayLike]
) -> dict[str, np.ndarray]:
    """Means of the covariates, at which brms centres them, if values of the prior reveal them; else empty.

    Args:
        program: the Stan program.
        draws: its draws.
        prior: function of the name of a variable and of replaced parameters, which computes the variable at the draws.
    """
    intercept_prior, columns = prior_of_intercept(program.text), {entry: name for name, entry in program.names.items()}
    (count,) = program.sizes.get("b", (0,)) or (0,)
    slopes = [columns.get(f"b[{k + 1}]", "") for k in range(count)]
    scalars = {name: values.reshape(-1) for name, values in draws.values.items() if values.ndim == 2}
    single = program.sizes.get("Intercept", ()) == ()  # several intercepts have several distributions
    if intercept_prior is None or not single or PRIOR not in scalars or not set(slopes) <= scalars.keys():
        return {}
    at_location = np.ravel(prior(PRIOR, {"Intercept": intercept_prior[1]}))
    means = means_from_log_prior(program.text, scalars, at_location, slopes)
    return {} if means is None else {"means_X": means.values}
