"""The table of statistics that the plots share."""

from collections.abc import Mapping

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.results.recovery import Recovery

Columns = dict[str, np.ndarray]
"""Columns `(S,)` by name, with one entry per statistic."""


def tabulate(result: Recovery, truth: Mapping[str, float] | None) -> Columns:
    """The columns of a result, with true values and errors. Numbers that are missing or not finite are NaN.

    Undetermined statistics have no estimate. Further columns:

    * `scale`: the standard error, or half the 95 % interval divided by 1.96 for partly determined statistics.
    * `z`: the error divided by `scale`, or infinity for an exact value that is wrong.
    * `off`: whether the truth is outside the interval.
    """
    table = result.to_dataframe().reset_index()
    table["true"] = np.array([(truth or {}).get(name, np.nan) for name in table["name"]], float)
    numbers = table.select_dtypes(float)
    table[numbers.columns] = numbers.where(numbers.abs() < 1e290)  # larger values would overflow an axis
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
    return {str(name): table[name].to_numpy() for name in table}


def select(table: Columns, rows: np.ndarray) -> Columns:
    """The rows of a table at a mask or at positions."""
    return {name: values[rows] for name, values in table.items()}
