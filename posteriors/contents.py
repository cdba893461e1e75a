"""Everything in a file of a fit, in ArviZ's groups, for audits.

Readers of draws read only the draws. `Contents` has all of the file: data groups, coordinates, attributes, comments,
sampler statistics, generated quantities. Arrays with a value per draw and record (pointwise log likelihoods,
predictive draws) can be far larger than the draws, so they are read at evenly spaced draws.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.printed.estimates_in_files import Estimates

if TYPE_CHECKING:
    from bayesrecon.arrays import Array


WIDE = ("log_likelihood", "posterior_predictive", "predictions")
"""Groups with a value per draw and record."""

DATA = ("observed_data", "constant_data", "predictions_constant_data")
"""Groups that hold data themselves."""

GROUPS = (
    "posterior",
    "sample_stats",
    *WIDE,
    *DATA,
    "prior",
    "prior_predictive",
    "sample_stats_prior",
    "unconstrained_posterior",
)

WIDE_DRAWS, WIDE_VALUES = 1000, 2**25
"""Largest numbers of draws and of values that are read from the wide groups."""

MOST_BYTES = 2**16
"""Largest number of unassigned bytes that are searched."""

_LOG_LIK = re.compile(r"(pointwise_)?log_?lik(elihood)?(_[A-Za-z0-9]+)?", re.IGNORECASE)
_SIMULATED = re.compile(r"(.+)_(rep|pred|ppc|sim|tilde|new|hat)|(yrep|ypred|ysim|ytilde)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Variable:
    """One array of a file.

    Attributes:
        group: ArviZ's group.
        name: name in the group.
        shape: shape without the axes of chain and draw.
        per_draw: whether the values are `(K, *shape)`, one entry per draw of `Contents.rows` (wide groups) or per draw
            of the file (others). If not, they are the array as stored.
        values: the numbers, or texts.
        attributes: attributes of the variable in the file.
        dimensions: names of the axes of `shape`; empty if the format names none.
    """

    group: str
    name: str
    shape: tuple[int, ...]
    per_draw: bool
    values: np.ndarray
    attributes: Json = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.group}/{self.name}"


@dataclass(frozen=True, eq=False)
class Entry:
    """An item of a file other than an array of a group: a name, a text, unassigned bytes.

    Attributes:
        where: its place in the file, such as "archive/comment".
        kind: "array", "labels", "attribute", "name", "text" or "bytes".
        values: the array, the text or the attribute. Of bytes that are not text, the first `MOST_BYTES`.
        role: its role in a fit, one of `bayesrecon.posteriors.roles`; "" if unknown.
        path: its place as attributes (".name"), and keys and indices ("/name"), in one of which alike items differ.
        leaves: the items that were joined into this one; empty if it is in the file as it is.
        of: in a saved object, the class of the object that has it, with the module; otherwise None.
        why: the reason for its role; empty if the role is unknown.
    """

    where: str
    kind: str
    values: Any
    role: str = ""
    path: tuple[str, ...] = field(default=(), kw_only=True)
    leaves: "tuple[Entry, ...]" = field(default=(), kw_only=True)
    of: str | None = field(default=None, kw_only=True)
    why: str = field(default="", kw_only=True)


@dataclass(frozen=True, eq=False)
class SavedFit:
    """A fitted model in a file of saved objects.

    Attributes:
        where: its place.
        of: its class, with the module.
        release: the `Release` of the fit; None if the fit is not supported.
        reason: the reason why there is no release; empty if there is one.
    """

    where: str
    of: str
    release: Any
    reason: str


@dataclass(frozen=True, eq=False)
class Saved:
    """Content of a file of saved objects other than values.

    Attributes:
        objects: places and classes of all objects, with the modules.
        names: names that loading the file would import, `(module, name, whether it would be called)`.
        code: names of members of the file that are programs.
        fits: the fitted models in the file.
    """

    objects: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str, bool], ...] = ()
    code: tuple[str, ...] = ()
    fits: tuple[SavedFit, ...] = ()


@dataclass(frozen=True, eq=False)
class SavedProgram:
    """The Stan program of draws, from the same file.

    Attributes:
        text: text of the program.
        names: entries of its variables by their names among the draws, `{"b_age": "b[1]"}`, if these differ.
        sizes: shapes of its variables, also of those that are not among the draws.
        constants: constants of its data that are in the file.
        refused: the reason why the program gives no model; empty if it may.
        adds: function that computes further parameters `{name: (chains, draws, *shape)}` from the draws; None if there
            are none.
    """

    text: str
    names: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    constants: "Mapping[str, Array]" = field(default_factory=dict)
    refused: str = ""
    adds: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]] | None = None


@dataclass(frozen=True)
class Unread:
    """A part of a file that could not be read, the reason, and its bytes, which are compared with private data."""

    where: str
    reason: str
    content: bytes = b""


@dataclass(frozen=True)
class Stamp:
    """Name, size and SHA-256 of an input file."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, eq=False)
