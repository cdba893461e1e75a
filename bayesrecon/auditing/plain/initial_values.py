"""Initial values of rstanarm's chains: with the means over each chain, a `stanfit` reveals the means of covariates."""

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.short_text import short
from bayesrecon.posteriors.r.rstanarm_means import MEANS
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

_ENDS = ("/gamma", "/alpha", "@mean_pars")
_SHOWN = 6  # largest number of means in the summary


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding from the intercepts for centred and for original covariates, whose difference depends on the means."""
    program = look.contents.program
    means = np.zeros(0) if program is None else np.ravel(program.constants.get(MEANS, np.zeros(0)))
    if program is None or not means.any():  # sparse designs are not centred
        return [], []
    names = {entry: name for name, entry in program.names.items()}
    items = tuple(
        Item(f"mean({names.get(f'beta[{k + 1}]', f'covariate {k + 1}')})", float(mean), 0.0)
        for k, mean in enumerate(means)
    )
    where = tuple(e.where for e in look.contents.entries if e.where.endswith(_ENDS) and "stanfit" in e.where)
    listed = "; ".join(f"{short(i.name, 40)} = {i.estimate:.10g}" for i in items[:_SHOWN])
    return [
        Finding(
            "prior",
            "medium",
            f"initial values and means of chains give the means of {len(items)} covariates exactly",
            where,
            "rstanarm centres the covariates: the intercepts for centred and original covariates, in initial values "
            f"and means of chains, differ by a combination of the covariates' means: {listed}",
            "nothing but the file",
            evidence=items,
            remedies=(Remedy("drop the slot inits and the attributes mean_pars of the samples"),),
            drop=where,
        )
    ], []


CHANNEL = Channel("initial values of chains", find, 12)
