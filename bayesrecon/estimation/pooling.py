"""Several releases of one data set: statistics they share are combined by inverse variance."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError, labelled
from bayesrecon.results.recovery import Recovery, Row

_SAME = 1e-6  # relative, of exact statistics of the same records, which may have been stored in single precision


def pool(results: Sequence[Recovery]) -> Recovery:
    """One result from recoveries of the same private data.

    Each statistic is the average of the estimates that are determined, weighted by `1 / se^2`. If none is, the one with
    the largest visibility is kept. Draws of different releases count as independent, which is right for
    separate runs of a sampler, also on the same data. `pseudo` and `spectrum` are those of the release of
    highest rank.

    Raises `BayesreconError` if releases differ by more than 6 standard errors, or beyond rounding if they are exact.
    They are then not of one data set, or one of them does not belong to its model.
    """
    if len(results) < 2:
        raise BayesreconError("pooling needs at least two releases")
    best = max(results, key=lambda r: r.rank)
    return replace(
        best,
        rows=pooled_rows(results),
        release=" + ".join(r.release for r in results),
        model=" + ".join(dict.fromkeys(r.model for r in results)),
        draws=sum(r.draws for r in results),
        gap=all(r.gap for r in results),
        warnings=tuple(labelled(r.release, w) for r in results for w in r.warnings),
        failures=tuple(f"{r.release}: {f}" for r in results for f in r.failures),
        seconds=sum(r.seconds for r in results),
    )


def pooled_rows(results: Iterable[Iterable[Row]]) -> tuple[Row, ...]:
    """The statistics of several results, as `pool` combines them: exact ones are intersected. Raises as `pool` does.

    >>> one, other = (Row("n", n, 3.0, n - 6, n + 6, 3.0, 1.0, "determined", 400) for n in (100.0, 104.0))
    >>> pooled_rows([[one], [other]])[0]
    n: 102.0 ± 2.1, 95 % interval 97.7 to 106.3, determined
    """
    rows: dict[str, list[Row]] = {}
    for result in results:
        for row in result:
            rows.setdefault(row.name, []).append(row)
    return tuple(_combine(found) for found in rows.values())


def _combine(rows: Sequence[Row]) -> Row:
    sure = [r for r in rows if r.verdict == "determined" and not r.se and r.lower is not None and r.upper is not None]
    if sure:
        low, high = max(sure, key=lambda r: r.lower or 0.0), min(sure, key=lambda r: r.upper or 0.0)
        if (low.lower or 0.0) - (high.upper or 0.0) > _SAME * (1 + abs(high.upper or 0.0)):
            raise BayesreconError(
                f"the releases contradict each other on {rows[0].name}: {high.estimate:.6g} and {low.estimate:.6g}; "
                "they are not of the same records"
            )
        best = min(sure, key=lambda r: (r.upper or 0.0) - (r.lower or 0.0))
        ends = sorted((low.lower or 0.0, high.upper or 0.0))
        return replace(best, lower=ends[0], upper=ends[1])
    usable = [r for r in rows if r.verdict == "determined" and r.estimate is not None and r.se]
    if len(usable) < 2:
        return usable[0] if usable else max(rows, key=lambda r: r.visibility)
    estimate, se, floor, half, ess = (
        np.array([getattr(r, name) for r in usable], float) for name in ("estimate", "se", "floor", "upper", "ess")
    )
    weights = se**-2 / (se**-2).sum()
    pooled = float(weights @ estimate)
    error = float((se**-2).sum() ** -0.5)
    distance = np.abs(estimate[:, None] - estimate) / np.sqrt(se[:, None] ** 2 + se**2)
    if distance.max() > 6:
        i, j = np.unravel_index(distance.argmax(), distance.shape)
        raise BayesreconError(
            f"the releases contradict each other on {rows[0].name}: {estimate[i]:.5g} ± {se[i]:.2g} and "
            f"{estimate[j]:.5g} ± {se[j]:.2g}; are they of one data set, each with its own model?"
        )
    unseen = float(weights @ (half - estimate - Z95 * se))  # biases do not average out
    width = Z95 * error + max(unseen, 0.0)
    return Row(
        usable[0].name,
        pooled,
        error,
        pooled - width,
        pooled + width,
        float((np.maximum(floor, 1e-300) ** -2).sum() ** -0.5),
        min(r.visibility for r in usable),
        "determined",
        float(ess.sum()),
    )
