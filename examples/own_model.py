"""Your own model: which statistics of the data would its posterior draws give away?

python examples/own_model.py [--draws 1000]
"""

import argparse

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesrecon
from bayesrecon.evaluate import compare, true_statistics


def program(dose, group, events):
    """Events per patient: a Poisson rate that depends on the dose, with an intercept for each of three groups."""
    level = numpyro.sample("level", dist.Normal(0, 2).expand([3]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("patients", dose.shape[0]):
        numpyro.sample("events", dist.Poisson(jnp.exp(level[group] + slope * dose)), obs=events)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000, help="draws per chain")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    dose, group = rng.gamma(2.0, 0.5, 300), rng.choice(3, 300, p=[0.5, 0.3, 0.2])
    private = {
        "dose": dose,
        "group": group,
        "events": rng.poisson(np.exp(np.array([0.2, 0.6, 1.0])[group] + 0.3 * dose)),
    }

    model = bayesrecon.models.from_numpyro(
        program, record={"dose": (), "group": (), "events": ()}, domain={"dose": "positive", "group": [0, 1, 2]}
    )
    release = bayesrecon.posteriors.nuts(model, private, draws=arguments.draws)
    in_group = {f"group {g}": (lambda record, g=g: record["group"] == g) for g in range(3)}
    result = bayesrecon.recover(release, statistics=in_group)
    truth = true_statistics(model, private, statistics=in_group)
    print(
        compare(result, truth)[["estimate", "se", "lower", "upper", "truth", "z", "visibility", "verdict"]].to_string()
    )


if __name__ == "__main__":
    main()
