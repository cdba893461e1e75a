"""The result of `recover`: a table with errors, which can be exported (dict, DataFrame, netCDF, HTML) and plotted."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError, Note, near
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData, listed
from bayesrecon.results.base import Result, by_name
from bayesrecon.results.row import Row as Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from xarray import Dataset

_COLUMNS = [f.name for f in fields(Row)]
NUMBERS = ["estimate", "se", "lower", "upper", "floor", "visibility", "ess"]
_UNIT_STATISTIC = re.compile(r"(.+)\[([^\[\]=]+)=([^\[\]]+)\]$")
META = ["release", "model", "draws", "metric", "coordinates", "temperature", "rank", "gap", "seconds"]


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """Recovered statistics of the private data; index it by name: `result["n"].estimate`.

    Attributes:
        rows: one `Row` per statistic.
        rank: number of features of the data that the release determines.
        gap: True if the kernel's spectrum ends in a clear gap, so that all features were kept. False if it decays and
            the solve was regularised at the noise level.
        spectrum: `(M,)` eigenvalues of the score kernel on generic records, largest scaled to one.
        pseudo: the weighted records whose score matches that of the release.
        warnings: one line each.
        failures: failed checks of draws and model, one line each.
        presumes: assumptions about how the fit behind a printed table weighed its records, which the table does not
            show.
        ranges: assumptions about fields without a stated domain: their ranges, or that one is the square of another.
    """

    plotted_by = "recovery_summary.plot_recovery"

    rows: tuple[Row, ...]
    release: str
    model: str
    draws: int
    metric: str
    coordinates: str
    temperature: float
    rank: int
    gap: bool
    spectrum: np.ndarray
    pseudo: PseudoData
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    presumes: str = ""
    ranges: str = ""

    @property
    def condition(self) -> str:
        """The assumption that the numbers rest on."""
        conditions = [self.presumes or super().condition, self.ranges and f"if {self.ranges}"]
        named: dict[str, list[str]] = {}
        for row in self.rows:
            if row.condition:
                named.setdefault(row.condition.partition(";")[0], []).append(row.name)
        conditions += [f"{said} ({listed(tuple(names))})" for said, names in named.items()]
        first, *others = [said for said in conditions if said] or [""]
        return first + "".join(f", and {said}" for said in others)

    def _lowered(self, force: bool) -> Self:
        if force:
            rows = [replace(r, verdict="partly") if r.verdict == "determined" else r for r in self.rows]
        else:
            rows = [Row(r.name, visibility=r.visibility) for r in self.rows]
        return replace(self, rows=tuple(rows))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def whole(self) -> bool:
        """Whether all checks passed, every statistic is determined, and records have equal weight."""
        determined = {row.name: row for row in self.rows if row.estimate is not None and row.verdict != "undetermined"}
        n = determined.get("n")
        counted = n is not None and n.lower is not None and n.lower == n.upper
        return counted and not self.failures and len(determined) == len(self.rows)

    def __getitem__(self, name: str) -> Row:
        return by_name(self.rows, name, "statistic")

    def to_dict(self) -> Json:
        """Plain types only. Numbers that are not determined are None."""
        meta = {name: getattr(self, name) for name in META}
        return self._document(**meta, statistics=[asdict(row) for row in self.rows])

    def to_dataframe(self) -> "DataFrame":
        """One row per statistic, indexed by name."""
        import pandas as pd

        frame = pd.DataFrame([asdict(row) for row in self.rows], columns=_COLUMNS).set_index("name")
        numbers = [c for c in NUMBERS if c in frame]
        return frame.astype(dict.fromkeys(numbers, float))

    def units(self) -> "DataFrame":
        """One row per unit or group of `recover(..., unit=...)`.

        Columns are its statistics with standard errors (`_se`), the number of its records rounded to a whole number,
        and the probability that the rounding is right. If only part of a group is visible, the column name says which
        (`n[floor=1]`).

        Raises `BayesreconError` if `recover` was called without `unit`.
        """
        import pandas as pd
        from scipy.special import ndtr

        table: dict[float, Json] = {}
        matched = [(row, match) for row in self.rows if (match := _UNIT_STATISTIC.match(row.name))]
        name = matched[-1][1].group(2) if matched else ""  # units come after the categories of fields
        for row, match in matched:
            if match.group(2) == name:
                statistic, _, level = match.groups()
                level, _, part = level.partition(",")
                count = statistic == "n"
                statistic += f"[{part}]" if part else ""
                values_of_unit = table.setdefault(float(level), {})
                values_of_unit[statistic], values_of_unit[f"{statistic}_se"] = row.estimate, row.se
                if count and row.estimate is not None:
                    rounded_count, se = max(0.0, float(np.round(row.estimate))), row.se or 1e-300
                    low, high = (rounded_count - 0.5 - row.estimate) / se, (rounded_count + 0.5 - row.estimate) / se
                    values_of_unit[f"{statistic}_rounded"] = rounded_count
                    values_of_unit[f"{statistic}_probability"] = float(ndtr(high) - ndtr(low))
        if not table:
            raise BayesreconError('there are no units in this result; recover with unit="field"')
        return pd.DataFrame.from_dict(table, orient="index", dtype=float).rename_axis(name)

    def categories(self, field: str) -> "DataFrame":
        """One row per value of a field of codes: number of records with it (`count`), with error, interval and verdict.

        Raises `BayesreconError` if the categories of this field were not counted. Those of a group are in `units`.
        """
        import pandas as pd

        table = {}
        for row in self.rows:
            match = _UNIT_STATISTIC.match(row.name)
            if match and match.groups()[:2] == ("n", field):
                table[float(match.group(3))] = asdict(row)
        if not table:
            counted = dict.fromkeys(m.group(2) for m in map(_UNIT_STATISTIC.match, (r.name for r in self.rows)) if m)
            raise BayesreconError(f"the categories of {field!r} were not counted{near(field, counted)}")
        frame = pd.DataFrame.from_dict(table, orient="index").drop(columns="name").rename(columns={"estimate": "count"})
        return frame.astype({c: float for c in frame if c not in ("verdict", "condition")}).rename_axis(field)

    def to_dataset(self) -> "Dataset":
        """An `xarray.Dataset`: statistics, spectrum and pseudo-data, with the settings as attributes."""
        import xarray as xr

        variables: dict[str, tuple[str | tuple[str, ...], np.ndarray]] = {
            name: ("statistic", np.array([_nan(getattr(r, name)) for r in self.rows])) for name in NUMBERS
        }
        variables["verdict"] = ("statistic", np.array([r.verdict for r in self.rows], dtype=object))
        variables["spectrum"] = ("eigenvalue", np.asarray(self.spectrum))
        variables["weight"] = ("pseudo_record", np.asarray(self.pseudo.weights))
        for name, values in self.pseudo.records.items():
            values = np.asarray(values)
            dims = ("pseudo_record", *(f"{name}_dim_{i}" for i in range(values.ndim - 1)))
            variables[f"record_{name}"] = (dims, values)
        # With a prefix, because xarray gives names such as "coordinates" a meaning of its own.
        attributes = {f"bayesrecon_{name}": getattr(self, name) for name in META}
        notes = [message for message in self.warnings if isinstance(message, Note)]
        warnings = [message for message in self.warnings if not isinstance(message, Note)]
        attributes |= {"bayesrecon_gap": int(self.gap), "bayesrecon_warnings": json.dumps(warnings)}
        attributes["bayesrecon_notes"] = json.dumps(notes)
        attributes |= {"bayesrecon_failures": json.dumps(self.failures)}
        names = np.array([r.name for r in self.rows], dtype=object)
        return xr.Dataset(variables, {"statistic": names}, {"bayesrecon_version": __version__, **attributes})

    def plot_spectrum(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the spectrum of the score kernel; see `bayesrecon.plots.recovery_summary`."""
        return self.plotted("recovery_summary.plot_spectrum", ax=ax)

    @property
    def headline(self) -> str:
        if not self.temperature:
            return f"{self.release}: what it reveals about the data"
        return f"{self.release}: what {self.draws} draw{'s reveal' if self.draws != 1 else ' reveals'} about the data"

    def _excerpt(self) -> "DataFrame":
        """The main columns; `to_dataframe` has all."""
        frame = self.to_dataframe()
        return frame.loc[:, ["estimate", "se", "lower", "upper", "verdict"]]


def _nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
