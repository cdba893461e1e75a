"""Priors that depend on the data: constants in programs and objects, values at the draws, and initial values of chains.

In a Gaussian model with response y, rstanarm multiplies the scale of the intercept by `sd(y)`, and that of the slope of
x by `sd(y) / sd(x)`. In other models it multiplies the scale of the slope by `1 / sd(x)`. The default location of the
intercept is the mean of y. The object contains the requested scales and those that were used (`stan_glm.fit`). It
centres the covariates, so that the intercepts for centred and for original covariates, in initial values and in means
of chains, differ by a combination of the covariates' means.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.attacks.sidechannels.centred_prior import INTERCEPT, PRIOR, SLOPES, means_by_prior
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import NOTHING, places, short, to_drop
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.r.rstanarm_means import MEANS
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy
from bayesrecon.results.told import values_in

if TYPE_CHECKING:
    from bayesrecon.model import Model
    from bayesrecon.models.stan import StanModel

_DEFAULT = re.compile(r"student_t(?:_lpdf)?\((?:\w+ \| )?3, (-?(?!0[,.) ])[\d.]+), ([\d.]+)\)")
"""A default prior as brms writes it, unless its location is zero."""

_INFO = "prior.info/prior_intercept/location"
# Standard deviations this close to one belong to orthogonal columns (`QR = TRUE`), which are not data. A wider band
# would exclude standardised columns, and a narrower one would be below rounding.
_UNIT = 1e-12
_WRITTEN = 8  # a location with at most this many significant digits may have been chosen by a person
_OF_CHAINS = ("/gamma", "/alpha", "@mean_pars")
_OWN = "state priors of your own with autoscale = FALSE, and drop prior.info"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on constants of default priors, and on means of covariates from intercepts of centred covariates."""
    return [*_scales(look), *_initial_values(look), *_default(look), *_means(look), *_written(look)], []


def _exactly(title: str, why: str, items: Sequence[Item], where: tuple[str, ...], needs: str, instead: str) -> Finding:
    """A finding on statistics that are exact."""
    listed = "; ".join(f"{short(i.name, 40)} = {i.estimate:.10g}" for i in items[:6])
    return to_drop("prior", "medium", title, where, f"{why}: {listed}", needs, instead=instead, evidence=tuple(items))


def _program_of(look: Look) -> str:
    """The Stan program in the file or of the model; "" if there is none."""
    if look.contents.program is not None:
        return look.contents.program.text
    model = _stan(look.model)
    return "" if model is None else model.text


def _stan(model: "Model | None") -> "StanModel | None":
    if model is None or not type(model).__module__.startswith("bayesrecon.models.stan"):
        return None
    from bayesrecon.models.stan import StanModel  # imported here because it takes long to load

    return model if isinstance(model, StanModel) else None


def _written(look: Look) -> Iterator[Finding]:
    """A finding on priors that the Stan program computes from the data."""
    model = _stan(look.model)
    if model is not None and model.data_priors:
        title = "constants of the priors are computed from the data"
        summary = (
            f"{places(model.data_priors, 3)}: these constants, which a user of the model needs, are statistics of "
        )
        remedies = (Remedy("state priors that do not depend on the data", leaves="info"),)
        where = ("the program",)
        yield Finding("prior", "low", title, where, f"{summary}the data", "the constants", remedies=remedies)


def _means(look: Look) -> Iterator[Finding]:
    draws, program = look.contents.draws, _program_of(look)
    if not program or draws is None:
        return
    scalars = {name: values.reshape(-1) for name, values in draws.values.items() if values.ndim == 2}
    if (recovered := means_by_prior(program, scalars)) is not None:
        means = zip(recovered.names, recovered.values, recovered.errors, strict=True)
        items = [Item(f"mean({name.removeprefix(SLOPES)})", float(value), float(se)) for name, value, se in means]
        place = f"posterior/{PRIOR}"
        title = f"{place} gives the means of {len(items)} covariates exactly"
        why = f"it is a function of the intercept of centred covariates, which differs from {INTERCEPT} by their means"
        yield _exactly(title, why, items, (place,), "the draws and their program", "")


