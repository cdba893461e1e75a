"""The one door of the verbs: what each of them does first and last.

First: what somebody holds becomes a release (with its `model`), keywords that a verb has no use for and releases of
kinds that it does not take are refused, all in 64 bits and with one thread of BLAS. Last: progress ends at one, and
where release and model do not belong together, nothing is shown but by `force`.
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
from bayesrecon.running.threads import one_thread

P = ParamSpec("P")
R = TypeVar("R")


@functools.singledispatch
def opened(held: Any, model: Any = None) -> Any:
    """The release, pair or outputs that somebody holds: as it is, or read, with its `model`.

    Raises:
        BayesreconError: what cannot be read, or a model for what has its own.
    """
    from bayesrecon.posteriors.door import release_of  # only then: what reads loads every reader

    return release_of(held, model)


@opened.register
def _(held: Release, model: Any = None) -> Any:
    if model is not None and model is not held.model:
        raise BayesreconError(f"{held.name} is a release and has its model already; leave model= out")
    return held


@opened.register
def _(held: Outputs, model: Any = None) -> Any:
    refuse_given("outputs", model=model)
    return held


@opened.register
def read_pair(held: Deletion, model: Any = None) -> Deletion:
    """The pair as one of its kind, its members read where somebody put what they hold into it as it was."""
    return deletion(held.before, held.after, model=model)


def opened_pair(held: Any, model: Any = None) -> Deletion:
    """As `opened`, of what has to be a pair."""
    if not isinstance(held, Deletion):
        raise BayesreconError(f"a pair is needed, deletion(before, after), not a {type(held).__name__}")
    return read_pair(held, model)


def opened_all(held: Any, model: Any = None) -> Any:
    """As `opened`; a list or tuple that is not one of paths is several releases of one data set."""
    if not isinstance(held, list | tuple):
        return opened(held, model)
    from bayesrecon.posteriors.door import releases_of

    return releases_of(held, model)


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
    """A verb: a function of a release, which it is given opened, and of keywords.

    Its keywords `model` and `force` are the door's; what it returns is judged where it has `force`.

    Args:
        takes: the kinds that it takes; all where an attack says so.
        uses: what an attacker knows that it has a use for; None where an attack says so.
        instead: what takes the other kinds, or why nothing does.
        opens: what makes a release of what somebody holds and its model.
        alone: whether it runs with one thread of BLAS, as small solves do best.
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
            with x64(), one_thread() if alone else nullcontext():
                release = opens(held, model)
                for one in release if isinstance(release, list) else [release]:
                    refuse_others(one, takes, name, instead)
                found: Any = function(release, *rest, **options)  # type: ignore[call-arg,arg-type]
                if options.get("progress") is not None:
                    options["progress"]("done", 1.0)
                return found.judged(force) if "force" in named else found

        return walked

    return decorate
