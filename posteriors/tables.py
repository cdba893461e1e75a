"""Tables of records from files: private data, known designs, public records."""

from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.formats.npz import load_npz
from bayesrecon.untrusted.csv_table import read_csv_columns
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.json_file import read_json_table


def read_table(path: str) -> Json:
    """Columns of a data file: CSV with a header, JSON object of arrays, or a NumPy archive."""
    file = Path(path)
    if not file.is_file():
        raise BayesreconError(f"{path}: no such file{beside(path)}")
    kind = file.suffix.lower()
    with reading(path, kind[1:].upper()):
        if kind == ".csv":
            return {name: _array(column) for name, column in asked(read_csv_columns, file).items()}
        if kind == ".json":
            return asked(read_json_table, file)
        if kind == ".npz":
            return load_npz(file)
    raise BayesreconError(f"{path}: data are read from .csv, .json and .npz files")


def _array(column: object) -> np.ndarray:
    """A list of texts as an array of objects."""
    if not isinstance(column, list):
        return np.asarray(column)
    array = np.empty(len(column), object)
    array[:] = column
    return array
