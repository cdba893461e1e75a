"""Item response models: draws as the Stan programs of posteriordb publish them."""

import numpy as np
import pytest

from bayesrecon import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import from_draws

PERSONS, ITEMS = 6, 3


def drawn(weights, steps=2):
    rng, shape = np.random.default_rng(0), (2, 50)
    return {
        "alpha": rng.gamma(5.0, 0.2, (*shape, ITEMS)),
        "beta_free": rng.normal(size=(*shape, ITEMS - 1)),
        "kappa_free": rng.normal(size=(*shape, steps - 1)),
        "lambda_adj": rng.normal(size=(*shape, weights)),
        "theta_raw": rng.normal(size=(*shape, PERSONS)),
    }


def test_abilities_of_a_rating_scale_without_covariates_are_centred_in_its_program():
    model = load("grsm_latent_reg_irt", persons=PERSONS, items=ITEMS, steps=2)
    values = drawn(1)
    stan = {k: v for k, v in values.items() if k != "theta_raw"} | {"theta": values["theta_raw"] + values["lambda_adj"]}
    np.testing.assert_allclose(from_draws(stan, model).theta, from_draws(values, model).theta, atol=1e-12)


def test_abilities_that_hold_the_covariates_of_persons_are_refused():
    model = load("grsm_latent_reg_irt", persons=PERSONS, items=ITEMS, covariates=2, steps=2)
    values = drawn(3)
    stan = {k: v for k, v in values.items() if k != "theta_raw"} | {"theta": values["theta_raw"]}
    from_draws(values, model)
    with pytest.raises(BayesreconError, match="theta_raw = theta - lambda_adj"):
        from_draws(stan, model)
