"""What tilts are supported, the sizes at which the theory was found to hold, and what they would leave.

Nothing here depends on a secret.
"""

from collections.abc import Callable, Sequence

import numpy as np

from bayesrecon.disclosure.sanitising.law import TiltLaw, count_of, divergences, tilt_law
from bayesrecon.disclosure.sanitising.streams import public_stream
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.results.row import Row

LEAST_WORTH = 100.0
"""k is at most a tenth."""

MOST_NATS = 0.045
"""Cost to second order up to which it was found to hold; what is measured then lies below a twentieth."""

# As many ordinary records, whose scatter caps the tilts: the first of which all holds.
_TIMES = (64, 32, 16, 8, 4, 2, 1)
_TILTS = 200  # others than the one that is used, to see whether it holds
# By which the cost of a tilt may differ from its second order: on other draws it differs by up to twice as much.
_APART = 0.1
_SHARE = 0.98  # of the tilts that have to be so near


def check_worth(worth: float) -> float:
    """The worth as a number; `BayesreconError` where it is no supported one."""
    try:
        value = float(worth)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"worth={worth!r} is not a number of draws") from None
    if not LEAST_WORTH <= value < np.inf:
        raise BayesreconError(
            f"worth={worth}: tilts are supported from a worth of {LEAST_WORTH:g} draws on; of larger ones it is "
            f"not known what they hide; take {LEAST_WORTH:g} or more"
        )
    return value


def settled(law: TiltLaw, name: str) -> tuple[TiltLaw, int]:
    """The law with the widest cap at which the theory holds, and how many times as many records that is.

    Args:
        law: capped by the scatter of N ordinary records.

    Raises:
        BayesreconError: the tilts cost more than is supported, or the theory does not hold.
    """
    if law.cost > MOST_NATS:
        raise BayesreconError(
            f"{name}: a worth of {law.k**-2:g} draws costs {law.cost:.2g} nats in {law.effective_rank:.0f} "
            f"directions, and {MOST_NATS:g} are supported; worth={_affordable(law):.3g} or more, or fewer parameters"
        )
    normals = public_stream("trial tilts").normal(size=(len(law.own), _TILTS))
    for times in _TIMES:
        wider = law.of(times)
        if wider.cost <= MOST_NATS and holds(wider, normals):
            return wider, times
    raise BayesreconError(
        f"{name}: tilts of a worth of {law.k**-2:g} draws do not cost what theory says, so that what it says they "
        "hide does not hold either; a larger worth= brings both together"
    )


def holds(law: TiltLaw, normals: np.ndarray) -> bool:
    """Whether tilts, made of normal numbers `(M, S)`, cost what the second order says, nearly all of them."""
    tilts = law.values @ law.weights(normals)
    ratio = divergences(tilts) / (tilts.var(axis=0) / 2)
    return float(np.mean(np.abs(ratio - 1) <= _APART)) >= _SHARE


def tilted_errors(
    problem: Problem, rows: Sequence[Row], slopes: np.ndarray, worths: Sequence[int]
) -> tuple[dict[int, np.ndarray], tuple[str, ...]]:
    """By worth, the scatter over tilts of the statistics with these slopes in the basis `(r, S)`; and why one is
    missing.

    Worths below what is supported are passed over.
    """
    tried = [worth for worth in worths if worth >= LEAST_WORTH]
    count = count_of(rows) or problem.knowledge.total
    if not tried:
        return {}, ()
    if count is None:
        return {}, ("sanitised draws are not planned for: the number of records is not determined",)
    found, missing = {}, []
    try:
        law = tilt_law(problem, tried[0] ** -0.5, public_stream("records"), max(1.0, float(count)))
        cross = np.asarray(problem.solved.embedding.cross(problem.solved.basis, law.records)) @ slopes
    except BayesreconError as error:
        return {}, (f"sanitised draws are not planned for: {error}",)
    for worth in tried:
        try:
            found[worth] = settled(law.at(worth**-0.5), problem.release.name)[0].scatter(cross)
        except BayesreconError as error:
            missing.append(f"sanitised draws worth {worth} are not planned for: {error}")
    return found, tuple(missing)


def worth_for(shift: float, largest: Callable[[float], float], one: str = "a record moves") -> float:
    """The largest worth at which no record moves the release by more than `shift`.

    Args:
        largest: the largest shift, by k.
        one: what moves it, in words with the verb.

    Raises:
        BayesreconError: the tilts would have to be larger than supported.
    """
    if not (np.isfinite(shift) and shift > 0):
        raise BayesreconError(f"records={shift}: a number of standard deviations above zero is needed, e.g. 1")
    most = LEAST_WORTH**-0.5
    if (least := largest(most)) > shift:
        raise BayesreconError(
            f"records={shift:g}: even at a worth of {LEAST_WORTH:g} draws, the least that is supported, {one} "
            f"the release by {least:.2g} standard deviations; tilts cannot hide that: publish fewer parameters, or "
            "noise with a guarantee while fitting"
        )
    low, high = 0.0, most
    for _ in range(30):  # halvings
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) > shift else (low, middle)
    worth = high**-2
    unit = 10.0 ** (np.floor(np.log10(worth)) - 1)  # of two digits: more would tell the record
    return float(max(LEAST_WORTH, np.floor(worth / unit) * unit))


def _affordable(law: TiltLaw) -> float:
    """The least worth, to three digits and upwards, that costs no more than is supported."""
    worth = law.k**-2
    while law.at(worth**-0.5).cost > MOST_NATS:
        worth *= 1.01
    return worth
