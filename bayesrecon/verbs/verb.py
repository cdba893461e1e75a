"""What all verbs share: a decorator for their first and last steps.

First, the argument becomes a release (with its `model`), and keywords and kinds of releases that the verb does not
accept are refused. Everything runs in double precision and with one BLAS thread. Last, progress is set to one. If
release and model do not belong together, numbers are only shown with `force`.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ParamSpec, TypeVar

from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.output_embedding import Outputs, refuse_given
from bayesrecon.knowledge import KNOWS, check_keywords
from bayesrecon.pairs import Deletion, paired
from bayesrecon.precision import x64
from bayesrecon.releases import Release, refuse_others
from bayesrecon.running.mappings import make_room
from bayesrecon.running.threads import one_thread

P = ParamSpec("P")
R = TypeVar("R")


@functools.singledispatch
def opened(held: object, model: object = None) -> Any:
    """The release, pair or outputs behind an argument: as it is, or read with its `model`.

    Raises:
        BayesreconError: it cannot be read, or a model is given for a release that already has one.
    """
    from bayesrecon.posteriors.door import release_of  # only then: what reads loads every reader

    return release_of(held, model)


@opened.register
def _(held: Release, model: object = None) -> Any:
    if model is not None and model is not held.model:
        raise BayesreconError(f"{held.name} is a release with its own model; omit model=")
    return held


@opened.register
def _(held: Outputs, model: object = None) -> Any:
    refuse_given("outputs", model=model)
    return held


@opened.register
def read_pair(held: Deletion, model: object = None) -> Deletion:
    """The pair as a pair of its own kind. Members that are not releases yet are read."""
    return deletion(held.before, held.after, model=model)


def opened_pair(held: Deletion | Release, model: object = None) -> Deletion:
    """Like `opened`, for an argument that must be a pair."""
    if not isinstance(held, Deletion):
        raise BayesreconError(f"a pair is needed, deletion(before, after), not a {type(held).__name__}")
    return read_pair(held, model)


def opened_all(held: object, model: object = None) -> Any:
    """Like `opened`. A list or tuple of anything but paths is a list of several releases of one data set."""
    if not isinstance(held, list | tuple):
        return opened(held, model)
    from bayesrecon.posteriors.door import releases_of

    return releases_of(held, model)


def deletion(before: Release, after: Release, *, model: object = None) -> Deletion:
    """A `Deletion`: a pair of releases before and after a deletion.

    Args:
        before, after: releases, files, traces, fits or tables of a regression, computed with and without the record.
            Whatever `posteriors.release_of` accepts is accepted here. For tables with the correlations of their
            estimates, use `posteriors.from_table` first.
        model: the model of both releases if they are draws without one, in any form that `models.model_of` accepts. For
            tables "ols", "logit" or "poisson".

    Raises:
        BayesreconError: an argument cannot be read. The two releases are identical, or their models, settings or
            temperatures differ.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import dirac
    >>> line = load("linear_predictor", intercept=False)
    >>> before, after = (dirac(line, {"coef": [[value]]}, name=f"coef {value}") for value in (0.52, 0.49))
    >>> deletion(before, after).after.name
    'coef 0.49'
    """
    if model is not None:
        from bayesrecon.models.estimators import ESTIMATORS
        from bayesrecon.posteriors.door import model_for  # only then: what reads loads every reader

        model = model if isinstance(model, str) and model in ESTIMATORS else model_for(model, before)
    return paired(opened(before, model), opened(after, model))


def verb(
    takes: Sequence[type] = (object,),
    *,
    uses: Sequence[str] | None = KNOWS,
    instead: str = "`recover` takes it",
    opens: Callable[[Any, Any], Any] = opened,
    alone: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that turns a function of an opened release and keywords into a verb.

    The decorator handles the keywords `model` and `force`. If the function has `force`, its result is checked before it
    is returned.

    Args:
        takes: accepted kinds of releases; all kinds if the attack decides.
        uses: names of what an attacker knows that the verb makes use of; None if the attack decides.
        instead: what accepts the other kinds, or why nothing does; for the error message.
        opens: function that turns an argument and its model into a release.
        alone: whether to use one BLAS thread, which is fastest for small solves.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__name__
        first, *named = inspect.signature(function).parameters

        @functools.wraps(function)
        def walked(*args: P.args, **kwargs: P.kwargs) -> R:
            options: dict[str, Any] = dict(kwargs)
            held, rest = (args[0], args[1:]) if args else (options.pop(first), ())
            model, force = options.pop("model", None), options.pop("force", False)
            if uses is not None:
                check_keywords({k: v for k, v in options.items() if k in KNOWS or k not in named}, name, uses)
            make_room()
            with x64(), one_thread() if alone else nullcontext():
                release = opens(held, model)
                for one in release if isinstance(release, list) else [release]:
                    refuse_others(one, takes, name, instead)
                found = function(release, *rest, **options)  # type: ignore[call-arg,arg-type]
                if options.get("progress") is not None:
                    options["progress"]("done", 1.0)
                return found.judged(force) if "force" in named else found

        return walked

    return decorate
