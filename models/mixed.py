"""Linear regressions with an intercept for every group, by maximum likelihood: a record is a group.

With m rows in a group, means over them and W what is left of the squared residuals about theirs, the law of the group
is normal with covariance `sigma^2 (1 + ratio 11')`, and

    log p = -(m log sigma^2 + log(1 + m ratio) + (W + m / (1 + m ratio) mean residual^2) / sigma^2) / 2

(Pinheiro and Bates 2000, section 2.2), so that the rows of a group enter by their means and scatter alone.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.types import Field, Model, Parameter


def mixed(covariates: Sequence[str], response: str, intercept: bool, size: int) -> Model:
    """The model of a fit over groups of `size` rows each.

    Fields of a group: the mean of each covariate and of the response, and `within`, the sums of products of their
    deviations from these means, `(c (c + 1) / 2,)` for the c of them, a lower triangle row by row, the response last.

    Raises:
        BayesreconError: names that are not distinct, or groups of fewer than two rows.

    >>> mixed(["dose"], "y", True, 4).coordinates
    ('coefficient[1]', 'coefficient[2]', 'ratio', 'sigma')
    """
    names = (*covariates, response, "within")
    if len(set(names)) < len(names):
        raise BayesreconError("distinct covariates are needed, a response that is not one of them, and none 'within'")
    if size < 2:
        raise BayesreconError(f"groups of {size} row do not tell the variance within them from that between them")
    return _mixed(tuple(covariates), response, bool(intercept), int(size))


@cache  # releases of one model belong together by the model object
def _mixed(covariates: tuple[str, ...], response: str, intercept: bool, size: int) -> Model:
    count = len(covariates) + 1
    rows, columns = np.tril_indices(count)

    def log_lik(params: dict[str, Any], record: dict[str, Any]) -> Any:
        slopes, start = params["coefficient"][int(intercept) :], params["coefficient"][0] if intercept else 0.0
        across = jnp.append(-slopes, 1.0)
        means = jnp.stack([jnp.asarray(record[name], float) for name in (*covariates, response)])
        lower = jnp.zeros((count, count)).at[rows, columns].set(jnp.asarray(record["within"], float))
        scatter = lower + lower.T - jnp.diag(jnp.diag(lower))
        ratio, variance = params["ratio"], params["sigma"] ** 2
        between = size / (1 + size * ratio) * (across @ means - start) ** 2
        squares = across @ scatter @ across + between
        return -0.5 * (size * jnp.log(variance) + jnp.log1p(size * ratio) + squares / variance)

    return Model(
        name="mixed",
        parameters=(
            Parameter("coefficient", (count - 1 + intercept,)),
            Parameter("ratio", (), bounds=(0.0, float("inf"))),
            Parameter("sigma", (), bounds=(0.0, float("inf"))),
        ),
        fields={**{name: Field() for name in (*covariates, response)}, "within": Field((len(rows),))},
        log_lik_at=log_lik,
        log_prior_at=lambda params: jnp.zeros(()),
        settings={"covariates": covariates, "response": response, "intercept": intercept, "size": size},
    )