class Contents:
    """Content of a source.

    Attributes:
        name, format: names for display.
        files: the files of the source.
        variables: all arrays except coordinates.
        coordinates: `{group/name: values}`.
        attributes: `{group/name: value}` of groups, and `{group/variable@name: value}` of variables and coordinates.
        comments: comment lines (CmdStan).
        entries: all other items: nested groups, types, other members and files, trailing bytes.
        unread: parts that could not be read.
        estimates: estimates of fits in the file.
        program: the Stan program of the draws; None if it is not in the file.
        draws: the group `posterior`, None if there is none.
        rows: `(K,)`, positions of the draws at which wide groups were read, chain by chain.
        saved: classes and fits of a file of saved objects.
        sign: what says that the draws are draws and not records, such as the column `lp__`; empty if nothing does.
        undecided: arrays with a value per row, of which nothing says whether it is a draw or a record (`decided`).
    """

    name: str
    format: str
    files: tuple[Stamp, ...] = ()
    variables: tuple[Variable, ...] = ()
    coordinates: Mapping[str, np.ndarray] = field(default_factory=dict)
    attributes: Json = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    draws: Draws | None = None
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    unread: tuple[Unread, ...] = ()
    saved: Saved | None = None
    estimates: tuple[Estimates, ...] = ()
    program: SavedProgram | None = None
    sign: str = ""
    undecided: tuple[Variable, ...] = ()

    def group(self, *names: str) -> list[Variable]:
        """The variables of some groups."""
        return [v for v in self.variables if v.group in names]

    @property
    def groups(self) -> list[str]:
        """The groups with variables, in ArviZ's order."""
        present = {v.group for v in self.variables}
        return [g for g in GROUPS if g in present] + sorted(present - set(GROUPS))


def group_of(name: str) -> str:
    """The ArviZ group of a variable, from its name.

    >>> group_of("log_lik"), group_of("y_rep"), group_of("beta")
    ('log_likelihood', 'posterior_predictive', 'posterior')
    """
    if _LOG_LIK.fullmatch(name):
        return "log_likelihood"
    return "posterior_predictive" if _SIMULATED.fullmatch(name) else "posterior"


