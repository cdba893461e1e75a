"""The input of an audit of draws: contents of a file or a release, and the model, passed or stored in the file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Progress
from bayesrecon.auditing.sensitive_values import DRAWS
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Contents, SavedProgram, decided
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.posteriors.recognition import is_path
from bayesrecon.results.findings import DRAWS_OR_RECORDS, SAY_WHICH, NotRun

if TYPE_CHECKING:
    from bayesrecon.model import Model
    from bayesrecon.models.stan import StanModel


def contents_and_model(
    source: object, model: object, name: str | None, progress: Progress | None, rows: str = ""
) -> "tuple[Contents, Model | StanModel | None, str]":
    """Contents of a file or a release, its model or None, and the reason if the model is missing.

    Args:
        source, model, name, progress: as in `audit`.
        rows: what each row of the source is, as in `decided`.
    """
    if not is_path(source) and not isinstance(source, Contents):
        from bayesrecon.posteriors.conversion import release_of
        from bayesrecon.posteriors.named_draws import contents_of
        from bayesrecon.releases import PosteriorDraws

        if isinstance(source, PosteriorDraws):
            release = release_of(source, model)
            # The model's own parameters are published: none of another parametrisation has to be mapped.
            return replace(contents_of(source), name=name or source.name), replace(release.model, prepare=None), ""
    contents = read_leaves(source, name=name, progress=progress)
    if model is None or rows:
        contents = decided(contents, rows)
    if model is not None:
        from bayesrecon.models.conversion import model_of

        return contents, model_of(model, None if contents.draws is None else contents.draws.shapes), ""
    stored, missing = stored_model_of(contents)
    return contents, stored, missing


def unanswered(contents: Contents, model: "Model | None", untried: Sequence[NotRun]) -> list[NotRun]:
    """The question whether the rows are draws, if only a model says so and the draws fail its checks."""
    failed = any(n.attack == DRAWS and n.where == ("posterior",) for n in untried)
    if model is None or contents.sign or contents.draws is None or not failed:
        return []
    reason = f"only the names of model {model.name} say that the rows are draws, and they fail its checks"
    return [NotRun(DRAWS_OR_RECORDS, reason, SAY_WHICH, ("posterior",))]


def stored_model_of(contents: Contents) -> "tuple[Model | None, str]":
    """The model that a file names or None, and the reason if that model cannot be built."""
    if contents.draws is None:
        return None, ""
    if "bayesrecon_model" not in contents.draws.attributes:
        return (None, "") if contents.program is None else _of_program(contents.program, contents.draws)
    from bayesrecon.posteriors.sources import stored_model

    try:
        return stored_model(contents.draws), ""
    except BayesreconError as error:
        return None, str(error)


def _of_program(program: SavedProgram, draws: Draws) -> "tuple[Model | None, str]":
    """The model of a Stan program in the file or None, and the reason if it cannot be built."""
    from bayesrecon.posteriors.fits.saved_programs import model_of_program

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
    from bayesrecon.attacks.sidechannels.centred_prior import PRIOR, means_from_log_prior, prior_of_intercept

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
