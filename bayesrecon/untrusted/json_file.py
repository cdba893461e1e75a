"""Untrusted JSON, plain or as the only member of a zip archive: draws in posteriordb's layout, or a table."""

import json
import zipfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json

MAX_JSON = 2 * 2**30
"""JSON that unpacks to more than this many bytes is refused."""

_FREE, _RATIO = 2**25, 50  # bytes that any zip of a stranger, and each byte of it, may unpack to


class Chains(TypedDict):
    """`names` of scalars, and `values` `(chains, draws, names)`."""

    names: list[str]
    values: np.ndarray


class Samples(TypedDict):
    """`samples` by name, and the remaining content of the document, `beside`."""

    samples: dict[str, object]
    beside: dict[str, object]


def read_json(path: Path, trusted: bool = False) -> Any:
    """The whole document.

    Raises:
        BayesreconError: it is too large, or unpacks to more than its bytes could hold, unless it is `trusted`.
    """
    zipped = path.suffix.lower() == ".zip"
    content = _unpacked(path, trusted) if zipped else _plain(path)
    return json.loads(content.decode("utf-8"), object_pairs_hook=no_repeats)


def read_chains(path: Path, trusted: bool = False) -> Chains:
    """Draws as posteriordb keeps them: one object a chain, scalar name, such as `beta[1]`, -> list of draws.

    Returns:
        the `names`, and `values` `(chains, draws, names)`.

    Raises:
        BayesreconError: another layout, lists that are not equally long, or draws that are no numbers.

    >>> _ = Path("draws.json").write_text('[{"mu": [1.0, 2.0], "tau": [1, 2]}]')
    >>> found = read_chains(Path("draws.json"))
    >>> found["names"], found["values"].shape
    (['mu', 'tau'], (1, 2, 2))
    """
    name, content = path.name, read_json(path, trusted)
    if not isinstance(content, list) or not content or not all(isinstance(c, dict) and c for c in content):
        raise BayesreconError(f"{name}: the draws are not a list of one object a chain")
    keys = content[0].keys()
    if any(chain.keys() != keys for chain in content):
        raise BayesreconError(f"{name}: the chains do not hold the same parameters")
    lists = [chain[key] for chain in content for key in keys]
    if not all(isinstance(draws, list) and draws for draws in lists):
        raise BayesreconError(f"{name}: a parameter is not a list of draws")
    if len({len(draws) for draws in lists}) > 1:
        raise BayesreconError(f"{name}: the lists of draws are not all equally long")
    values = np.empty((len(content), len(lists[0]), len(keys)))
    for c, chain in enumerate(content):
        for k, key in enumerate(keys):
            values[c, :, k] = _numbers(name, key, chain[key])
    return {"names": list(keys), "values": values}


def read_samples_of_json(path: Path, trusted: bool = False) -> Samples:
    """An object of lists of draws, or of groups of them as ArviZ writes them.

    Returns:
        `samples`, by name, and `beside`, whatever else the document holds.

    Raises:
        BayesreconError: no object, or lists that make no array.
    """
    content = read_json(path, trusted)
    if not isinstance(content, dict):
        raise BayesreconError(f"{path}: expected a JSON object of lists")
    group = content.get("posterior")
    inner = group if isinstance(group, dict) else content
    beside = {key: value for key, value in content.items() if key != "posterior"} if inner is group else {}
    if inner is content:  # objects beside the lists hold something else
        beside = {str(key): value for key, value in content.items() if isinstance(value, dict)}
        inner = {key: value for key, value in content.items() if not isinstance(value, dict)}
    samples = {str(key): _column(f"{path}: {str(key)[:80]!r}", value) for key, value in inner.items()}
    flat: dict[str, object] = {}
    for key, value in beside.items():
        parts = value.items() if isinstance(value, dict) and value else [("", value)]
        for part, part_value in parts:
            flat[f"{key}/{part}".rstrip("/")] = _loose(part_value)
    return {"samples": samples, "beside": flat}


def keys_of_json(path: Path, trusted: bool = False) -> list[str]:
    """Names at the top level of an object; none for other documents."""
    content = read_json(path, trusted)
    return list(content) if isinstance(content, dict) else []


def read_json_table(path: Path) -> dict[str, object]:
    """The columns of an object of lists. Lists of numbers become arrays.

    Raises:
        BayesreconError: no object, or lists that make no array.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise BayesreconError(f"{path}: expected a JSON object of arrays")
    return {str(key): _column(f"{path}: {str(key)[:80]!r}", value) for key, value in content.items()}


def _plain(path: Path) -> bytes:
    if path.stat().st_size > MAX_JSON:
        raise BayesreconError(f"{path.name}: larger than {MAX_JSON / 2**30:g} GiB, refused")
    return path.read_bytes()


def _unpacked(path: Path, trusted: bool) -> bytes:
    name = path.name
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise BayesreconError(f"{name}: holds {len(members)} files where one is expected")
        # The declared size may be anything: what counts is what comes out.
        most = MAX_JSON if trusted else min(MAX_JSON, max(_FREE, _RATIO * path.stat().st_size))
        with archive.open(members[0]) as stream:
            content = stream.read(most + 1) if members[0].file_size <= most else None
    if content is None or len(content) > most:
        raise BayesreconError(f"{name}: unpacks to more than {most / 2**20:.0f} MiB, refused")
    return content


def _loose(value: object) -> object:
    """A list of numbers as an array; other values unchanged."""
    try:
        return _column("", value)
    except BayesreconError:
        return json.dumps(value)


def _numbers(name: str, key: str, draws: list[object]) -> np.ndarray:
    try:
        array = np.asarray(draws)
    except (ValueError, OverflowError):  # lists within, of unequal length
        array = np.empty(0, object)
    # Text and null would convert to float without a word.
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise BayesreconError(f"{name}: the draws of {key[:80]!r} are not all numbers")
    return array.astype(np.float64)


def _column(what: str, value: object) -> object:
    """A list of numbers as an array, with NaN for null; a list of texts unchanged."""
    if not isinstance(value, list):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        raise BayesreconError(f"{what}: its lists are not all equally long") from None
    if array.dtype.kind != "O":
        return array
    flat = array.ravel().tolist()
    if any(isinstance(item, list | dict) for item in flat):
        raise BayesreconError(f"{what}: not an array of numbers or texts")
    if any(isinstance(item, str) for item in flat):
        return value
    try:
        numbers = [np.nan if item is None else float(item) for item in flat]
    except OverflowError:
        raise BayesreconError(f"{what}: holds an integer of more than 308 digits") from None
    return np.array(numbers).reshape(array.shape)


def no_repeats(pairs: list[tuple[str, object]]) -> Json:
    """A JSON object in which no key stands twice: libraries differ in which of them they take.

    Raises:
        ValueError: one does; readers add the file's name.

    >>> import json
    >>> json.loads('{"a": 1, "a": 2}', object_pairs_hook=no_repeats)
    Traceback (most recent call last):
    ValueError: a key appears twice in one object
    """
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return unique