def stride(draws: int, values: int) -> int:
    """The step between the draws that are read of wide groups with this many values per draw."""
    most = int(np.clip(WIDE_VALUES // max(values, 1), 2, WIDE_DRAWS))
    return max(1, -(-draws // most))


def wide_rows(chains: int, length: int, step: int) -> np.ndarray:
    """Positions of every `step`-th draw of each chain, in chain order."""
    return np.concatenate([c * length + np.arange(0, length, step) for c in range(chains)])


def from_named_draws(
    draws: Draws,
    source: str,
    files: tuple[Stamp, ...] = (),
    *,
    notes: tuple[str, ...] = (),
    comments: tuple[str, ...] = (),
    entries: tuple[Entry, ...] = (),
    unread: tuple[Unread, ...] = (),
    sign: str = "",
) -> Contents:
    """The contents of draws without groups. Generated quantities are recognised by their names."""
    groups = {name: group_of(name) if values.ndim > 2 else "posterior" for name, values in draws.values.items()}
    if "posterior" not in groups.values():  # a file of predictions only is unlikely, so the names are not trusted
        groups = dict.fromkeys(groups, "posterior")
    wide = sum(int(np.prod(draws.values[n].shape[2:])) for n, g in groups.items() if g in WIDE)
    rows = wide_rows(draws.chains, draws.length, stride(draws.chains * draws.length, wide))
    variables = []
    for name, values in draws.values.items():
        flat = values.reshape(draws.chains * draws.length, *values.shape[2:])
        read = flat[rows] if groups[name] in WIDE else flat
        variables.append(Variable(groups[name], name, values.shape[2:], True, read))
    if draws.log_density is not None:
        density = draws.log_density.reshape(-1)
        variables.append(Variable("sample_stats", "lp", (), True, density))
    posterior = replace(draws, values={n: v for n, v in draws.values.items() if groups[n] == "posterior"})
    attributes = {f"/{k}": v for k, v in draws.attributes.items()}
    return Contents(
        draws.name,
        source,
        files,
        tuple(variables),
        attributes=attributes,
        draws=posterior,
        rows=rows,
        notes=notes,
        comments=comments,
        entries=entries,
        unread=unread,
        sign=sign or draws.sign,
    )


RECORDS = "the user says that they are records"
"""The `Contents.sign` of arrays that are said to be records."""


def decided(contents: Contents, rows: str = "") -> Contents:
    """The contents with its draws, if something says that they are draws; otherwise with arrays that are undecided.

    Args:
        contents: the contents of a source.
        rows: what the user says that each row is, "draws" or "records"; empty if the user does not say.

    Raises:
        BayesreconError: another word.

    >>> contents = from_named_draws(Draws({"age": np.ones((1, 50))}), "arrays")
    >>> decided(contents).draws is None, decided(contents, "draws").draws is None
    (True, False)
    """
    if rows not in ("", "draws", "records"):
        raise BayesreconError(f"rows={rows!r}: expected 'draws' or 'records'")
    if contents.draws is None or (contents.sign and rows != "records"):
        return contents
    if rows == "draws":
        return replace(contents, sign="the user says that they are draws")
    undecided = tuple(v for v in contents.variables if v.per_draw)
    rest = tuple(v for v in contents.variables if not v.per_draw)
    names = tuple(Entry(v.where, "name", v.name) for v in undecided)
    return replace(
        contents,
        variables=rest,
        undecided=undecided,
        entries=(*contents.entries, *names),
        draws=None,
        sign=RECORDS if rows else "",
    )


def entry_of_item(where: str, kind: str, values: object) -> Entry:
    """The entry of an item of a file's inventory."""
    return entry_of_bytes(where, np.asarray(values).tobytes()) if kind == "bytes" else Entry(where, kind, values)


def entry_of_bytes(where: str, content: bytes) -> Entry:
    """The entry of unassigned bytes, as text if they are text.

    >>> entry_of_bytes("archive/comment", b"ask Ann").kind
    'text'
    """
    beginning = content[:MOST_BYTES]
    try:
        text = beginning.decode("utf-8")
    except UnicodeDecodeError:
        return Entry(where, "bytes", beginning)
    return Entry(where, "text" if text.isprintable() or not set(text) & set(map(chr, range(9))) else "bytes", text)


def stamp(path: Path) -> Stamp:
    """Size and SHA-256 of a file; of a directory, over its files in order of their names."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    parts = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for part in parts:
        if path.is_dir():
            digest.update(part.relative_to(path).as_posix().encode() + b"\0")
        with part.open("rb") as file:
            while block := file.read(2**22):
                digest.update(block)
                size += len(block)
    return Stamp(str(path), size, digest.hexdigest())
