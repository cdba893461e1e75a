"""Models with a parameter per group, written non-centred: a record names its group by an index field."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.errors import BayesreconError
from bayesrecon.models.adapter import from_numpyro
from bayesrecon.models.registry import Shipped
from bayesrecon.types import Model, Records


def eight_schools_noncentered(schools: int = 8) -> Model:
    """Effects of coaching in schools: `y_j ~ Normal(mu + tau * theta_trans_j, sigma_j)`; school counts from 1."""

    def program(school: Any, sigma: Any, y: Any = None) -> None:
        theta_trans: Any = numpyro.sample("theta_trans", dist.Normal(0, 1).expand((schools,)).to_event(1))
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("records", school.shape[0]):
            numpyro.sample("y", dist.Normal(mu + tau * theta_trans[school - 1], sigma), obs=y)

    return from_numpyro(
        program,
        {"school": (), "sigma": (), "y": ()},
        domain={"school": list(range(1, schools + 1)), "sigma": "positive"},
        name="eight_schools_noncentered",
        prepare=_theta_trans,
        settings={"schools": schools},
    )


def _theta_trans(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """posteriordb publishes theta, mu and tau; the score of centred coordinates has infinite variance."""
    if "theta_trans" in draws or "theta" not in draws:
        return draws
    missing = [k for k in ("mu", "tau") if k not in draws]
    if missing:
        raise BayesreconError(f"draws of theta need {' and '.join(missing)} to rebuild theta_trans")
    rest = {k: v for k, v in draws.items() if k != "theta"}
    mu, tau = draws["mu"][..., None], draws["tau"][..., None]
    return {**rest, "theta_trans": (draws["theta"] - mu) / tau}


def _eight_schools_records(data: Mapping[str, Any]) -> Records:
    y = np.asarray(data["y"], float)
    return {"school": np.arange(1, len(y) + 1), "sigma": np.asarray(data["sigma"], float), "y": y}


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "eight_schools_noncentered",
        eight_schools_noncentered,
        "effect per school with known standard error, non-centred",
        _eight_schools_records,
        ("eight_schools-eight_schools_noncentered", "eight_schools-eight_schools_centered"),
        constants=lambda data: {"schools": int(data["J"])},
    ),
)
