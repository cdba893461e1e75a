"""What the plots show of the statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.results.recovery import Recovery


def tabulate(result: Recovery, truth: Mapping[str, float] | None) -> Any:
    """The result as a DataFrame with true values and errors; NaN where a number is absent or not finite.

    A statistic that is not determined has no estimate. `scale` is its standard error, or half the 95 % interval
    over 1.96 where there is an interval alone (statistics seen in part). `z` is the error in units of it, infinite
    for an exact value that is off; `off` says that the truth lies beyond the interval.
    """
    table = result.to_dataframe().reset_index()
    table["true"] = np.array([(truth or {}).get(name, np.nan) for name in table["name"]], float)
    numbers = table.select_dtypes(float)
    table[numbers.columns] = numbers.where(numbers.abs() < 1e290)  # beyond, an axis would overflow
    table.loc[(table["verdict"] == "undetermined") | table["estimate"].isna(), ["estimate", "se"]] = np.nan
    table.loc[table["estimate"].isna() | ~(table["se"].isna() | (table["se"] > 0)), ["lower", "upper", "floor"]] = (
        np.nan
    )
    half = (table["upper"] - table["lower"]) / 2
    table["scale"] = table["se"].fillna((half / Z95).where(half > 0))
    agree = (table["scale"] == 0) & np.isclose(table["estimate"], table["true"], rtol=1e-6, atol=1e-9)
    table["z"] = ((table["estimate"] - table["true"]) / table["scale"]).mask(agree, 0.0)
    beyond = (table["true"] < table["lower"]) | (table["true"] > table["upper"])
    table["off"] = beyond.where(table["se"].isna(), table["z"].abs() > Z95)
    return table
