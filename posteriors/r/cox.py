"""Cox regressions of the package survival: numbers at risk, from the likelihood and the concordance.

With `r_i` records at risk at the i-th event, the log partial likelihood without covariates is `-sum_i log r_i`. Each
event makes `r_i - 1` pairs for the concordance (Therneau and Grambsch, Modeling Survival Data, 2000, sections 3.1 and
5.2). With Efron's method, the numbers decrease also within ties, like the pairs of ties. In one stratum without late
entries, the `r_i` are distinct. Together with the numbers at risk at the censorings they are the numbers 1 to n.
"""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, Estimates, Statistic, exactly
from bayesrecon.posteriors.r.parts import inverse_of, labels_of, one_number, unknown_weights, vector_of
from bayesrecon.posteriors.r.r_objects import Place, RObjects, code_of

_PAIRS, _TIED = 5, slice(3, 5)  # numbers of pairs among those of `concordance`: all, and those with one time
_WHOLE = 1e-6  # largest difference of a count from an integer
_ROUNDED = 1e-12  # relative rounding error of a sum of logarithms
_LARGEST = 1e11  # product of numbers at risk that its logarithm determines
_MOST = 1e9  # largest number of records
_MOST_STEPS = 200_000  # largest number of steps of a search for factors
_MOST_NAMED = 8  # largest number of covariates whose covariances are reported
_UNSUPPORTED = ("offset(", "tt(", "frailty", "pspline(", "ridge(")
_INFORMATION = (
    "its scores and its information are averages over the risk set with unknown weights: they determine no "
    "sum over records"
)


def cox(objects: RObjects, place: Place, description: str) -> Estimates:
    """Statistics from a regression without weights and without late entries."""
    unsupported = _unsupported_option(objects, place.node)
    statistics: tuple[Statistic, ...] = ()
    if not unsupported:
        statistics = tuple(_of_events(objects, place.node))
        unsupported = "" if statistics else "its counts, likelihood and concordant pairs contradict each other"
    if not unsupported:
        statistics += tuple(_of_covariates(objects, place.node))
    because = (
        "its log likelihood without covariates is minus the sum of the logarithms of the numbers at risk, "
        "its concordance counts the pairs that they make, and its information is a sum over events of covariances of "
        f"those at risk; {_INFORMATION}"
    )
    return Estimates(
        place.where, description, (place.where,), statistics=statistics, because=because, unsupported=unsupported
    )


def _unsupported_option(objects: RObjects, node: int) -> str:
    """The reason why a fit is not supported, or may not be; empty if it is."""
    formula = objects.element(node, "formula") or objects.element(node, "terms")
    parts = objects.elements(formula) if objects.kind(formula) == "call" else []
    if len(parts) != 3:
        return "it has no formula, so strata and late entries are unknown"
    times = objects.elements(parts[1][1]) if objects.kind(parts[1][1]) == "call" else []
    text = code_of(objects, formula).text
    if objects.size(objects.element(node, "weights")):
        return WEIGHTED
    if "coxph.penal" in objects.classes(node) or any(word in text for word in _UNSUPPORTED):
        return "it has an offset, a penalty or covariates that change with time"
    if "strata(" in text:
        return "it has strata, whose numbers at risk are not told apart"
    if len(times) != 3:
        return "its times are not right-censored event times"
    if _ties(objects, node):
        return "its risk sets differ between tied events"
    return unknown_weights(objects, node)


def _ties(objects: RObjects, node: int) -> bool:
    """Whether tied events may count the same number at risk. With Efron's method or without ties they do not."""
    pairs = vector_of(objects, node, "concordance")
    distinct_times = len(pairs) > _PAIRS and not np.any(pairs[_TIED])
    return objects.texts(objects.element(node, "method"))[:1] != ["efron"] and not distinct_times


def _of_events(objects: RObjects, node: int) -> Iterator[Statistic]:
    n, events = (one_number(objects, node, name) for name in ("n", "nevent"))
    likelihood, pairs = vector_of(objects, node, "loglik"), vector_of(objects, node, "concordance")
    if n is None or events is None or not len(likelihood) or not 0 < events <= n <= _MOST:
        return
    if not np.isfinite(likelihood).all() or n != round(n) or events != round(events):
        return
    logs = -float(likelihood[0])
    counted = len(pairs) > _PAIRS and bool(np.isfinite(pairs[:_PAIRS]).all())
    risk = float(pairs[:_PAIRS].sum() + events) if counted else math.nan
    if not possible_times(int(n), int(events), logs, risk):
        return
    yield exactly("n", n)
    yield exactly("n[event=1]", events)
    yield exactly("n[event=0]", n - events)
    yield exactly("sum(log(at risk at an event))", logs)
    if counted:
        yield exactly("sum(at risk at an event)", risk)
        yield exactly("sum(at risk at a censoring)", n * (n + 1) / 2 - risk)
        yield from _numbers("event", int(n), int(events), logs, risk)
        censoring_logs = math.lgamma(n + 1) - logs
        yield from _numbers("censoring", int(n), int(n - events), censoring_logs, n * (n + 1) / 2 - risk)


