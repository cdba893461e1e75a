"""Tables of records from files: private data, known designs, public records."""

import json
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.posteriors.draws import MAX_NAMES
from bayesrecon.posteriors.npz import load_npz


def read_table(path: str) -> dict[str, Any]:
    """Columns of a data file: CSV with a header, JSON object of arrays, or a NumPy archive."""
    file = Path(path)
    if not file.is_file():
        raise BayesreconError(f"there is no file {path}")
    try:
        if file.suffix.lower() == ".csv":
            import pandas as pd

            with file.open(encoding="utf-8", errors="replace") as lines:
                columns = lines.readline(2**26).count(",") + 1
            if columns > MAX_NAMES:
                raise BayesreconError(f"{path}: {columns} columns, more than {MAX_NAMES}")
            frame = pd.read_csv(file)
            return {str(c): frame[c].to_numpy() for c in frame.columns}
        if file.suffix.lower() == ".json":
            content = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(content, dict):
                raise BayesreconError(f"{path}: expected a JSON object of arrays")
            return content
        if file.suffix.lower() == ".npz":
            return load_npz(file)
    except BayesreconError:
        raise
    except Exception as error:
        raise BayesreconError(f"{path} cannot be read as {file.suffix[1:].upper()}: {first_line(error)}") from None
    raise BayesreconError(f"{path}: data are read from .csv, .json and .npz files")
