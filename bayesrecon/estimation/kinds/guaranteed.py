"""Rows of draws that know their noise: the noisy totals beside them, with the noise in every interval."""

import time
from typing import Any, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import PseudoData
from bayesrecon.releases import GuaranteedDraws, Release
from bayesrecon.results.mechanism import LEVEL, TIMES, Mechanism
from bayesrecon.results.recovery import Recovery, Row

_SAMPLES = 20_000  # of the noise: enough for the ends of an interval to two digits


class OfGuaranteedDraws(Kind):
    of = GuaranteedDraws
    states: ClassVar[bool] = True

    def opened(self, release: Release, coordinates: str) -> Release:
        raise BayesreconError(
            f"{release.name}: these draws are of a posterior given noisy totals, so the equations of a posterior of "
            "records do not hold; `recover` gives what the noisy totals say"
        )

    def stated(self, release: Any, statistics: Any, knows: Knows) -> Recovery:
        start = time.perf_counter()
        if statistics is not None or any(value is not None for value in knows.values()):
            raise BayesreconError(
                f"{release.name} have noisy totals alone: leave out statistics= and what the attacker knows"
            )
        fields = check_knowledge(release.model).fields
        mechanism = Mechanism.from_json(release.mechanism)
        return Recovery(
            rows=rows_of(mechanism),
            release=release.name,
            model=release.model.name,
            draws=release.size,
            metric="identity",
            coordinates="unconstrained",
            temperature=release.temperature,
            rank=0,
            gap=True,
            spectrum=np.zeros(0),
            pseudo=PseudoData(np.zeros(0), {k: np.zeros((0, *f.shape)) for k, f in fields.items()}),
            warnings=(
                Note(
                    f"the file says that it is {mechanism.words}; then no attack recovers more of a record than this "
                    "allows, and intervals are those of the noise, about values clipped to the stated ranges"
                ),
            ),
            seconds=time.perf_counter() - start,
            presumes="if the noise is what the file says",
        )


def rows_of(mechanism: Mechanism) -> tuple[Row, ...]:
    """Number, means, variances and covariances of the clipped records, as the noisy totals tell them.

    The interval of a statistic holds 95 % of its values over totals that the noise allows.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(_SAMPLES, len(mechanism.totals))) * np.asarray(mechanism.sd)
    drawn = np.vstack([mechanism.totals, np.asarray(mechanism.totals) - noise])
    totals = {_factors(name): column for name, column in zip(mechanism.features, drawn.T, strict=True)}
    if () not in totals:  # gradient and curvature at a location, which are no moments
        return ()
    count = totals[()]
    found = {"n": count}
    with np.errstate(all="ignore"):
        means = {name[0]: total / count for name, total in totals.items() if len(name) == 1}
        for name, mean in means.items():
            if LEVEL in name:
                found[f"n[{name}]"] = mean * count
                continue
            low, high = mechanism.ranges[name.split("[")[0]]
            found[f"mean({name})"] = np.clip(low + (mean + 1) / 2 * (high - low), low, high)
            for other, of_other in means.items():
                if (pair := tuple(sorted((name, other)))) in totals and LEVEL not in other and name <= other:
                    ends = mechanism.ranges[other.split("[")[0]]
                    value = (totals[pair] / count - mean * of_other) * (high - low) * (ends[1] - ends[0]) / 4
                    found[f"var({name})" if name == other else f"cov({name},{other})"] = value
    rows = []
    for name, values in found.items():
        low, high = np.quantile(np.nan_to_num(values[1:]), (0.025, 0.975))
        low = max(float(low), 0.0) if name.startswith(("n", "var(")) else float(low)
        rows.append(Row(name, float(values[0]), None, low, float(high), verdict="partly"))
    return tuple(rows)


def _factors(name: str) -> tuple[str, ...]:
    """The factors of a feature, sorted."""
    return () if name == "1" else tuple(sorted(name.split(TIMES)))


KIND = OfGuaranteedDraws()
