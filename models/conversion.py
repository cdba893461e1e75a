"""Models from anything that describes one.

A module of this package that has `ADAPTS`, a function `(source, sizes) -> Model | None`, adds a kind of description.
"""

from collections.abc import Mapping

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.descriptions import is_program, pymc_model
from bayesrecon.models.registry import load


def model_of(source: object, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """A `Model` from anything that describes one.

    This can be a `Model`, the name of a shipped model, a PyMC or Bambi model, a NumPyro program, or the path of a Stan
    program (`program.stan`). In a NumPyro program, every argument without a default or with the default None is a field
    with one number per record. Use `from_numpyro` for fields of other shapes and domains. `sizes` are the shapes of the
    draws, for a Stan program.

    Raises:
        BayesreconError: the argument is something else, no shipped model has this name, or the program or model is not
            supported.
        MissingExtraError: it is a PyMC model, and PyMC is not installed.

    >>> model_of("kidscore_momiq").coordinates
    ('beta[1]', 'beta[2]', 'sigma')
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, str) and not is_program(source):
        return load(source)
    for adapted in discover("bayesrecon.models", "ADAPTS"):
        if (model := adapted(source, sizes)) is not None:
            return model
    raise BayesreconError(
        f"cannot make a model of a {type(source).__name__}: give a Model (models.from_numpyro makes one), the name of "
        "a shipped model, or a PyMC or Bambi model"
    )


def is_model(source: object) -> bool:
    """Whether the argument is a `Model`, or a PyMC or Bambi model.

    False for functions, which may be programs or return a model.

    >>> is_model(load("kidscore_momiq")), is_model("kidscore_momiq")
    (True, False)
    """
    return isinstance(source, Model) or pymc_model(source) is not None
