"""What the plots show of the statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.results.recovery import Recovery


def tabulate(result: Recovery, truth: Mapping[str, float] | None) -> Any:
    """The result as a DataFrame with true values and errors; NaN where a number is absent or not finite.

    A statistic that is not determined has no estimate. `z` is the error in units of the standard error,
    infinite for an exact value that is off; `off` says that it lies beyond the 95 % interval.
    """
    table = result.to_dataframe().reset_index()
    table["true"] = np.array([(truth or {}).get(name, np.nan) for name in table["name"]], float)
    numbers = table.select_dtypes(float)
    table[numbers.columns] = numbers.where(numbers.abs() < 1e290)  # beyond, an axis would overflow
    table.loc[(table["verdict"] == "undetermined") | table["estimate"].isna(), ["estimate", "se"]] = np.nan
    table.loc[~(table["se"] > 0), ["lower", "upper", "floor"]] = np.nan
    agree = (table["se"] == 0) & np.isclose(table["estimate"], table["true"], rtol=1e-6, atol=1e-9)
    table["z"] = ((table["estimate"] - table["true"]) / table["se"]).mask(agree, 0.0)
    table["off"] = table["z"].abs() > Z95
    return table
