"""A decorator for the first and last steps of all verbs.

First, the argument becomes a release (with its `model`). Keywords and kinds of releases that the verb does not accept
are refused. The verb runs in double precision, and with one BLAS thread by default. Its compiled programs are kept on
disk. Last, progress is set to one. If release and model do not belong together, numbers are only shown with `force`.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, ParamSpec, TypeVar

from bayesrecon.divergence.output_embedding import Outputs, refuse_given
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.knowledge import KNOWS, check_keywords
from bayesrecon.pairs import Deletion, paired
from bayesrecon.precision import x64
from bayesrecon.releases import Release, refuse_others
from bayesrecon.running.compiled import caching
from bayesrecon.running.mappings import make_room
from bayesrecon.running.threads import one_thread

P = ParamSpec("P")
R = TypeVar("R")

Released = Release | Deletion | Outputs
"""What verbs accept once it has been read."""


@functools.singledispatch
def opened(source: object, model: object = None) -> Released:
    """The release, pair or outputs of an argument. Anything else is read with its `model`.

    Raises:
        BayesreconError: it cannot be read, or a model is given for a release that already has one.
    """
    from bayesrecon.posteriors.conversion import release_of  # imported late, since it loads all readers

    return release_of(source, model)


@opened.register
def _(source: Release, model: object = None) -> Release:
    if model is not None and model is not source.model:
        raise BayesreconError(f"{source.name} is a release with its own model; omit model=")
    return source


@opened.register
def _(source: Outputs, model: object = None) -> Outputs:
    refuse_given("outputs", model=model)
    return source


@opened.register
def _(source: Deletion, model: object = None) -> Deletion:
    """The pair in the type of its kind. Members that are not releases yet are read."""
    return deletion(source.before, source.after, model=model)


def opened_pair(source: object, model: object = None) -> Deletion:
    """Like `opened`, for an argument that must be a pair."""
    if not isinstance(source, Deletion):
        raise BayesreconError(f"a pair is needed, deletion(before, after), not a {type(source).__name__}")
    return deletion(source.before, source.after, model=model)


def opened_all(source: object, model: object = None) -> Released | list[Release]:
    """Like `opened`. A list or tuple of anything but paths is a list of several releases of one data set."""
    if not isinstance(source, list | tuple):
        return opened(source, model)
    from bayesrecon.posteriors.conversion import releases_of

    return releases_of(source, model)


def deletion(before: object, after: object, *, model: object = None) -> Deletion:
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
        from bayesrecon.posteriors.conversion import model_for  # imported late, since it loads all readers

        model = model if isinstance(model, str) and model in ESTIMATORS else model_for(model, before)
    return paired(opened(before, model), opened(after, model))


@functools.singledispatch
def refuse_unusable(release: Released) -> None:
    """Refuse a release that no check can pass, before anything is computed. Pairs and outputs have no such checks.

    Raises:
        BayesreconError: it has a reason, and says how to compute all the same.
    """


@refuse_unusable.register
def _(release: Release) -> None:
    if (why := kind_of(release).unusable(release)) is not None:
        raise BayesreconError(f"{release.name}: {why} (force=True shows what they give all the same)")


def verb(
    takes: Sequence[type] = (object,),
    *,
    uses: Sequence[str] | None = KNOWS,
    also: Collection[str] = (),
    instead: str = "`recover` takes it",
    opens: Callable[[object, object], Released | list[Release]] = opened,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that turns a function of an opened release and keywords into a verb.

    The decorator handles the keywords `model` and `force`. If the function has `force`, its result is checked before it
    is returned.

    Args:
        takes: accepted kinds of releases; all kinds if the attack decides.
        uses: names of the attacker's knowledge that the verb uses; None if the attack decides.
        also: further keywords that the function collects, such as those of a ledger.
        instead: what accepts other kinds of releases, or why nothing does; the end of the error message.
        opens: function that turns an argument and its model into a release.
        name: name in messages; that of the function by default.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        called = name or function.__name__
        first, *keywords = inspect.signature(function).parameters

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            options: dict[str, Any] = dict(kwargs)
            source, positional = (args[0], args[1:]) if args else (options.pop(first), ())
            model, force = options.pop("model", None), options.pop("force", False)
            if uses is not None:
                collected = {k: v for k, v in options.items() if k in KNOWS or k not in (*keywords, *also)}
                check_keywords(collected, called, uses)
            make_room()
            with x64(), one_thread(), caching():
                release = opens(source, model)
                for member in release if isinstance(release, list) else [release]:
                    refuse_others(member, takes, called, instead)
                    if "force" in keywords and not force:
                        refuse_unusable(member)
                result = function(release, *positional, **options)  # type: ignore[call-arg,arg-type]
                if options.get("progress") is not None:
                    options["progress"]("done", 1.0)
                return result.judged(force) if "force" in keywords else result

        return wrapped

    return decorate
