"""Models: NumPyro programs, one family a file, and what makes a `Model` of a program, a PyMC model, a Stan
program, a density or a loss."""

from typing import TYPE_CHECKING

from bayesrecon.models.adapter import from_numpyro as from_numpyro
from bayesrecon.models.density import from_density as from_density
from bayesrecon.models.door import model_of as model_of
from bayesrecon.models.entry import Shipped as Shipped
from bayesrecon.models.losses import from_loss as from_loss
from bayesrecon.models.margins import from_margin as from_margin
from bayesrecon.models.margins import smoothed_relu as smoothed_relu
from bayesrecon.models.pymc import from_pymc as from_pymc
from bayesrecon.models.registry import find as find
from bayesrecon.models.registry import load as load
from bayesrecon.models.registry import shipped as shipped
from bayesrecon.models.tempered import tempered as tempered

if TYPE_CHECKING:
    from bayesrecon.models.stan import from_stan as from_stan
    from bayesrecon.models.stan import stan_data as stan_data


def __getattr__(name: str) -> object:
    """What reads Stan programs is loaded when somebody asks for it: a fifth of a second that nobody else waits for."""
    if name in ("from_stan", "stan_data"):
        from bayesrecon.models import stan

        return getattr(stan, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
