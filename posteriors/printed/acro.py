"""Results that ACRO wrote for an output check: `results.json` beside the tables that would be released."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.headers import EST, SE
from bayesrecon.posteriors.printed.reading import as_printed, read_printed
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.json_file import read_json

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {"ols": "ols", "olsr": "ols", "logit": "logit", "logitr": "logit", "poisson": "poisson", "poissonr": "poisson"}
_FREQUENCIES = "FrequencyTable"  # how ACRO's summary of a table of counts begins
_SNIFFED = 2**12  # characters of the file that are searched for the name of the tool
_MOST = 1000  # outputs of one check
_DECIMALS = {EST: 4, SE: 3}  # of a summary of statsmodels; ACRO's files are without zeros at the end
_FIXED = 1e-4, 1e4  # magnitudes between which statsmodels prints that many decimals


@dataclass(frozen=True)
class AcroOutput:
    """One output of a check.

    Attributes:
        name: name of the output.
        status: "pass", "review" or "fail".
        checks: ACRO's summary of its checks.
        kind: "ols", "logit" or "poisson" for a regression, "counts" for a table of frequencies, else "".
        description: type and method, in ACRO's words.
        table: of a regression the texts in the standard form (`reading.Printed`), with the lines of the footer. Of
            counts the cells of all tables. None of others.
        response: name of the response of a regression.
    """

    name: str
    status: str
    checks: str
    kind: str
    description: str
    table: "pd.DataFrame | list[list[list[str]]] | None" = None
    response: str = "y"


def is_acro(source: object) -> bool:
    """Whether this is the path of `results.json`, or of the folder with it, that ACRO wrote."""
    if not isinstance(source, str | Path):
        return False
    path = file_of(source)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_SNIFFED)
    return '"results"' in head and ('"ACRO"' in head or '"outcome"' in head)


def read_acro(source: str | Path) -> list[AcroOutput]:
    """All outputs of a check, in their order."""
    path = file_of(source)
    with reading(path, "results of ACRO"):
        document = asked(read_json, path)
    outputs = document.get("results") if isinstance(document, dict) else None
    if not isinstance(outputs, dict) or len(outputs) > _MOST:
        raise BayesreconError(f"{path}: expected ACRO's outputs under 'results'")
    return [_output(path.parent, str(name), output) for name, output in outputs.items() if isinstance(output, dict)]


def _output(folder: Path, name: str, output: Json) -> AcroOutput:
    properties = output.get("properties")
    method = str(properties.get("method", "")) if isinstance(properties, dict) else ""
    summary = str(output.get("summary", ""))
    kind = _KINDS.get(method, "") if output.get("type") == "regression" else ""
    if output.get("type") == "table" and summary.startswith(_FREQUENCIES):
        kind = "counts"
    checks = " ".join(summary.split())
    description = " ".join(filter(None, (str(output.get("type", "")), method)))
    files = [_inside(folder, f) for f in output.get("files") or () if isinstance(f, dict)]
    table = None
    if kind == "counts":
        table = read_printed(files[0], "a table of counts")["grids"] if files else None
    elif kind:
        table = _regression(files)
    response = _response(files) if kind in _KINDS.values() else "y"
    kind = kind if table is not None else ""
    return AcroOutput(name, str(output.get("status", "")), checks, kind, description, table, response)


def _response(files: list[Path]) -> str:
    """The response, as the summary above a table of statsmodels names it."""
    for file in files:
        for row in (row for grid in read_printed(file)["grids"] for row in grid):
            if row[0].startswith("Dep. Variable") and len(row) > 1 and row[1]:
                return field_name(row[1])
    return "y"


def _inside(folder: Path, file: Json) -> Path:
    name = str(file.get("name", ""))
    if not name or Path(name).name != name:
        raise BayesreconError(f"{folder}: the name of a file, {json.dumps(name)[:80]}, is not in this folder")
    return folder / name


def _regression(files: list[Path]) -> "pd.DataFrame | None":
    """The table of coefficients among the files of a regression, with the numbers in its other files as footer."""
    readable = [file for file in files if file.suffix.lower() == ".csv"]
    for file in readable:
        try:
            frame = as_printed(file, [other for other in readable if other != file]).frame
        except BayesreconError:
            continue
        lines = [str(error).strip() != "" for error in frame[frame.columns[1]]]  # not those of the footer
        padded = {
            c: [_padded(v, d) if is_line else v for v, is_line in zip(frame[c], lines, strict=True)]
            for c, d in _DECIMALS.items()
            if c in frame
        }
        return frame.assign(**padded)
    return None


def _padded(text: str, decimals: int) -> str:
    """The number with trailing zeros up to this many decimals, as it was printed.

    >>> _padded("0.13", 3), _padded("85", 4)
    ('0.130', '85')
    """
    integer_part, point, decimal_part = text.partition(".")
    try:
        inside = _FIXED[0] <= abs(float(text)) < _FIXED[1]
    except ValueError:
        return text
    return f"{integer_part}.{decimal_part.ljust(decimals, '0')}" if point and inside else text


def file_of(source: str | Path) -> Path:
    """The path of `results.json`, also if `source` is its folder."""
    path = Path(source)
    return path / "results.json" if path.is_dir() else path
