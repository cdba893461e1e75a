import jax.numpy as jnp
import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import gaussian
from bayesrecon.posteriors.approximated.prior_derivatives import check_smooth
from bayesrecon.precision import x64
from bayesrecon.types import Field, Model, Parameter


def model(log_prior):
    return Model(
        name="kinked",
        parameters=(Parameter("mu", (2,)),),
        fields={"y": Field()},
        log_lik_at=lambda p, z: -0.5 * (jnp.asarray(z["y"], float) - p["mu"][0]) ** 2,
        log_prior_at=lambda p: log_prior(p["mu"]),
    )


@pytest.mark.parametrize("at", [[0.0, 1.0], [0.5, 1.0], [1e3, -1.0]])
def test_smooth_priors_pass(at):
    with x64():
        check_smooth(model(lambda mu: -0.5 * 1e4 * jnp.sum(mu**2)), np.array(at))
        check_smooth(model(lambda mu: -jnp.sum(jnp.log1p(mu**2))), np.array(at))
        check_smooth(model(lambda mu: -0.5 * mu[0] ** 2 - jnp.abs(mu[1])), np.array(at))


def test_a_kink_is_refused():
    laplace = model(lambda mu: -0.5 * mu[0] ** 2 - jnp.abs(mu[1]))
    with pytest.raises(BayesreconError, match=r"no derivative in mu\[2\] at its released value"):
        gaussian(laplace, [0.3, 0.0], np.eye(2) * 0.01, jacobian=True)
    assert gaussian(laplace, [0.3, 0.01], np.eye(2) * 0.01, jacobian=True).size == 1
