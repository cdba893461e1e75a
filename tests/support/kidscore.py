"""A release of kidscore_momiq with everything that samplers write beside the draws."""

import fits

from bayesrecon.digits import round_to
from bayesrecon.models import load
from bayesrecon.posteriors import Draws, from_draws

MODEL = load("kidscore_momiq")
DATA = fits.records()
DRAWS = fits.draws(DATA)


def release(digits=None, count=None, model=MODEL):
    values = {k: v[:, :count] for k, v in DRAWS.items()}
    density = fits.lp(DATA, values)
    return from_draws(Draws(values, round_to(density, digits) if digits else density), model)
