"""Posteriors that take the likelihood to a power."""

from dataclasses import replace
from functools import lru_cache
from numbers import Real

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, power_suffix

_REMEMBERED = 256  # models, so that compiled functions are reused and releases of one power belong together


def tempered(model: Model, power: float) -> Model:
    """The model of a posterior whose likelihood is taken to a power, `pi ~ pi0 prod_n p(x_n | theta)^power`.

    These are power posteriors (Friel and Pettitt 2008), the learning rate of generalised and safe Bayes (Grunwald and
    van Ommen 2017), and differentially private sampling with the likelihood raised to a power (Dimitrakakis et al.
    2014). A record adds `power log p(x | theta)` to the log density, and everything else stays: the prior, its fields,
    and the law that the records themselves follow. Totals of a tempered posterior are therefore those of its data.

    Args:
        model: of the untempered posterior; of a tempered one, the power is replaced.
        power: positive; one is the posterior itself.

    Raises:
        BayesreconError: a power that is not a positive number.

    >>> from bayesrecon.models.registry import load
    >>> model = load("kidscore_momiq")
    >>> tempered(model, 0.5).power, tempered(model, 1.0) is model
    (0.5, True)
    """
    if isinstance(power, bool) or not isinstance(power, Real) or not (np.isfinite(power) and power > 0):
        raise BayesreconError(f"power={power!r}: expected the positive number that the likelihood was raised to")
    if power == model.power:
        return model
    return _tempered(model, float(power))


@lru_cache(_REMEMBERED)
def _tempered(model: Model, power: float) -> Model:
    name = model.untempered.name + power_suffix(power)
    # What samples or trains by the program itself knows of no power.
    return replace(model, name=name, power=power, program=None, linear=None, prediction=None)
