"""Which tilts are supported: those of sizes at which the theory was found to hold. Nothing here depends on a secret."""

from collections.abc import Callable, Sequence

import numpy as np

from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution, count_of, divergences, tilt_distribution
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.results.row import Row

LEAST_WORTH = 100.0
"""Smallest supported worth, in draws: k is at most a tenth."""

MOST_NATS = 0.045
"""Largest supported cost in nats, to second order. The measured cost is then below a twentieth."""

_MOST = 1e6  # largest worth that is tried: the sampling error of draws hides more than tilts of this size
# Multiples R / N for the cap of the tilts. The first one at which the theory holds is used.
_TIMES = (64, 32, 16, 8, 4, 2, 1)
_TILTS = 200  # random tilts with which the theory is tested, all different from the one that is used
# Largest relative difference between the cost of a tilt and its second order. On other draws it can be twice as large.
_APART = 0.1
_SHARE = 0.98  # of the tilts must be within this difference


class UnsupportedWorthError(BayesreconError):
    """A worth at which the theory does not hold; `least` is the smallest at which it does, None if there is none."""

    def __init__(self, message: str, least: float | None) -> None:
        super().__init__(message)
        self.least = least


def check_worth(worth: float, name: str = "worth") -> float:
    """The worth as a number.

    Raises:
        BayesreconError: it is not a positive number.
    """
    try:
        number = float(worth)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not 0 < number < np.inf:
        raise BayesreconError(f"{name}={worth!r}: expected a number of draws, such as {LEAST_WORTH:g}")
    return number


def with_widest_cap(
    tilts: TiltDistribution, name: str, conditions: Callable[[float], str] = lambda worth: ""
) -> tuple[TiltDistribution, int]:
    """The distribution of tilts with the widest cap at which the theory holds, and R / N of this cap.

    Args:
        tilts: distribution whose cap is the scatter of N ordinary records.
        name: name of the release, for messages.
        conditions: text behind the worth that the message names: what else it needs.

    Raises:
        UnsupportedWorthError: the tilts are larger than those that were tested, cost more than is supported, or the
            theory does not hold. The message names a worth at which none of this is so.
    """
    found = _widest(tilts)
    if not isinstance(found, str):
        return found
    least = least_worth(tilts)
    cure = "no worth up to a million is" if least is None else f"use worth={least:g}{conditions(least)}"
    raise UnsupportedWorthError(
        f"{name}: worth={tilts.k**-2:.6g} is not supported, because {found}; {cure}, or publish fewer parameters",
        least,
    )


def is_supported(tilts: TiltDistribution) -> bool:
    """Whether the theory holds with the narrowest cap, so that `with_widest_cap` accepts the tilts."""
    return not isinstance(_widest(tilts, _TIMES[-1:]), str)


def least_worth(tilts: TiltDistribution) -> float | None:
    """The smallest supported worth among numbers of three digits, up to a million; None if there is none.

    It is tried, not computed: the theory holds for it.
    """
    worths = [digits * 10.0**power for power in range(4) for digits in range(100, 1000)] + [_MOST]
    high = len(worths) - 1
    low, step = -1, 1
    while not is_supported(tilts.with_size(worths[min(low + step, high)] ** -0.5)):
        if low + step >= high:
            return None
        low, step = low + step, 2 * step
    high = min(low + step, high)
    while high - low > 1:
        middle = (low + high) // 2
        works = is_supported(tilts.with_size(worths[middle] ** -0.5))
        low, high = (low, middle) if works else (middle, high)
    return worths[high]


def _widest(tilts: TiltDistribution, multiples: Sequence[int] = _TIMES) -> tuple[TiltDistribution, int] | str:
    """As `with_widest_cap`, or the reason why there is none."""
    if tilts.k > LEAST_WORTH**-0.5:
        return f"it is not known what the tilts of fewer than {LEAST_WORTH:g} draws hide"
    if tilts.cost > MOST_NATS:
        return f"it costs {tilts.cost:.2g} nats in {tilts.effective_rank:.0f} directions, more than {MOST_NATS:g}"
    normals = public_stream("trial tilts").normal(size=(len(tilts.scatters), _TILTS))
    for times in multiples:
        capped = tilts.with_cap(times)
        if capped.cost <= MOST_NATS and holds(capped, normals):
            return capped, times
    return "tilts do not cost what the theory says, so it is not known what they hide"


def holds(tilts: TiltDistribution, normals: np.ndarray) -> bool:
    """Whether nearly all of S random tilts, from normal numbers `(M, S)`, have nearly the cost of second order."""
    samples = tilts.values @ tilts.weights(normals)
    ratio = divergences(samples) / (samples.var(axis=0) / 2)
    return float(np.mean(np.abs(ratio - 1) <= _APART)) >= _SHARE


def planned_tilts(problem: Problem, rows: Sequence[Row]) -> TiltDistribution:
    """The distribution of tilts of a solved release whose data are not at hand.

    Raises:
        BayesreconError: the number of records is not determined, or there are no tilts.
    """
    count = count_of(rows) or problem.knowledge.total
    if count is None:
        raise BayesreconError("the number of records is not determined")
    return tilt_distribution(problem, LEAST_WORTH**-0.5, public_stream("records"), max(1.0, float(count)))


def tilted_errors(
    problem: Problem, tilts: TiltDistribution, slopes: np.ndarray, worths: Sequence[int]
) -> tuple[dict[int, np.ndarray], tuple[str, ...]]:
    """Standard deviations over tilts of the statistics with these slopes in the basis, `(r, S)`.

    Returns:
        `{worth: (S,)}`, and for each worth that is missing, the reason.
    """
    cross = np.asarray(problem.solved.embedding.cross(problem.solved.basis, tilts.records)) @ slopes
    errors, missing = {}, []
    for worth in worths:
        found = _widest(tilts.with_size(worth**-0.5))
        if isinstance(found, str):
            missing.append(f"sanitised draws worth {worth} are not planned for: {found}")
        else:
            errors[worth] = found[0].scatter(cross)
    return errors, tuple(missing)


def worth_for(shift: float, largest: Callable[[float], float], subject: str = "a record moves") -> float:
    """The largest worth at which no record shifts the release by more than `shift`.

    Args:
        shift: in posterior standard deviations.
        largest: function that maps k to the largest shift by a record.
        subject: subject and verb for messages.

    Raises:
        BayesreconError: that needs larger tilts than are supported.
    """
    if not (np.isfinite(shift) and shift > 0):
        raise BayesreconError(f"records={shift}: expected a positive number of standard deviations, e.g. 1")
    most = LEAST_WORTH**-0.5
    if (least := largest(most)) > shift:
        raise BayesreconError(
            f"records={shift:g}: at the smallest supported worth of {LEAST_WORTH:g} draws, {subject} the release by "
            f"{least:.2g} standard deviations, which tilts cannot hide; publish fewer parameters, or fit with a "
            "differentially private method"
        )
    low, high = 0.0, most
    for _ in range(30):  # halvings
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) > shift else (low, middle)
    worth = high**-2
    unit = 10.0 ** (np.floor(np.log10(worth)) - 1)  # two digits: more would reveal the record
    return float(max(LEAST_WORTH, np.floor(worth / unit) * unit))
