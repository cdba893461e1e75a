"""Windows of a series: the records of a likelihood whose terms need values before their own.

The shortest windows are looked for, over which the likelihood is a product. The first values may have a term of their
own, as in `y[1] ~ normal(0, 1)`: they are a record of another kind. A window then adds what its last value changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain, RecordKind
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Params, Records

LONGEST_LAG = 13
"""Values back that are looked for in a series: a year of months, and one more."""

_ALIKE = 1e-9  # relative, of sums of terms: their differences have rounding errors
_PROBED = 6  # values that replace one of a window

Target = Callable[[Mapping[str, np.ndarray], Params], float]
"""Log likelihood of columns `{name: (N, *shape)}` in order."""


class CoupledError(BayesreconError):
    """The likelihood is no product over the records."""


@dataclass(frozen=True)
class Windows:
    """Windows over which a likelihood is a product.

    Args:
        lag: how many values before its own the term of a record needs.
        places: by field, the column that it is taken from, and how many places back.
        starts: whether the first values have a term of their own.
    """

    lag: int
    places: Mapping[str, tuple[str, int]]
    starts: bool

    def fields(self, columns: Mapping[str, Field], count: str) -> tuple[dict[str, Field], str | None, dict[str, str]]:
        """What describes the records.

        Args:
            columns: fields of the series.
            count: name of the number of windows.

        Returns:
            Fields of the records; the field that says whether a record is a window or the first values, None if all
            are windows; and the column of each field that holds first values.
        """
        fields = {field: columns[name] for field, (name, _) in self.places.items()}
        if not self.starts:
            return fields, None, {}
        tag = "kind"
        while tag in fields:
            tag += "_"
        start, own = RecordKind(tag, 1.0, "start", True), RecordKind(tag, 2.0, count)
        firsts = {f"{name}_first": name for name in columns}
        described = {
            tag: Field((), Domain("levels", levels=(1.0, 2.0))),
            **{f: Field((self.lag, *columns[name].shape), columns[name].domain, start) for f, name in firsts.items()},
            **{name: replace(field, kind=own) for name, field in fields.items()},
        }
        return described, tag, firsts

    def records(self, columns: Mapping[str, Array]) -> Records:
        """Windows of whole columns `{name: (N, *shape)}`, in order."""
        length = len(next(iter(columns.values())))
        return {f: columns[name][self.lag - back : length - back] for f, (name, back) in self.places.items()}


def shortest(
    target: Target, series: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], points: Sequence[Params]
) -> Windows | None:
    """The shortest windows of a series; None if the likelihood is no product over windows.

    Args:
        target: raises `CoupledError` to end the search.
        series, other: columns of random values, with at least `LONGEST_LAG + 3` of them.
        points: three values of the parameters.
    """
    here, there, _ = points

    def with_ends(first: bool, last: bool) -> dict[str, np.ndarray]:
        begin, end = (other if first else series), (other if last else series)
        return {k: np.concatenate([begin[k][:1], v[1:-1], end[k][-1:]]) for k, v in series.items()}

    for params in points:
        ends = [target(with_ends(first, last), params) for first in (False, True) for last in (False, True)]
        if not abs(ends[0] + ends[3] - ends[1] - ends[2]) <= 1e-13 * sum(map(abs, ends)):
            return None  # the first and the last value belong to one term

    def part(low: int, high: int) -> dict[str, np.ndarray]:
        return {k: v[low:high] for k, v in series.items()}

    def last_term(window: Mapping[str, np.ndarray], params: Params = here) -> float:
        return target(window, params) - target({k: v[:-1] for k, v in window.items()}, params)

    def suffices(lag: int) -> bool:
        window = part(2, lag + 3)
        added = last_term(window)
        return not _same(last_term(window, there), added) and _same(last_term(part(0, lag + 3)), added)

    if not suffices(LONGEST_LAG):  # shorter windows do not either
        return None
    for lag in range(1, LONGEST_LAG + 1):
        try:
            if not suffices(lag):
                continue
            first = target(part(0, lag), here)
            starts = not _same(first, 0.0) and not _same(first, target(part(0, lag), there))
        except CoupledError:
            raise
        except BayesreconError:  # an index beyond the end
            continue
        window, places = part(2, lag + 3), {}
        added = last_term(window)
        for back in range(lag + 1):
            for name in series:
                others = ({**window, name: window[name].copy()} for _ in range(_PROBED))
                for n, changed in enumerate(others):
                    changed[name][lag - back] = other[name][n]
                    if not _same(last_term(changed), added):
                        places[f"{name}_lag{back}" if back else name] = (name, back)
                        break
        return Windows(lag, places, starts)
    return None


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= _ALIKE * (1 + abs(a) + abs(b))
