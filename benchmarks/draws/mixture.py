"""What pseudo-data of a mixture of two normal distributions share with the private data, and what they do not.

python -m benchmarks.draws.mixture

Needs POSTERIOR_DB_PATH.
"""

import numpy as np

import bayesrecon
from bayesrecon.evaluate import wasserstein
from benchmarks.references import reference
from benchmarks.study import Study

NAME = "low_dim_gauss_mix-low_dim_gauss_mix"
SIMULATED = 2000


STUDY = Study(__file__)


def main() -> None:
    release, records, truth = reference(NAME)
    found = bayesrecon.recover(release)
    rows = {}
    for row in found:
        off = row.estimate / truth[row.name] - 1
        rows[row.name] = {"true": truth[row.name], "estimate": row.estimate, "se": row.se, "off": off}
    pseudo = bayesrecon.reconstruct(release, n=100, key=0).pseudo
    y, rng = np.asarray(records["y"], float), np.random.default_rng(0)
    mean = {k: np.asarray(v) for k, v in release.model.constrain(release.theta.mean(axis=0)).items()}
    second = rng.random(SIMULATED) > mean["theta"]
    mixture = rng.normal(mean["mu"][second.astype(int)], mean["sigma"][second.astype(int)])
    normal = rng.normal(y.mean(), y.std(), SIMULATED)
    apart = {
        "pseudo-data": wasserstein(pseudo.records["y"], y, x_weights=pseudo.weights),
        "one normal law": wasserstein(normal, y),
        "mixture at the mean draw": wasserstein(mixture, y),
    }
    print(rows, apart)
    STUDY.add(statistics=rows, wasserstein=apart)


if __name__ == "__main__":
    main()
