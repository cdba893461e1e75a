"""Columns of a table of draws by role: parameters, sampler statistics, counts of draws, parts of tuples."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.draws import assemble, assembled, levels_of, sign_of

CHAINS, COUNTS = (".chain", "chain"), (".draw", "draw", ".iteration", "iteration", "")
"""Names of columns that count chains, and draws or rows: R's `posterior`, xarray's frames, and names of rows."""

_STAN = re.compile(r"[A-Za-z]\w*((\.\d+)*|\[\d+(,\d+)*\])")
_TUPLE, _COMPLEX, _INDEX = re.compile(r":\d+"), re.compile(r"\.(real|imag)$"), re.compile(r"\.\d+|\[[\d,]*\]")


Columns = dict[str, np.ndarray]
"""Values by column name."""


@dataclass(frozen=True, eq=False)
class Sorted:
    """The columns of a table, each `(chains, draws)`.

    Attributes:
        parameters: columns whose names do not end in `__`.
        sampler: columns whose names do.
        aside: tuples and complex quantities by name, each `(chains, draws, n)` for its `n` parts.
        by_r: whether the names are R's, in which indices may be words.
    """

    parameters: Columns
    sampler: Columns
    aside: Columns
    by_r: bool

    def arrays(self) -> Columns:
        """The parameters as `(chains, draws, *shape)`."""
        return assembled(self.parameters) if self.by_r else assemble(self.parameters)

    def levels(self) -> Columns:
        """Words that stand as indices in R's names, by the parameter that they belong to: names of groups."""
        return levels_of(self.parameters) if self.by_r else {}


def check_header(header: Sequence[str], source: object) -> None:
    """Refuse duplicate column names.

    Raises:
        BayesreconError: there are some.
    """
    ((most, times),) = Counter(header).most_common(1)
    if times > 1:
        raise BayesreconError(f"{source}: the column {most[:80]!r} appears {times} times")


def names_of_r(header: Sequence[str], settings: Mapping[str, str]) -> bool:
    """Whether these are names that R gives, in a file without CmdStan's comments.

    >>> names_of_r(["b_x", "r_g[ann,Intercept]", ".draw"], {}), names_of_r(["b.1", "t:1"], {})
    (True, False)
    """
    return not settings and any(not _STAN.fullmatch(_TUPLE.sub("", _COMPLEX.sub("", c))) for c in header)


def sort_columns(columns: Mapping[str, np.ndarray], by_r: bool) -> Sorted:
    """Columns by role. Columns that count draws must have been removed.

    >>> one = np.ones((1, 3))
    >>> columns = sort_columns({"lp__": one, "mu": one, "z.real": one, "z.imag": one, "pair:1": one}, by_r=False)
    >>> list(columns.parameters), list(columns.sampler), list(columns.aside)
    (['mu'], ['lp__'], ['z', 'pair'])
    """
    parts: dict[str, list[np.ndarray]] = {}
    parameters, sampler = {}, {}
    for name, values in columns.items():
        if not by_r and (_TUPLE.search(name) or _COMPLEX.search(name)):
            parts.setdefault(whole(name), []).append(values)
        elif name.endswith("__"):
            sampler[name] = values
        else:
            parameters[name] = values
    return Sorted(parameters, sampler, {name: np.stack(elements, axis=-1) for name, elements in parts.items()}, by_r)


def whole(name: str) -> str:
    """The quantity that a part of a tuple or of a complex number belongs to.

    >>> whole("z.1.real"), whole("pair:2.1"), whole("t.3:1")
    ('z', 'pair', 't')
    """
    return _INDEX.sub("", _COMPLEX.sub("", name.split(":", 1)[0]))


def split_chains(columns: Mapping[str, np.ndarray], rows: int) -> tuple[int, set[str]]:
    """How many chains of equal length follow one another in a table, and the columns that do nothing but count.

    Args:
        columns: each `(rows,)`.

    >>> chain, draw = np.repeat([1, 2], 3), np.arange(1, 7)
    >>> chains, counting = split_chains({"mu": np.ones(6), ".chain": chain, ".draw": draw}, 6)
    >>> chains, sorted(counting)
    (2, ['.chain', '.draw'])
    """
    chains, counting = 1, set()
    for name in CHAINS:
        which = columns.get(name)
        if which is None:
            continue
        steps = np.diff(which)
        begins = np.flatnonzero(np.append(True, steps != 0))
        if (
            which[0] in (0, 1)
            and np.isin(steps, (0, 1)).all()
            and (np.diff(begins, append=rows) == rows // len(begins)).all()
        ):
            chains, counting = len(begins), {name}
    for name in COUNTS:
        count = columns.get(name)
        if count is not None and (_counts(count) or all(map(_counts, np.split(count, chains)))):
            counting.add(name)
    return chains, counting


def _counts(values: np.ndarray) -> bool:
    steps = np.diff(values)
    whole = values[0] >= 0 and values[0] == np.round(values[0])
    return bool(whole and (not len(steps) or (steps[0] > 0 and (steps == steps[0]).all())))


def sign_of_columns(header: Iterable[str], counting: Collection[str]) -> str:
    """What says that columns of a table are draws: columns that count them, or what `sign_of` finds; empty if nothing.

    >>> [sign_of_columns(["mu"], counting) for counting in ({".draw"}, {"chain", "draw"}, {"draw"})]
    ['.draw', 'chain and draw', '']
    """
    dotted = [name for name in counting if name.startswith(".")]
    if dotted or ("chain" in counting and len(set(counting) - {""}) > 1):
        return dotted[0] if dotted else "chain and draw"
    return sign_of(header)


def is_diagnostic(header: Sequence[str]) -> bool:
    """Whether this is the header of CmdStan's `diagnostic_file`: unconstrained parameters, momenta and gradients.

    >>> is_diagnostic(["lp__", "mu", "p_mu", "g_mu"]), is_diagnostic(["lp__", "mu", "g_mu"])
    (True, False)
    """
    columns, names = [name for name in header if not name.endswith("__")], set(header)
    third = len(columns) // 3
    return bool(columns) and all(f"p_{name}" in names and f"g_{name}" in names for name in columns[: max(third, 1)])
