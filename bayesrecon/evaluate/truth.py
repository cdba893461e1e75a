"""The statistics of the private data themselves, and how far a recovery lies from them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.categories import library_of
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    import pandas as pd


@in_float64
def true_statistics(
    model: Model,
    records: Records,
    *,
    statistics: Mapping[str, Callable[[Records], ArrayLike]] | None = None,
    known: tuple[str, ...] = (),
    unit: str | None = None,
) -> dict[str, float]:
    """What `recover` estimates, computed from the data.

    Args:
        records: `{field: (N, *shape)}`, the private data.
        statistics: the user's functions, as given to `recover`.
        known: names of the fields that the attacker knows.
        unit: the known field that names the unit, or the group field, as given to `recover`.

    Raises:
        BayesreconError: the data lack a field, or a statistic cannot be evaluated.

    >>> from bayesrecon.models import load
    >>> true_statistics(load("linear_predictor"), {"x": [[0.0], [2.0]], "y": [1.0, 5.0]})["cov(x[1],y)"]
    2.0
    """
    missing = [name for name in model.fields if name not in records]
    if missing:
        raise BayesreconError(f"the data lack field {missing[0]} (fields: {', '.join(model.fields)})")
    data = {name: np.asarray(records[name]) for name in model.fields}
    # Standardised by the data themselves: sums of far-off values would lose digits.
    centre = {name: values.mean(axis=0) for name, values in data.items()}
    scale = {name: np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0) for name, values in data.items()}
    knowledge = Knowledge(dict(model.fields), {name: data[name] for name in known}, unit)
    library = library_of(knowledge, centre, scale, statistics, data)
    totals = dict(zip(library.parts, library.evaluate(data).sum(axis=0), strict=True))
    return {statistic.name: float(statistic.value(totals)) for statistic in library.statistics}


def compare(result: Recovery, truth: Mapping[str, float]) -> "pd.DataFrame":
    """The result's table with the truth and the z-score `(estimate - truth) / se` of every statistic.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> table = compare(bayesrecon.recover(release), {"n": 100.0, "mean(y)": 1.0})
    >>> bool(table["z"].abs().max() < 4)
    True
    """
    frame = result.to_dataframe()
    frame["truth"] = [truth.get(name, np.nan) for name in frame.index]
    frame["z"] = (frame["estimate"] - frame["truth"]) / frame["se"].where(frame["se"] > 0)
    return frame
