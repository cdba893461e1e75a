"""How the metric and the coordinates decide the errors: kidiq-kidscore_momiq, all 10,000 reference draws.

Statistical efficiency is the Cramer-Rao floor's variance over the estimator's. Needs POSTERIOR_DB_PATH.

    python -m benchmarks.draws.metrics
"""

from rich.console import Console
from rich.table import Table

import bayesrecon
from bayesrecon import Estimator
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.made.database import open_database, read_data


def main() -> None:
    release = from_posteriordb("kidiq-kidscore_momiq")
    truth = true_statistics(release.model, find("kidscore_momiq").records(read_data(open_database(), "kidiq")))
    table = Table(title="kidiq-kidscore_momiq, 10,000 draws")
    for heading in (
        "metric",
        "coordinates",
        "statistic",
        "true",
        "recovered",
        "std. error",
        "floor",
        "efficiency",
        "z",
    ):
        table.add_column(heading, justify="left" if heading in ("metric", "coordinates", "statistic") else "right")
    for metric, coordinates in (
        ("covariance", "unconstrained"),
        ("covariance", "constrained"),
        ("identity", "constrained"),
        ("identity", "unconstrained"),
    ):
        result = bayesrecon.recover(release, estimator=Estimator(metric, coordinates))
        for row in result:
            true = truth[row.name]
            cells = (true, row.estimate, row.se, row.floor, (row.floor / row.se) ** 2)
            shown = (f"{cells[0]:.5g}", f"{cells[1]:.5g}", f"{cells[2]:.3g}", f"{cells[3]:.3g}", f"{cells[4]:.3f}")
            table.add_row(metric, coordinates, row.name, *shown, f"{(row.estimate - true) / row.se:+.2f}")
        table.add_section()
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
