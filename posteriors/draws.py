"""`Draws`: what every reader returns, and the rebuilding of arrays from scalar columns."""

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.names import MAX_NAMES

MAX_DIMENSIONS = 16

LOG_DENSITIES = (
    "lp__", "lp", "logp", "log_p", "log_prob", "log_density", "logdensity", "log_posterior", "model_logp", "lnprob",
    "target_log_prob", "minuslogpost", "log_p__", "logl", "logwt",
)  # fmt: skip
"""Names of log densities that samplers and packages give."""

_CHEMISTRY = {"logp", "log_p"}  # names of a column of records as well

_INDEXED = re.compile(r"([A-Za-z][\w.]*)\[([0-9]+(?:,[0-9]+)*|[^\[\],\s]+(?:,[^\[\],\s]+)+)\]")

# `beta[2,3]` (posteriordb, CmdStanPy) or `beta.2.3` (CmdStan). Nine digits already exceed any real index.
_BRACKETS = re.compile(r"([^\[\].:,\s]+)\[([0-9]{1,9}(?:,[0-9]{1,9})*)\]")
_DOTS = re.compile(r"([^\[\].:,\s]+)((?:\.[0-9]{1,9})*)")


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws by parameter name, with the log density if the source has it.

    Args:
        values: `{parameter: (chains, draws, *shape)}`, converted to float64.
        log_density: `(chains, draws)`, log posterior density up to a constant, in the sampler's coordinates.
        name: name for display.
        attributes: string attributes of the source, such as `{"bayesrecon_model": "kidscore_momiq"}`.

    Raises:
        BayesreconError: there is no parameter or no draw, values are not numbers, or leading dimensions differ.

    Example:
        >>> import numpy as np
        >>> draws = Draws({"beta": np.zeros((4, 100, 3)), "sigma": np.ones((4, 100))})
        >>> draws.chains, draws.length, draws.last(100).chains
        (4, 100, 1)
    """

    values: dict[str, np.ndarray]
    log_density: np.ndarray | None = None
    name: str = "draws"
    attributes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = {str(key): _numbers(str(key), value) for key, value in self.values.items()}
        if not values:
            raise BayesreconError(f"{self.name}: there are no parameters")
        first = next(iter(values))
        leading = values[first].shape[:2]
        if len(leading) < 2 or 0 in leading:
            raise BayesreconError(
                f"{self.name}: {first!r} has shape {values[first].shape}; "
                "expected (chains, draws, ...) with at least one draw"
            )
        log_density = None if self.log_density is None else _numbers("log_density", self.log_density)
        for key, value in values.items():
            if value.shape[:2] != leading:
                raise BayesreconError(
                    f"{self.name}: {key!r} has (chains, draws) {value.shape[:2]} but {first!r} has {leading}"
                )
        if log_density is not None and log_density.shape != leading:
            raise BayesreconError(
                f"{self.name}: the log density has shape {log_density.shape} but the draws have {leading}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "log_density", log_density)

    @property
    def sign(self) -> str:
        """What says that these are draws and not records, from their names and attributes; empty if nothing does."""
        stored = next((key for key in self.attributes if key.startswith("bayesrecon_")), "")
        return stored or ("the log density" if self.log_density is not None else sign_of(self.values))

    @property
    def chains(self) -> int:
        """The number of chains."""
        return next(iter(self.values.values())).shape[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of one draw of each parameter."""
        return {name: values.shape[2:] for name, values in self.values.items()}

    @property
    def length(self) -> int:
        """The number of draws in each chain."""
        return next(iter(self.values.values())).shape[1]

    def last(self, count: int) -> "Draws":
        """The last `count` draws in chain-major order, as `Draws`.

        Up to the length of one chain they come from the last chain. Beyond it, whole chains are kept, the last ones.
        """
        try:
            count = operator.index(count)
        except TypeError as error:
            raise BayesreconError(f"draws={count!r} is not a whole number") from error
        chains, length = self.chains, self.length
        if not 1 <= count <= chains * length:
            raise BayesreconError(f"{self.name}: draws={count} is not between 1 and {chains * length}")
        keep, rest = divmod(count, length)
        if keep and rest:
            raise BayesreconError(
                f"{self.name}: draws={count} would split a chain of {length} draws; "
                f"take {keep * length} or {(keep + 1) * length}, or {length} or fewer"
            )
        cut = (slice(-keep, None), slice(None)) if keep else (slice(-1, None), slice(-rest, None))
        # Copies, so that the draws left out can be freed.
        return replace(
            self,
            values={key: value[cut].copy() for key, value in self.values.items()},
            log_density=None if self.log_density is None else self.log_density[cut].copy(),
        )


