"""Saved objects of Python with private values where decoders may drop them: one by one, as keys, unused, in parts."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import types
import uuid
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

COUNT = 23
_RNG = np.random.default_rng(7)
IDS = [f"NHS{k}" for k in _RNG.choice(np.arange(10**6, 10**7), COUNT, replace=False)]
DATA = pd.DataFrame(
    {
        "id": IDS,
        "sbp": np.round(_RNG.normal(120, 14, COUNT), 4),
        "age": np.round(_RNG.normal(55, 12, COUNT), 4),
        "ill": _RNG.integers(0, 2, COUNT),
    }
)
TABLE = {name: DATA[name].to_numpy() for name in ("id", "sbp", "age")}


@dataclasses.dataclass
class Patient:
    id: str
    sbp: float


@dataclasses.dataclass
class Slotted:
    __slots__ = ("sbp",)
    sbp: float


Row = collections.namedtuple("Row", "id sbp age")


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class WithState:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return WithState, (0.0,), (self.value, "x")

    def __setstate__(self, state: Any) -> None:
        self.value = state[0]


class Listed(list):
    pass


class Kept(dict):
    pass


class Number(float):
    pass


class Level(enum.Enum):
    LOW = 1


def objects() -> dict[str, Any]:
    y, age = TABLE["sbp"], TABLE["age"]
    floats, by_id = y.tolist(), dict(zip(IDS, y.tolist(), strict=True))
    decimals = [decimal.Decimal(str(v)) for v in floats]
    both, frame = np.column_stack([y, age]), DATA
    masked = np.ma.masked_array(y, mask=frame.ill.astype(bool))
    stale = scipy.sparse.csr_matrix((COUNT, 2))
    stale.data = y.copy()
    noted = frame.iloc[:0].copy()
    noted.attrs["rows"] = floats
    return {
        "decimals": decimals,
        "decimals by key": dict(zip(IDS, decimals, strict=True)),
        "frame of decimals": pd.DataFrame({"id": IDS, "sbp": decimals}),
        "series of decimals": pd.Series(decimals),
        "array of decimals": np.array(decimals, object),
        "fractions": [fractions.Fraction(int(v * 1e4), 10**4) for v in floats],
        "nested lists": [[[v]] for v in floats],
        "nested tuples": tuple((("a", (v,)),) for v in floats),
        "by key": by_id,
        "fields by key": {i: {"sbp": v, "age": a} for i, v, a in zip(IDS, floats, age.tolist(), strict=True)},
        "numbers as keys": {v: k for k, v in enumerate(floats)},
        "numbers as keys of nothing": dict.fromkeys(floats),
        "pairs as keys": dict.fromkeys(by_id.items(), 1),
        "names as keys": {i: k for k, i in enumerate(IDS)},
        "names as keys of an attribute": Plain(mapping={i: k for k, i in enumerate(IDS)}),
        "columns by key": frame.set_index("id").to_dict(),
        "records": frame.to_dict("records"),
        "lists": frame.to_dict("list"),
        "split": frame.to_dict("split"),
        "dataclasses": [Patient(i, v) for i, v in by_id.items()],
        "slots": [Slotted(v) for v in floats],
        "named tuples": [Row(i, v, 1.0) for i, v in by_id.items()],
        "plain objects": [Plain(sbp=v) for v in floats],
        "attributes": Plain(**by_id),
        "namespace": types.SimpleNamespace(**by_id),
        "objects in an attribute": Plain(n=COUNT, rows=[Plain(sbp=v) for v in floats]),
        "states": [WithState(v) for v in floats],
        "states of NumPy": [WithState(v) for v in y],
        "list of another class": Listed(floats),
        "lists of another class": [Listed([v]) for v in floats],
        "dictionary of another class": Kept(by_id),
        "numbers of another class": [Number(v) for v in floats],
        "set": set(floats),
        "frozen set": frozenset(IDS),
        "set of tuples": set(by_id.items()),
        "times": [datetime.timedelta(seconds=v) for v in floats],
        "dates": [datetime.date(1950, 1, 1) + datetime.timedelta(days=int(300 * a)) for a in age],
        "uuids": [uuid.UUID(int=int(v * 1e9)) for v in floats],
        "paths": [PurePosixPath("/scans", i) for i in IDS],
        "array": array.array("d", floats),
        "arrays by key": {i: array.array("d", [v]) for i, v in by_id.items()},
        "bytes": y.tobytes(),
        "bytes of single precision": y.astype("f4").tobytes(),
        "bytes of each": [v.tobytes() for v in y],
        "bytes of texts": [i.encode() for i in IDS],
        "big-endian": y.astype(">f8"),
        "a table as text": frame.to_csv(),
        "a table as bytes": frame.to_csv().encode(),
        "a table as JSON": frame.to_json(orient="records"),
        "deque": collections.deque(floats),
        "ordered": collections.OrderedDict(by_id),
        "default": collections.defaultdict(float, by_id),
        "counter": collections.Counter(IDS),
        "chain": collections.ChainMap(by_id),
        "numbers of NumPy": list(y),
        "numbers of NumPy by key": dict(zip(IDS, y, strict=True)),
        "arrays of one": [np.array([v]) for v in y],
        "arrays of none": [np.array(v) for v in y],
        "ragged arrays": [np.full(1 + k % 3, v) for k, v in enumerate(y)],
        "structured": np.array(list(zip(IDS, y, strict=True)), [("id", "U12"), ("sbp", "f8")]),
        "record array": np.rec.fromarrays([y, age], names="sbp,age"),
        "records of NumPy": list(np.rec.fromarrays([y, age], names="sbp,age")),
        "structure in a structure": np.array([((v, 1),) for v in y], [("p", [("s", "f8"), ("k", "i4")])]),
        "arrays in a structure": np.array([([v, v],) for v in y], [("p", "f8", (2,))]),
        "masked": masked,
        "mask and fill": np.ma.masked_array(np.zeros(COUNT), mask=masked.mask, fill_value=7),
        "array of objects": np.array(floats, object),
        "array of dictionaries": np.array([{"v": v} for v in floats], object),
        "table of objects": frame.to_numpy(),
        "metadata of a type": np.zeros(3, np.dtype("f8", metadata=by_id)),
        "transposed": both.T,
        "frame": frame,
        "index": frame.set_index("id"),
        "several levels": frame.set_index(["id", "ill"]),
        "unused categories": frame.astype({"id": "category"}).iloc[:0],
        "unused levels": frame.set_index(["id", "ill"]).iloc[:2],
        "unused levels of a series": pd.Series(pd.Categorical(["a"], categories=["a", *IDS])),
        "attributes of a frame": noted,
        "nullable": frame.convert_dtypes(),
        "names of columns": pd.DataFrame(columns=IDS),
        "name of an index": frame.iloc[:0].rename_axis(index=" ".join(IDS)),
        "names of series": [pd.Series([1.0], name=i) for i in IDS],
        "intervals": pd.IntervalIndex.from_breaks(np.sort(y)),
        "cut": pd.cut(frame.age, np.sort(y)),
        "sparse series": pd.Series(pd.arrays.SparseArray(y)),
        "groups": dict(iter(frame.groupby("ill"))),
        "frame of lists": pd.DataFrame({"v": [[v] for v in floats]}),
        "frame of objects": pd.DataFrame({"v": [Patient(i, v) for i, v in by_id.items()]}),
        "by rows": scipy.sparse.csr_matrix(both),
        "by columns": scipy.sparse.csc_array(both),
        "coordinates": scipy.sparse.coo_matrix(both),
        "lists of rows": scipy.sparse.lil_matrix(both),
        "entries by key": scipy.sparse.dok_matrix(both),
        "numbers that no row has": stale,
        "partial": functools.partial(max, *floats),
        "slices": [slice(v, None) for v in floats],
        "complex": [complex(v, 1) for v in floats],
        "long": [int(v * 1e4) << 100 for v in floats],
        "linked": functools.reduce(lambda rest, v: (v, rest), floats, ()),
        "an object in two places": [floats, Plain(rows=floats)],
    }