def possible_times(n: int, events: int, logs: float, risk: float) -> bool:
    """Whether `events` distinct numbers up to n can have the sum `risk`, and their logarithms the sum `logs`.

    `risk` is NaN if it is unknown.
    """
    slack = _ROUNDED * (1 + abs(logs)) * n
    least, most = math.lgamma(events + 1), math.lgamma(n + 1) - math.lgamma(n - events + 1)
    if not least - slack <= logs <= most + slack:
        return False
    if math.isnan(risk):
        return True
    low, high = events * (events + 1) / 2, events * (2 * n - events + 1) / 2
    possible = abs(risk - round(risk)) <= _WHOLE and low <= risk <= high
    return possible and logs <= events * math.log(risk / events) + slack


def _numbers(when: str, n: int, count: int, logs: float, total: float) -> Iterator[Statistic]:
    """Individual numbers at risk or their limits, if few sequences have this sum and product."""
    if not 0 < count <= n or not logs < math.log(_LARGEST):
        return
    product = round(math.exp(logs))
    if abs(math.exp(logs) - product) > 0.1 or abs(math.log(product) - logs) > 1e-9:
        return
    candidates = factors_of(n, count, product, round(total))
    if not candidates:
        return
    sequences = np.array(candidates)
    lowest, highest = sequences.min(axis=0).tolist(), sequences.max(axis=0).tolist()
    for k, (low, high) in enumerate(zip(lowest, highest, strict=True), 1):
        estimate = float(low) if low == high else None
        yield Statistic(f"at risk at {when} {count - k + 1}", estimate, float(low), float(high))


def factors_of(n: int, count: int, product: int, total: int) -> list[tuple[int, ...]]:
    """All increasing sequences of `count` numbers up to n with a product and a sum; none if the search is too long."""
    result: list[tuple[int, ...]] = []
    steps = 0
    waiting: list[tuple[tuple[int, ...], int, int]] = [((), product, total)]
    while waiting:
        chosen, product_left, total_left = waiting.pop()
        k = count - len(chosen)
        first = chosen[-1] + 1 if chosen else 1
        if k == 1:
            if first <= product_left == total_left <= n:
                result.append((*chosen, product_left))
            continue
        for factor in range(first, n + 1):
            steps += 1
            if steps > _MOST_STEPS:
                return []
            if k * factor + k * (k - 1) // 2 > total_left or factor**k > product_left:
                break
            if product_left % factor == 0:
                waiting.append(((*chosen, factor), product_left // factor, total_left - factor))
    return result


def _of_covariates(objects: RObjects, node: int) -> Iterator[Statistic]:
    """Means of the covariates over all records, except zeros, and mean covariances of the records at risk."""
    means = objects.element(node, "means")
    names = labels_of(objects.names(means))
    values = vector_of(objects, node, "means")
    if len(names) == len(values) and len(set(names)) == len(names):
        yield from (exactly(f"mean({k})", v) for k, v in zip(names, values, strict=True) if np.isfinite(v) and v)
    labels = labels_of(objects.names(objects.element(node, "coefficients")))
    spread = objects.element(node, "naive.var") or objects.element(node, "var")
    covariance, events = np.asarray(objects.array(spread), float), one_number(objects, node, "nevent")
    p = len(labels)
    if not p or covariance.shape != (p, p) or not np.isfinite(covariance).all() or not events:
        return
    inverse = inverse_of(covariance)
    if inverse is None:
        return
    mean = inverse / events
    if np.linalg.cond(covariance * np.outer(*[1 / np.sqrt(np.abs(np.diag(covariance)) + 1e-300)] * 2)) > 1e8:
        return  # some columns are linearly dependent
    for i, j in combinations_with_replacement(range(min(p, _MOST_NAMED)), 2):
        yield exactly(f"mean covariance at events({labels[i]}, {labels[j]})", mean[i, j])
