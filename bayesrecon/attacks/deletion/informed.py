"""The informed adversary, who knows all records except one (Balle et al. 2022, for models in closed form)."""

from collections.abc import Mapping
from dataclasses import replace

import jax

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.missing_record import all_fields, missing_record_of
from bayesrecon.model import Params
from bayesrecon.releases import Release, TrainedParameter
from bayesrecon.results.deletion import MissingRecord
from bayesrecon.verbs.verb import verb


@verb(
    (TrainedParameter,),
    uses=(),
    instead="condition on the other records: reconstruct(condition(release, others), n=1, total=1)",
)
def missing_record(release: Release, others: Mapping[str, Array], *, tolerance: float | None = None) -> MissingRecord:
    """The one unknown record, from a trained linear predictor and all other records.

    Args:
        release: trained parameter of a model with a linear predictor (`posteriors.from_sklearn`,
            `models.load("linear_predictor")`).
        others: `{field: (N - 1, *shape)}`, all other training records.
        tolerance: norm of the gradient at which training stopped, in the units of the model's objective. By default it
            is estimated from the disagreement between slope and record. Where that disagreement cannot be computed, it
            is the rounding error.

    Raises:
        BayesreconError: the release consists of draws; the model has no linear predictor or no intercept (without one
            the scale and sign of the record are not determined); the fields differ; or the gradient vanishes.

    >>> from sklearn.linear_model import Ridge
    >>> import bayesrecon, numpy as np
    >>> x, y = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 1.0, 1.5])
    >>> release = bayesrecon.posteriors.from_sklearn(Ridge(1.0).fit(x, y))
    >>> missing_record(release, {"x": x[:2], "y": y[:2]}).record["x"].round(6).tolist()
    [3.0]
    """
    return missing_record_of(release, others, tolerance)


def condition(release: Release, others: Mapping[str, Array]) -> Release:
    """The same release under a model whose prior includes the known records.

    All verbs then refer to the unknown records only. For example, `reconstruct(condition(release, others), n=1,
    total=1)` is the informed adversary, for any model and also for posterior draws.

    Args:
        others: `{field: (K, *shape)}`, K known records with all fields.

    Raises:
        BayesreconError: the known records lack a field, or have values outside its domain.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> others = {"x": rng.normal(size=(60, 1)), "y": rng.normal(1, 2, 60)}
    >>> condition(release, others).model.name
    'linear_predictor given 60 records'
    """
    model = release.model
    table = all_fields(model, others)

    def log_prior_at(params: Params) -> jax.Array:
        return model.log_prior_at(params) + jax.vmap(model.log_lik_at, in_axes=(None, 0))(params, table).sum()

    joined = replace(model, name=f"{model.name} given {len(next(iter(table.values())))} records", identities={})
    return replace(release, model=replace(joined, log_prior_at=log_prior_at, program=None, simulate=None))
