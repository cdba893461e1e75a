"""Results that ACRO wrote for an output check: `results.json` beside the tables that would be released."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.headers import EST, SE
from bayesrecon.posteriors.printed.reading import as_printed, read_printed
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.json_file import JsonFile

_KINDS = {"ols": "ols", "olsr": "ols", "logit": "logit", "logitr": "logit", "poisson": "poisson", "poissonr": "poisson"}
_FREQUENCIES = "FrequencyTable"  # how ACRO's summary of a table of counts begins
_SNIFFED = 2**12  # letters in which the name of the tool stands
_MOST = 1000  # outputs of one check
_DECIMALS = {EST: 4, SE: 3}  # of a summary of statsmodels; ACRO's files are without zeros at the end
_FIXED = 1e-4, 1e4  # where statsmodels prints so many


@dataclass(frozen=True)
class AcroOutput:
    """One output of a check.

    Attributes:
        name: of it.
        status: "pass", "review" or "fail", as ACRO has it.
        checks: what ACRO says of its checks.
        kind: "ols", "logit" or "poisson" of a regression, "counts" of a table of frequencies, "" of others.
        what: it is, in ACRO's words.
        response: name of a regression's.
        table: texts in the one form of `posteriors.printed` with the numbers below, or the cells of a table of counts.
    """

    name: str
    status: str
    checks: str
    kind: str
    what: str
    table: Any = None
    response: str = "y"


def is_acro(source: object) -> bool:
    """Whether this is the path of `results.json`, or of the folder with it, that ACRO wrote.

    >>> is_acro("none")
    False
    """
    if not isinstance(source, str | Path):
        return False
    path = file_of(source)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_SNIFFED)
    return '"results"' in head and ('"ACRO"' in head or '"outcome"' in head)


def read_acro(source: str | Path) -> list[AcroOutput]:
    """All outputs of a check, in their order.

    Raises:
        BayesreconError: a file that ACRO did not write, or tables that cannot be read.
    """
    path = file_of(source)
    with reading(path, "results of ACRO"), opened(JsonFile, path) as file:
        document = file.document()
    outputs = document.get("results") if isinstance(document, dict) else None
    if not isinstance(outputs, dict) or len(outputs) > _MOST:
        raise BayesreconError(f"{path}: expected ACRO's outputs under 'results'")
    return [_output(path.parent, str(name), output) for name, output in outputs.items() if isinstance(output, dict)]


def _output(folder: Path, name: str, output: Json) -> AcroOutput:
    properties = output.get("properties") if isinstance(output.get("properties"), dict) else {}
    method, summary = str(properties.get("method", "")), str(output.get("summary", ""))  # type: ignore[union-attr]
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


def _regression(files: list[Path]) -> Any:
    """The table of coefficients among the files of one regression, with the numbers that stand in the others."""
    readable = [file for file in files if file.suffix.lower() == ".csv"]
    for file in readable:
        try:
            frame = as_printed(file, [other for other in readable if other != file]).frame
        except BayesreconError:
            continue
        lines = [str(error).strip() != "" for error in frame[frame.columns[1]]]  # not what stands below
        padded = {
            c: [_padded(v, d) if k else v for v, k in zip(frame[c], lines, strict=True)]
            for c, d in _DECIMALS.items()
            if c in frame
        }
        return frame.assign(**padded)
    return None


def _padded(text: Any, decimals: int) -> Any:
    """A number with the zeros that it was printed with.

    >>> _padded("0.13", 3), _padded("85", 4)
    ('0.130', '85')
    """
    integer_part, point, rest = str(text).partition(".")
    try:
        inside = _FIXED[0] <= abs(float(text)) < _FIXED[1]
    except ValueError:
        return text
    return f"{integer_part}.{rest.ljust(decimals, '0')}" if point and inside and len(rest) < decimals else text


def file_of(source: str | Path) -> Path:
    """`results.json` itself, of the folder that it lies in."""
    path = Path(source)
    return path / "results.json" if path.is_dir() else path
