"""Tables of records from files: private data, known designs, public records."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, first_line


def read_table(path: str) -> dict[str, Any]:
    """Columns of a data file: CSV with a header, JSON object of arrays, or a NumPy archive."""
    file = Path(path)
    if not file.is_file():
        raise BayesreconError(f"there is no file {path}")
    try:
        if file.suffix.lower() == ".csv":
            import pandas as pd

            frame = pd.read_csv(file)
            return {str(c): frame[c].to_numpy() for c in frame.columns}
        if file.suffix.lower() == ".json":
            content = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(content, dict):
                raise BayesreconError(f"{path}: expected a JSON object of arrays")
            return content
        if file.suffix.lower() == ".npz":
            with np.load(file, allow_pickle=False) as archive:
                return {k: archive[k] for k in archive.files}
    except BayesreconError:
        raise
    except Exception as error:
        raise BayesreconError(f"{path} cannot be read as {file.suffix[1:].upper()}: {first_line(error)}") from None
    raise BayesreconError(f"{path}: data are read from .csv, .json and .npz files")
