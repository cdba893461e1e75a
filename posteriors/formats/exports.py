"""Files that are not read: which tool wrote them, and how it exports what they hold. The content decides first."""

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

_PANDAS = "write it with to_csv, with the columns .chain and .draw"
_TOOLS: Mapping[tuple[str, ...], tuple[str, str]] = {
    (".parquet", ".feather", ".arrow", ".ipc"): ("a table of pandas, polars or Arrow", _PANDAS),
    (".xlsx", ".xls", ".ods"): ("a spreadsheet", "save it as .csv"),
    (".dta",): ("a file of Stata", "save it as .csv with export delimited"),
    (".sav", ".por"): ("a file of SPSS", "save it as .csv"),
    (".sas7bdat", ".xpt"): ("a file of SAS", "write it with proc export as .csv"),
    (".mat",): ("a file of MATLAB", "write it with writetable as .csv"),
    (".qs", ".qs2", ".fst"): ("an object of R", "write it with saveRDS, or write.csv(posterior::as_draws_df(fit))"),
    (".jls", ".jld", ".jld2"): ("an object of Julia", "write it with CSV.write(\"draws.csv\", DataFrame(chain))"),
    (".npy",): ("one array of NumPy", "write it with np.savez(path, name=array), as (chains, draws, *shape)"),
    (".fits",): ("a file of astropy", "write its columns with np.savez, as (chains, draws, *shape)"),
    (".db", ".sqlite"): ("a database, as old versions of PyMC wrote their traces", "write it with arviz.to_netcdf"),
    (".dill", ".cloudpickle"): ("a saved object of Python", "write draws with arviz.to_netcdf or np.savez"),
    (".save", ".sav2", ".state"): (
        "the state of a sampler, such as dynesty's, which is a pickle",
        "of dynesty write np.savez(path, **{k: results[k] for k in ('samples', 'logwt', 'logl', 'logvol')})",
    ),
    (".stan",): ("a program of Stan, which holds no draws", "pass the file of the fit, and the program as --model"),
    (".ind",): ("the index of CODA", "pass the chains, CODAchain1.txt; it is found beside them"),
    (".paramnames", ".ranges"): ("getdist's list of names", "pass the chains, ROOT_1.txt; it is found beside them"),
    (".yaml", ".yml"): ("settings", "pass the file of the draws"),
    (".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z", ".rar"): ("a compressed file", "unpack it"),
    (".tflite", ".ckpt"): ("a trained model", "save its weights as .safetensors or .npz"),
    (".rdb", ".rdx"): ("a part of R's database of objects", "lazyLoad() it, and write the object with saveRDS"),
}  # fmt: skip

_SEARCHED = 2**22  # bytes that are compared with private data
_HEAD = 2**16
"""Bytes at either end of a file that say which tool wrote it."""

Claim = Callable[[bytes, bytes], bool]
"""Whether a file of this head and tail was written by a tool."""


def _starts(*beginnings: bytes) -> Claim:
    return lambda head, tail: head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(beginnings)


def _matches(head_pattern: bytes, tail_pattern: bytes = b"") -> Claim:
    return lambda head, tail: bool(
        re.search(head_pattern, head, re.DOTALL) and re.search(tail_pattern, tail, re.DOTALL)
    )


_NAMES = tuple(
    (re.compile(start, re.DOTALL), suffix)
    for start, suffix in (
        (rb"\x80[\x02-\x05]", ".pkl"),
        (rb"RD[XA][23]\n", ".RData"),
        (rb"\x89HDF\r\n", ".nc"),
        (rb"PK\x03\x04.{26,300}\.npy", ".npz"),
    )
)
"""Beginnings of files that are read under their own suffix."""
_CLAIMS: tuple[tuple[Claim, str, str], ...] = (
    (_matches(rb'^\s*\{\s*"learner"\s*:\s*\{'), "a model of XGBoost", "publish its scores instead of the model"),
    (_matches(rb"^\{L\x00.{0,12}learner"), "a model of XGBoost (UBJSON)", "booster.save_model('model.json')"),
    (_matches(rb"^\s*\{", rb'"__prophet_version"'), "a model of Prophet with its data", "write m.params with np.savez"),
    (_starts(b"tree\nversion=", b"tree\r\nversion="), "a model of LightGBM", "publish its scores instead of the model"),
    (_starts(b"CBM1"), "a model of CatBoost", "publish its scores instead of the model"),
    (_matches(rb"^\x89HDF\r\n.*(keras_version|model_weights)"), "a model of Keras", "model.get_weights() and np.savez"),
    (_matches(rb"^PK.*metadata\.json", rb"model\.weights\.h5"), "a model of Keras", "model.get_weights() and np.savez"),
    (_matches(rb"^\s*(structure\(list|structure\(c|list|c|data\.frame)\("), "an object of R as text (dput)", "saveRDS"),
    (_starts(b"PAR1"), "a table of Parquet", _PANDAS),
    (_starts(b"SQLite format 3"), "a database", "write draws with arviz.to_netcdf"),
)
"""Claims by content: the tool, and what to do instead."""


def other_tool(path: Path, known: bool) -> tuple[str, str] | None:
    """The tool that wrote a file that is not read, and how it exports; None for other files.

    Args:
        path: the file.
        known: whether a format has the suffix of the file.

    >>> _ = Path("fit.dat").write_bytes(b"CBM1...")
    >>> other_tool(Path("fit.dat"), False)[0], other_tool(Path("fit.parquet"), False)[0]
    ('a model of CatBoost', 'a table of pandas, polars or Arrow')
    """
    if path.is_file():
        head, tail = _ends(path)
        for claims, tool, export in _CLAIMS:
            if claims(head, tail):
                return tool, export
        renamed = next((suffix for start, suffix in _NAMES if not known and start.match(head)), "")
        if renamed:
            return f"a file of the kind {renamed}", f"name it *{renamed}"
        if not known and _NAMES[0][0].match(_unpacked(path)):
            return "a compressed pickle", "unpack it, and name it *.pkl"
    suffix = path.suffix.lower()
    return None if known else next((told for suffixes, told in _TOOLS.items() if suffix in suffixes), None)


def _ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(path.stat().st_size - _HEAD, 0))
        return head, file.read(_HEAD)


def _unpacked(path: Path) -> bytes:
    """The first bytes of a compressed file; none for other files."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return b""
        file.seek(0)
        try:
            return gzip.GzipFile(fileobj=file).read(2)
        except (OSError, EOFError, zlib.error):
            return b""


def content_of(path: Path) -> bytes:
    """The beginning of a file, unpacked, which is compared with private data."""
    with path.open("rb") as file:
        content = file.read(_SEARCHED)
    return zlib.decompressobj(31).decompress(content, _SEARCHED) if _unpacked(path) else content
