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

# Multiples R / N for the cap of the tilts. The first one at which the theory holds is used.
_TIMES = (64, 32, 16, 8, 4, 2, 1)
_TILTS = 200  # random tilts with which the theory is tested, all different from the one that is used
# Largest relative difference between the cost of a tilt and its second order. On other draws it can be twice as large.
_APART = 0.1
_SHARE = 0.98  # of the tilts must be within this difference


def check_worth(worth: float) -> float:
    """The worth as a number.

    Raises:
        BayesreconError: it is not a number, or below the smallest supported worth.
    """
    try:
        number = float(worth)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"worth={worth!r} is not a number of draws") from None
    if not LEAST_WORTH <= number < np.inf:
        raise BayesreconError(
            f"worth={worth}: the smallest supported worth is {LEAST_WORTH:g} draws, because it is not known what "
            f"larger tilts hide; use {LEAST_WORTH:g} or more"
        )
    return number


def with_widest_cap(tilts: TiltDistribution, name: str) -> tuple[TiltDistribution, int]:
    """The distribution of tilts with the widest cap at which the theory holds, and R / N of this cap.

    Args:
        tilts: distribution whose cap is the scatter of N ordinary records.
        name: name of the release, for messages.

    Raises:
        BayesreconError: the tilts cost more than is supported, or the theory does not hold.
    """
    if tilts.cost > MOST_NATS:
        raise BayesreconError(
            f"{name}: a worth of {tilts.k**-2:g} draws costs {tilts.cost:.2g} nats in {tilts.effective_rank:.0f} "
            f"directions, and at most {MOST_NATS:g} are supported; use worth={_affordable(tilts):.3g} or more, or "
            "publish fewer parameters"
        )
    normals = public_stream("trial tilts").normal(size=(len(tilts.scatters), _TILTS))
    for times in _TIMES:
        capped = tilts.with_cap(times)
        if capped.cost <= MOST_NATS and holds(capped, normals):
            return capped, times
    raise BayesreconError(
        f"{name}: at a worth of {tilts.k**-2:g} draws, tilts do not cost what the theory says, so it is not known what "
        "they hide; use a larger worth="
    )


def holds(tilts: TiltDistribution, normals: np.ndarray) -> bool:
    """Whether nearly all of S random tilts, from normal numbers `(M, S)`, have nearly the cost of second order."""
    samples = tilts.values @ tilts.weights(normals)
    ratio = divergences(samples) / (samples.var(axis=0) / 2)
    return float(np.mean(np.abs(ratio - 1) <= _APART)) >= _SHARE


def tilted_errors(
    problem: Problem, rows: Sequence[Row], slopes: np.ndarray, worths: Sequence[int]
) -> tuple[dict[int, np.ndarray], tuple[str, ...]]:
    """Standard deviations over tilts of the statistics with these slopes in the basis, `(r, S)`.

    Returns:
        `{worth: (S,)}`, and for each worth that is missing, the reason. Worths below the smallest supported one are
        skipped.
    """
    supported = [worth for worth in worths if worth >= LEAST_WORTH]
    count = count_of(rows) or problem.knowledge.total
    if not supported:
        return {}, ()
    if count is None:
        return {}, ("sanitised draws are not planned for: the number of records is not determined",)
    errors, missing = {}, []
    try:
        tilts = tilt_distribution(problem, supported[0] ** -0.5, public_stream("records"), max(1.0, float(count)))
        cross = np.asarray(problem.solved.embedding.cross(problem.solved.basis, tilts.records)) @ slopes
    except BayesreconError as error:
        return {}, (f"sanitised draws are not planned for: {error}",)
    for worth in supported:
        try:
            errors[worth] = with_widest_cap(tilts.with_size(worth**-0.5), problem.release.name)[0].scatter(cross)
        except BayesreconError as error:
            missing.append(f"sanitised draws worth {worth} are not planned for: {error}")
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


def _affordable(tilts: TiltDistribution) -> float:
    """The smallest worth whose cost is supported, rounded up to three digits."""
    worth = tilts.k**-2
    while tilts.with_size(worth**-0.5).cost > MOST_NATS:
        worth *= 1.01
    return worth
