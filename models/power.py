"""Tempered posteriors: the likelihood raised to a power."""

from dataclasses import replace
from functools import lru_cache
from numbers import Real

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, power_suffix

_REMEMBERED = (
    256  # models; one object per model and power, so that compiled functions are reused and releases can be paired
)


def tempered(model: Model, power: float) -> Model:
    """The model of a tempered posterior, `pi ~ pi0 prod_n p(x_n | theta)^power`.

    These are power posteriors (Friel and Pettitt 2008), the learning rate of generalised and safe Bayes (Grunwald and
    van Ommen 2017), and differentially private sampling with a tempered likelihood (Dimitrakakis et al. 2014). A record
    adds `power log p(x | theta)` to the log density. The prior, the fields and the distribution of the records do not
    change. Totals from a tempered posterior are therefore the totals of its data.

    Args:
        model: model of the untempered posterior. If it is tempered already, its power is replaced.
        power: positive number; one is the posterior itself.

    Raises:
        BayesreconError: the power is not a positive number.

    >>> from bayesrecon.models.registry import load
    >>> model = load("kidscore_momiq")
    >>> tempered(model, 0.5).power, tempered(model, 1.0) is model
    (0.5, True)
    """
    if isinstance(power, bool) or not isinstance(power, Real) or not (np.isfinite(power) and power > 0):
        raise BayesreconError(f"power={power!r}: expected the positive exponent of the likelihood")
    if power == model.power:
        return model
    return _tempered(model, float(power))


@lru_cache(_REMEMBERED)
def _tempered(model: Model, power: float) -> Model:
    name = model.untempered.name + power_suffix(power)
    # Sampling and training by these would ignore the power.
    return replace(model, name=name, power=power, program=None, linear=None, prediction=None)