def assemble(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rebuild arrays from scalar columns named Stan style.

    Args:
        columns: `beta[1]`, `beta[2,3]` or `beta.1`, `beta.2.3` (1-based, any order), each `(chains, draws)`.

    Returns:
        Parameter name -> `(chains, draws, *shape)`, in the order in which the names first appear.
    """
    check_names(column.split(".", 1)[0].split("[", 1)[0] for column in columns)
    groups: dict[str, dict[tuple[int, ...], str]] = {}
    for column in columns:
        base, index = _split(column)
        group = groups.setdefault(base, {})
        if index in group:
            raise BayesreconError(f"columns {group[index]!r} and {column!r} are the same element")
        group[index] = column
    if len({np.shape(column) for column in columns.values()}) > 1:
        raise BayesreconError("the columns do not all hold the same number of draws")
    return {base: _stack(base, group, columns) for base, group in groups.items()}


def sign_of(names: Iterable[str]) -> str:
    """What says that columns are draws and not records: a log density, or the elements of an array; empty if nothing.

    >>> sign_of(["a", "lp__"]), sign_of(["b[1]", "b[2]"]), sign_of(["r_g[ann,Intercept]"]), sign_of(["age", "dose[mg]"])
    ('lp__', 'b[2]', 'r_g[ann,Intercept]', '')
    """
    bases: set[str] = set()
    for name in names:
        if (name in LOG_DENSITIES and name not in _CHEMISTRY) or name.endswith("__") or name == "potential_energy":
            return name
        if (match := _INDEXED.fullmatch(name)) is None:
            continue
        if "," in match[2] or match[1] in bases:
            return name
        bases.add(match[1])
    return ""


def check_names(names: Iterable[str], source: object = "the draws") -> None:
    """Refuse more names than a model can have."""
    if (count := len(set(names))) > MAX_NAMES:
        raise BayesreconError(
            f"{source}: {count} parameters, more than {MAX_NAMES}; elements of one array are named a.1, a.2, ..."
        )


def is_numeric(dtype: np.dtype) -> bool:
    """Whether values of this type convert to float64 (booleans, integers, reals)."""
    return dtype.kind in "biuf"


def _numbers(key: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BayesreconError(f"{key!r} is a ragged array") from error
    if not is_numeric(array.dtype):
        raise BayesreconError(f"{key!r} holds {array.dtype} values, not real numbers")
    return array.astype(np.float64, copy=False)


def _split(column: str) -> tuple[str, tuple[int, ...]]:
    if ":" in column or column.endswith((".real", ".imag")):
        raise BayesreconError(f"column {column[:80]!r} is part of a tuple or a complex number: not supported")
    if match := _BRACKETS.fullmatch(column):
        index = tuple(int(part) for part in match[2].split(","))
    elif match := _DOTS.fullmatch(column):
        index = tuple(int(part) for part in match[2].split(".")[1:])
    else:
        match, index = None, ()
    if match is None or not column.isprintable():
        raise BayesreconError(f"column name {column[:80]!r} is neither a name nor a name with indices")
    if len(index) > MAX_DIMENSIONS:
        raise BayesreconError(f"column {column[:80]!r} has {len(index)} indices, more than {MAX_DIMENSIONS}")
    if 0 in index:
        raise BayesreconError(f"column {column!r}: indices start at 1")
    return match[1], index


def _stack(base: str, group: dict[tuple[int, ...], str], columns: Mapping[str, np.ndarray]) -> np.ndarray:
    if len({len(index) for index in group}) > 1:
        uses = sorted(group.values(), key=len)
        raise BayesreconError(f"{uses[0]!r} and {uses[-1]!r} do not have the same number of indices")
    shape = tuple(max(axis) for axis in zip(*group, strict=True))
    # Repeated entries are excluded, so a full count means that every index is there. The shape comes from the
    # file: it is compared as a Python integer before any array of that size exists.
    if math.prod(shape) != len(group):
        missing = next(index for index in _row_major(shape) if index not in group)
        raise BayesreconError(f"{base}[{','.join(map(str, missing))}] is missing among the columns")
    stacked = np.stack([columns[group[index]] for index in sorted(group)], axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *shape).astype(np.float64, copy=False)


def _row_major(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """1-based indices in order; lazy in every axis, unlike itertools.product, as the sizes are untrusted."""
    for flat in range(math.prod(shape)):
        index = []
        for size in reversed(shape):
            flat, position = divmod(flat, size)
            index.append(position + 1)
        yield tuple(reversed(index))


def assembled(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of the columns, as in `assemble`. Columns with other names than numeric indices stay as they are.

    >>> one = np.ones((1, 3))
    >>> sorted(assembled({"b[1]": one, "b[2]": one, "r_g[a,Intercept]": one, "(Intercept)": one}))
    ['(Intercept)', 'b', 'r_g[a,Intercept]']
    """
    result: dict[str, np.ndarray] = {}
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, values in columns.items():
        groups.setdefault(name.split("[", 1)[0], {})[name] = values
    for name, group in groups.items():
        try:
            result |= assemble(group) if list(group) != [name] else dict(group)
        except BayesreconError:
            result |= group
    return result


def levels_of(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Names of groups that are indices of parameters, by parameter.

    >>> one = np.ones((1, 3))
    >>> levels_of({"r_g[ann,Intercept]": one, "r_g[bob,Intercept]": one, "b[1]": one})["r_g"].tolist()
    ['ann', 'bob']
    """
    by_parameter: dict[str, dict[str, None]] = {}
    for name in columns:
        base, bracket, index = name.partition("[")
        first = index.rstrip("]").split(",", 1)[0]
        if bracket and not first.isdecimal():
            by_parameter.setdefault(base, {})[first] = None
    return {base: np.array(list(levels)) for base, levels in by_parameter.items()}
