"""Priors that were set from the data: their constants, and their values at the draws."""

import re
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.attacks.sidechannels.centred_prior import INTERCEPT, PRIOR, SLOPES, means_by_prior
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.short_text import places
from bayesrecon.posteriors.contents import Entry
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

if TYPE_CHECKING:
    from bayesrecon.model import Model
    from bayesrecon.models.stan import StanModel

_DEFAULT = re.compile(r"student_t(?:_lpdf)?\((?:\w+ \| )?3, (-?(?!0[,.) ])[\d.]+), ([\d.]+)\)")
"""A default prior as brms writes it, unless its location is zero."""


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on constants of default priors, and on means of covariates from the prior of a centred intercept."""
    return [*_priors(look), *_means(look), *_written(look)], []


def program_of(look: Look) -> str:
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


def _written(look: Look) -> list[Finding]:
    """Findings on priors that the Stan program computes from the data."""
    model = _stan(look.model)
    if model is None or not model.data_priors:
        return []
    return [
        Finding(
            "prior",
            "low",
            "constants of the priors are computed from the data",
            ("the program",),
            f"{places(model.data_priors, 3)}: these constants, which a user of the model needs, are statistics of "
            "the data",
            "the constants",
            remedies=(Remedy("state priors that do not depend on the data"),),
        )
    ]


def _means(look: Look) -> list[Finding]:
    draws, program = look.contents.draws, program_of(look)
    if not program or draws is None:
        return []
    scalars = {name: values.reshape(-1) for name, values in draws.values.items() if values.ndim == 2}
    recovered = means_by_prior(program, scalars)
    if recovered is None:
        return []
    means = zip(recovered.names, recovered.values, recovered.errors, strict=True)
    items = [Item(f"mean({name.removeprefix(SLOPES)})", float(value), float(se)) for name, value, se in means]
    where = (f"posterior/{PRIOR}",)
    return [
        Finding(
            "prior",
            "medium",
            f"{where[0]} gives the means of {len(items)} covariates exactly",
            where,
            f"it is a function of the intercept of centred covariates, which differs from {INTERCEPT} by their means: "
            + "; ".join(f"{i.name} = {i.estimate:.10g}" for i in items),
            "the draws and their program",
            evidence=tuple(items),
            remedies=(Remedy(f"drop {where[0]}"),),
            drop=where,
        )
    ]


def _priors(look: Look) -> list[Finding]:
    """Findings on default priors of brms, whose location and scale are the response's median and absolute deviation."""
    texts = {"the program": program_of(look)}
    texts |= {e.where: " ".join(map(str, np.ravel(e.values))) for e in look.contents.entries if _is_prior(e)}
    matches = {where: m for where, text in texts.items() if (m := _DEFAULT.search(text)) is not None}
    if not matches:
        return []
    median, deviation = next(iter(matches.values())).groups()
    where = tuple(w for w in matches if w != "the program") or ("the program",)
    return [
        Finding(
            "prior",
            "low",
            f"a default prior shows the median of the response ({median}) and its spread ({deviation})",
            where,
            "brms centres the intercept at the median of the response as the model has it, to one decimal; its scale "
            f"is the median absolute deviation, where that is above 2.5: in {places(matches, 3)}",
            remedies=(Remedy("state priors of your own: prior(normal(0, 50), class = Intercept)"),),
        )
    ]


def _is_prior(entry: Entry) -> bool:
    return entry.kind == "array" and entry.where.endswith("prior/prior") and np.asarray(entry.values).dtype.kind == "U"


CHANNEL = Channel("default priors", find, 13)
