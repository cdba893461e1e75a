"""`deletion`: two releases, or what they are read from, as a checked pair."""

from typing import Any

from bayesrecon.errors import BayesreconError
from bayesrecon.pairs import Deletion, paired
from bayesrecon.releases import Release


def deletion(before: Any, after: Any, *, model: Any = None) -> Deletion:
    """A `Deletion` pair of two releases, or of whatever `posteriors.release_of` makes one of.

    Args:
        before, after: releases, files, traces, fits or tables of a regression; computed with the record and without
            it. Tables with the correlations of their estimates are read by `posteriors.from_table`.
        model: of both, as `models.model_of` takes it, where they are draws without one; of tables "ols", "logit" or
            "poisson".

    Raises:
        BayesreconError: what cannot be read; releases of different models, settings or temperatures, or two that are
            identical.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import dirac
    >>> line = load("linear_predictor", intercept=False)
    >>> before, after = (dirac(line, {"coef": [[value]]}, name=f"coef {value}") for value in (0.52, 0.49))
    >>> deletion(before, after).after.name
    'coef 0.49'
    """
    if isinstance(before, Release) and isinstance(after, Release) and model is None:
        return paired(before, after)
    from bayesrecon.models.door import model_of  # only then: what reads loads every reader
    from bayesrecon.models.estimators import ESTIMATORS
    from bayesrecon.posteriors.door import release_of

    chosen = model if model is None else model if isinstance(model, str) and model in ESTIMATORS else model_of(model)
    return paired(release_of(before, chosen), release_of(after, chosen))


def read_pair(pair: Deletion) -> Deletion:
    """The pair as one of its kind, its members read where somebody put what they hold into it as it was.

    Raises `BayesreconError` for what is no pair.
    """
    if not isinstance(pair, Deletion):
        raise BayesreconError(f"a pair is needed, deletion(before, after), not a {type(pair).__name__}")
    if isinstance(pair.before, Release) and isinstance(pair.after, Release):
        return pair.before.pair(pair.before, pair.after)
    return deletion(pair.before, pair.after)
