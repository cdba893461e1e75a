"""Default priors of rstanarm, whose scales are proportional to standard deviations of the private columns.

In a Gaussian model with response y, rstanarm multiplies the scale of the intercept by `sd(y)`, and that of the slope of
x by `sd(y) / sd(x)`. In other models it multiplies the scale of the slope by `1 / sd(x)`. The default location of the
intercept is the mean of y. The object contains the requested scales and those that were used (`stan_glm.fit`).
"""

from collections.abc import Iterator

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.short_text import places, short
from bayesrecon.posteriors.contents import Entry
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

_INFO = "prior.info/prior_intercept/location"
# Standard deviations this close to one belong to orthogonal columns (`QR = TRUE`), which are not data. A wider band
# would exclude standardised columns, and a narrower one would be below rounding.
_UNIT = 1e-12
_WRITTEN = 8  # a location with at most this many significant digits may have been chosen by a person
_MAKES = "rstanarm scales its default priors with the data, and keeps the scales it used beside the requested ones"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each fit of rstanarm, with exact means and standard deviations."""
    entries = {e.where: e for e in look.contents.entries if e.kind in ("array", "text", "labels")}
    by_estimates: dict[tuple[float | None, ...], tuple[tuple[Item, ...], tuple[str, ...]]] = {}
    for root in (where.removesuffix(_INFO) for where in entries if where.endswith(_INFO)):
        items_here = list(_items(entries, root))
        if items_here:  # the inner `stanfit` has a copy of the priors
            items, before = by_estimates.get(
                tuple(i.estimate for i, _ in items_here), (tuple(i for i, _ in items_here), ())
            )
            by_estimates[tuple(i.estimate for i in items)] = items, (*before, *dict.fromkeys(w for _, w in items_here))
    return [_finding(items, where) for items, where in by_estimates.values()], []


def _finding(items: tuple[Item, ...], where: tuple[str, ...]) -> Finding:
    return Finding(
        "prior",
        "medium",
        f"default priors give {places([i.name for i in items], 6)} exactly",
        where,
        f"{_MAKES}: " + "; ".join(f"{short(i.name, 40)} = {i.estimate:.10g}" for i in items[:6]),
        "nothing but the file",
        evidence=items,
        remedies=(Remedy("state priors of your own with autoscale = FALSE, and drop prior.info"),),
        drop=where,
    )


def _items(entries: dict[str, Entry], root: str) -> Iterator[tuple[Item, str]]:
    intercept, slopes = f"{root}prior.info/prior_intercept/", f"{root}prior.info/prior/"
    spread, family = _ratio(entries, intercept), _texts(entries, f"{root}family/family")
    gaussian = len(spread) == 1  # other models do not scale the intercept
    if gaussian:
        location = _numbers(entries, f"{intercept}location")
        if len(location) == 1 and float(f"{location[0]:.{_WRITTEN}g}") != location[0]:
            yield Item("mean(response)", float(location[0]), 0.0), f"{intercept}location"
        yield Item("sd(response)", float(spread[0]), 0.0), f"{intercept}adjusted_scale"
    ratio = _ratio(entries, slopes)
    if not len(ratio) or (not gaussian and family in ([], ["gaussian"])):
        return
    sizes = (spread[0] if gaussian else 1.0) / ratio
    if np.all(np.abs(sizes - 1) < _UNIT):
        return
    names = [n for n in _texts(entries, f"{root}coefficients@names") if n != "(Intercept)" and not n.startswith("b[")]
    names = names if len(names) == len(sizes) else [f"covariate {k + 1}" for k in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        yield Item(f"sd({name})", float(size), 0.0), f"{slopes}adjusted_scale"


def _ratio(entries: dict[str, Entry], where: str) -> np.ndarray:
    """Ratio of the used to the requested scale; empty if one is missing."""
    requested, used = (_numbers(entries, f"{where}{name}") for name in ("scale", "adjusted_scale"))
    if not len(used) or len(requested) not in (1, len(used)):
        return np.zeros(0)
    good = np.all(np.isfinite(used)) and np.all(np.isfinite(requested)) and np.all(used > 0) and np.all(requested > 0)
    return used / requested if good else np.zeros(0)


def _numbers(entries: dict[str, Entry], where: str) -> np.ndarray:
    values = np.ravel(entries[where].values) if where in entries else np.zeros(0)
    return values.astype(float) if values.dtype.kind in "iuf" else np.zeros(0)


def _texts(entries: dict[str, Entry], where: str) -> list[str]:
    return [str(v) for v in np.ravel(entries[where].values)] if where in entries else []


CHANNEL = Channel("scales of default priors", find, 10)