def _default(look: Look) -> Iterator[Finding]:
    """A finding on default priors of brms: the response's median is their location, its deviation their scale."""
    texts = {"the program": _program_of(look)}
    texts |= {e.where: " ".join(map(str, np.ravel(e.values))) for e in look.contents.entries if _is_prior(e)}
    matches = {where: m for where, text in texts.items() if (m := _DEFAULT.search(text)) is not None}
    if matches:
        median, deviation = next(iter(matches.values())).groups()
        yield Finding(
            "prior",
            "low",
            f"a default prior shows the median of the response ({values_in(median)}) and its spread ({deviation})",
            tuple(w for w in matches if w != "the program") or ("the program",),
            "brms centres the intercept at the median of the response as the model has it, to one decimal; its scale "
            f"is the median absolute deviation, where that is above 2.5: in {places(matches, 3)}",
            remedies=(Remedy("state priors of your own: prior(normal(0, 50), class = Intercept)", leaves="info"),),
        )


def _is_prior(entry: Entry) -> bool:
    return entry.kind == "array" and entry.where.endswith("prior/prior") and np.asarray(entry.values).dtype.kind == "U"


def _initial_values(look: Look) -> Iterator[Finding]:
    """A finding from the intercepts for centred and for original covariates, whose difference depends on the means."""
    program = look.contents.program
    means = np.zeros(0) if program is None else np.ravel(program.constants.get(MEANS, np.zeros(0)))
    if program is None or not means.any():  # sparse designs are not centred
        return
    names = {entry: name for name, entry in program.names.items()}
    named = [names.get(f"beta[{k + 1}]", f"covariate {k + 1}") for k in range(len(means))]
    items = [Item(f"mean({name})", float(mean), 0.0) for name, mean in zip(named, means, strict=True)]
    where = tuple(e.where for e in look.contents.entries if e.where.endswith(_OF_CHAINS) and "stanfit" in e.where)
    title = f"initial values and means of chains give the means of {len(items)} covariates exactly"
    why = (
        "rstanarm centres the covariates: the intercepts for centred and original covariates, in initial values and "
        "means of chains, differ by a combination of the covariates' means"
    )
    yield _exactly(title, why, items, where, NOTHING, "drop the slot inits and the attributes mean_pars of the samples")


def _scales(look: Look) -> Iterator[Finding]:
    """One finding for each fit of rstanarm, with exact means and standard deviations."""
    entries = {e.where: e for e in look.contents.entries if e.kind in ("array", "text", "labels")}
    by_items: dict[tuple[Item, ...], list[str]] = {}
    for root in (where.removesuffix(_INFO) for where in entries if where.endswith(_INFO)):
        if items := list(_of_scales(entries, root)):  # the inner `stanfit` has a copy of the priors
            same = next((k for k in by_items if [i.estimate for i in k] == [i.estimate for i, _ in items]), None)
            by_items.setdefault(same or tuple(i for i, _ in items), []).extend(dict.fromkeys(w for _, w in items))
    why = "rstanarm scales its default priors with the data, and keeps the scales it used beside the requested ones"
    for items, where in by_items.items():
        title = f"default priors give {places([i.name for i in items], 6)} exactly"
        yield _exactly(title, why, items, tuple(where), NOTHING, _OWN)


def _of_scales(entries: Mapping[str, Entry], root: str) -> Iterator[tuple[Item, str]]:
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


def _ratio(entries: Mapping[str, Entry], where: str) -> np.ndarray:
    """Ratio of the used to the requested scale; empty if one is missing."""
    requested, used = (_numbers(entries, f"{where}{name}") for name in ("scale", "adjusted_scale"))
    if not len(used) or len(requested) not in (1, len(used)):
        return np.zeros(0)
    good = np.all(np.isfinite(used)) and np.all(np.isfinite(requested)) and np.all(used > 0) and np.all(requested > 0)
    return used / requested if good else np.zeros(0)


def _numbers(entries: Mapping[str, Entry], where: str) -> np.ndarray:
    values = np.ravel(entries[where].values) if where in entries else np.zeros(0)
    return values.astype(float) if values.dtype.kind in "iuf" else np.zeros(0)


def _texts(entries: Mapping[str, Entry], where: str) -> list[str]:
    return [str(v) for v in np.ravel(entries[where].values)] if where in entries else []


CHANNEL = Channel("priors", find, 10)
