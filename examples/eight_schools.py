"""Eight schools: the posterior draws give away each school's own estimate.

Set POSTERIOR_DB_PATH first.

    python examples/eight_schools.py
"""

import numpy as np

import bayesrecon
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import open_database, read_data


def main() -> None:
    private = read_data(open_database(), "eight_schools")
    release = from_posteriordb("eight_schools-eight_schools_noncentered")
    known = {"school": np.arange(1, 9), "sigma": private["sigma"]}
    result = bayesrecon.recover(release, known=known, unit="school")
    print("school  recovered        true")
    for school, true in enumerate(private["y"], start=1):
        row = result[f"y[school={school}]"]
        print(f"{school:6d}  {row.estimate:6.2f} ± {row.se:4.2f}  {true:6.0f}")


if __name__ == "__main__":
    main()
