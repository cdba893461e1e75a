"""`infer_deletion`: which of the candidates was deleted between two releases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.angle import by_gradient
from bayesrecon.attacks.deletion.approximated import between
from bayesrecon.attacks.deletion.tilt import by_ratio, by_shift
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Records
from bayesrecon.pairs import ApproximatedPair, Deletion, DrawsPair, TrainedPair
from bayesrecon.results.deletion import DeletionInference
from bayesrecon.results.recovery import Row
from bayesrecon.verbs.verb import opened_pair, verb


@verb((ApproximatedPair, DrawsPair, TrainedPair), uses=("total",), opens=opened_pair)
def infer_deletion(
    pair: Deletion,
    candidates: Mapping[str, object],
    *,
    method: str | None = None,
    public: Mapping[str, Array] | None = None,
    total: float | None = None,
) -> DeletionInference:
    """The posterior probability of each candidate that it is the deleted record.

    Args:
        pair: releases before and after the deletion: posterior draws, trained parameters, or approximations (modes with
            covariances, tables, summaries of draws, densities).
        candidates: `{field: (N, *shape)}`, N records, one of which was deleted. Approximations also determine how many
            records were deleted (`deleted` in the result). If there are several, the probability of a candidate is that
            of being among them.
        method: "ratio" (the default for draws) uses likelihood ratios over the draws. "shift" uses only the means of
            the draws.
        public: for trained parameters only: public records with all fields, which replace the private ones in the
            Hessian.
        total: for trained parameters only: number of private records. Defaults to the number of public records.

    Raises:
        BayesreconError: candidates lack a field; `public` is given for draws, or missing for trained parameters; the
            method is unknown; or the two releases differ in size. For approximations also: no data set has these
            values, the number of deleted records is not determined, or there are too many sets of candidates of that
            size.

    >>> import bayesrecon, numpy as np
    >>> from bayesrecon.posteriors import retrain_without, train
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor", features=2, penalty=1.0)
    >>> data = {"x": rng.normal(size=(400, 2)), "y": rng.normal(size=400)}
    >>> before = train(model, data).release
    >>> pair = bayesrecon.deletion(before, retrain_without(before, data, [7])[0].release)
    >>> some, public = ({k: v[rows] for k, v in data.items()} for rows in (slice(20), slice(200, None)))
    >>> int(infer_deletion(pair, some, public=public, total=400).probability.argmax())
    7
    """
    model = pair.before.model
    if not hasattr(candidates, "keys"):
        raise BayesreconError(f"candidates are a mapping of fields to values (fields: {', '.join(model.fields)})")
    missing = [f for f in model.fields if f not in candidates]
    if missing:
        raise BayesreconError(f"the candidates lack field {missing[0]} (fields: {', '.join(model.fields)})")
    table = check_knowledge(model, known=candidates).known
    inference = _BY[type(pair)](pair, table, method, public, total)
    log_likelihood, probability = inference.log_likelihood, inference.probability
    weight = np.exp(log_likelihood - log_likelihood.max())
    return DeletionInference(
        weight / weight.sum() if probability is None else probability,
        log_likelihood,
        inference.method,
        inference.effective_draws,
        pair.before.name,
        pair.after.name,
        model.name,
        tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes, *inference.warnings))),
        inference.deleted,
    )


@dataclass(frozen=True)
class _Inference:
    """Evidence of a pair for the candidates.

    Attributes:
        log_likelihood: `(N,)`.
        probability: `(N,)`; None if it follows from `log_likelihood`.
        method, effective_draws, deleted: as in the result.
    """

    log_likelihood: np.ndarray
    method: str
    effective_draws: float = float("inf")
    warnings: Sequence[str] = ()
    deleted: tuple[Row, ...] = ()
    probability: np.ndarray | None = None


def _of_approximations(
    pair: Deletion, table: Records, method: str | None, public: Mapping[str, Array] | None, total: float | None
) -> _Inference:
    if method not in (None, "totals") or public is not None or total is not None:
        raise BayesreconError("method=, public= and total= are not used for approximations; leave them out")
    approximated = between(pair, table)
    return _Inference(
        approximated.log_likelihood,
        "totals",
        warnings=approximated.warnings,
        deleted=approximated.deleted,
        probability=approximated.probability,
    )


def _of_trained(
    pair: Deletion, table: Records, method: str | None, public: Mapping[str, Array] | None, total: float | None
) -> _Inference:
    if pair.before.theta.shape[1] != pair.after.theta.shape[1]:
        raise BayesreconError("before and after have parameters of different size; they cannot be of one model")
    if method not in (None, "gradient"):
        raise BayesreconError(f"method={method!r} needs posterior draws; trained parameters take 'gradient'")
    log_likelihood, warnings = by_gradient(pair, table, public, total)
    return _Inference(log_likelihood, "gradient", warnings=warnings)


def _of_draws(
    pair: Deletion, table: Records, method: str | None, public: Mapping[str, Array] | None, total: float | None
) -> _Inference:
    if public is not None:
        raise BayesreconError("posterior draws contain the curvature: leave out public")
    if method in (None, "ratio"):
        log_likelihood, effective, warnings = by_ratio(pair, table)
        return _Inference(log_likelihood, "ratio", effective, warnings)
    if method == "shift":
        log_likelihood, effective = by_shift(pair, table)
        return _Inference(log_likelihood, "shift", effective)
    raise BayesreconError(f"method={method!r}: expected 'ratio' or 'shift'")


_Infer = Callable[[Deletion, Records, str | None, Mapping[str, Array] | None, float | None], _Inference]
_BY: dict[type[Deletion], _Infer] = {
    ApproximatedPair: _of_approximations,
    TrainedPair: _of_trained,
    DrawsPair: _of_draws,
}
