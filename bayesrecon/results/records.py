"""The result for individual records: one row per record, with errors, probabilities and a naive guess."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from bayesrecon.errors import BayesreconError, near
from bayesrecon.json_types import Json
from bayesrecon.model import Records
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame

_META = ("release", "model", "draws", "effective_draws", "unknowns", "parameters_per_record", "left_out", "seconds")


@dataclass(frozen=True, eq=False)
class Column:
    """One recovered field, as arrays over the records.

    Attributes:
        estimate, se: unbiased estimate and its standard error; NaN if the draws do not determine the record.
        floor: Cramer-Rao floor of the standard error, for as many independent draws from a nearly normal posterior.
        lower, upper: 95 % interval, clipped to the field's domain.
        visibility: share of the record that infinitely many draws would determine.
        verdict: "determined", "partly" or "undetermined". It is also "undetermined" if the error is wider than the
            domain or than the model's own standard deviation of such a record.
        value, probability: most probable value in the domain, and its probability; None for continuous fields.
        prior: probability of that value under the model alone, averaged over the draws.
        naive, naive_sd: guess without an attack, the most probable value or the expectation under the model averaged
            over the draws, and its standard deviation under the model; None if the model says nothing about the field.
    """

    estimate: np.ndarray
    se: np.ndarray
    floor: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    visibility: np.ndarray
    verdict: np.ndarray
    value: np.ndarray | None = None
    probability: np.ndarray | None = None
    prior: np.ndarray | None = None
    naive: np.ndarray | None = None
    naive_sd: np.ndarray | None = None

    @property
    def best(self) -> np.ndarray:
        """The most probable value if there is one, else the estimate."""
        return self.estimate if self.value is None else self.value

    def lowered(self, force: bool) -> "Column":
        """The column with no record called determined. Numbers are kept only with `force`."""
        verdict = np.where((self.verdict != "undetermined") & force, "partly", "undetermined")
        if force:
            return replace(self, verdict=verdict)
        hidden = np.full(self.estimate.shape, np.nan)
        numbers = dict.fromkeys(("estimate", "se", "floor", "lower", "upper"), hidden)
        return replace(self, verdict=verdict, **numbers, value=None, probability=None, prior=None)

    def bits(self) -> np.ndarray:
        """The information that the release adds to the model's own guess, in bits.

        It is `log2 p(value | release) / p(value | model)`. For a continuous field p is a normal density at the
        estimate. If the model makes no guess, it is `log2` of the standard deviation of all estimates over the record's
        standard error.
        """
        if self.probability is not None and self.prior is not None:
            return np.log2(np.maximum(self.probability, 1e-300) / np.clip(self.prior, 1e-300, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.naive is not None and self.naive_sd is not None:
                total_sd = np.hypot(self.naive_sd, self.se)
                bits = np.log2(total_sd / self.se) + ((self.estimate - self.naive) / total_sd) ** 2 / np.log(4)
            else:
                spread = np.nanstd(self.estimate) if np.isfinite(self.estimate).any() else 0.0
                bits = np.log2(spread / self.se)
        return np.where(np.isfinite(bits), np.maximum(bits, 0.0), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class RecordTable(Result):
    """Recovered records; `table["y"]` is a `Column`.

    Attributes:
        known: `{field: (N, *shape)}`, the known design, row by row.
        unit: the fields that identify a record.
        columns: `{field: Column}`, the recovered fields.
        effective_draws: typical effective sample size of a record's estimate.
        unknowns: number of unknowns in the solve.
        parameters_per_record: number of parameters that one record affects.
        left_out: shared parameters that were conditioned on.
    """

    plotted_by = "records.plot_records"

    _indexed = False

    known: Records
    unit: tuple[str, ...]
    columns: dict[str, Column]
    release: str
    model: str
    draws: int
    effective_draws: float
    unknowns: int
    parameters_per_record: int
    left_out: int
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    seconds: float = 0.0

    def _lowered(self, force: bool) -> Self:
        return replace(self, columns={name: column.lowered(force) for name, column in self.columns.items()})

    def __len__(self) -> int:
        return len(next(iter(self.known.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, field: str) -> Column:
        if field not in self.columns:
            raise KeyError(f"no recovered field {field!r}{near(field, self.columns)}")
        return self.columns[field]

    def to_dataframe(self) -> "DataFrame":
        """One row per record and recovered field."""
        import pandas as pd

        design = {k: v for k, v in self.known.items() if np.ndim(v) == 1}
        frames = []
        for name, column in self.columns.items():
            values = {k: getattr(column, k) for k in Column.__dataclass_fields__ if k != "prior"}
            frame = {**design, "field": name, **{k: v for k, v in values.items() if v is not None}}
            frames.append(pd.DataFrame({**frame, "bits": column.bits()}))
        return pd.concat(frames, ignore_index=True)

    def exposure(self, by: str | None = None) -> "DataFrame":
        """Units by exposure, highest first: bits per unit that the release adds over the naive guess.

        Args:
            by: a known field to sum over, such as "person". By default every record is its own unit.
        """
        table = self.to_dataframe()
        fields = list(self.unit) if by is None else [by]
        for name in fields:
            if name not in table.columns:
                raise BayesreconError(f"by={name!r} is not a known field ({', '.join(self.known)})")
        exposures = table.groupby(fields, sort=False).agg(records=("bits", "size"), bits=("bits", "sum"))
        if "probability" in table.columns:
            exposures["least_probability"] = table.groupby(fields, sort=False)["probability"].min()
        return exposures.sort_values("bits", ascending=False)

    def to_dict(self) -> Json:
        """Plain types only; what is not determined is None."""
        meta = {k: getattr(self, k) for k in _META}
        return self._document(**meta, unit=self.unit, records=self.to_dataframe().to_dict(orient="records"))

    @property
    def headline(self) -> str:
        return f"{self.release}: {len(self)} records, {', '.join(self.columns)} recovered"
