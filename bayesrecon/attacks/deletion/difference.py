"""`Difference`: the deleted record, as the difference of the totals that two approximations determine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.deletion.approximated import deleted_totals
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.pairs import ApproximatedPair, Deletion
from bayesrecon.results.deletion import DeletedRecord
from bayesrecon.results.row import Row


@dataclass(frozen=True, eq=False)
class Difference(Attack[DeletedRecord]):
    """The deleted record, from two approximations of the posterior: before and after the deletion.

    An approximation is a mode with its covariance, a table of estimates, a summary of draws, a variational fit or a
    density. Each of the two determines totals over its data. If one record was deleted, the totals differ by the fields
    of that record. If several were deleted, the totals of the deleted records are
    `infer_deletion(pair, candidates).deleted`.

    >>> import bayesrecon, numpy as np, statsmodels.api as sm
    >>> x, y = np.random.default_rng(0).normal(size=(2, 40))
    >>> fits = [sm.OLS(y[:n], sm.add_constant(x[:n])).fit() for n in (40, 39)]
    >>> found = bayesrecon.reconstruct(bayesrecon.deletion(*fits), attack=Difference())
    >>> np.allclose([found.record["x1"], found.record["y"]], [x[39], y[39]])
    True
    """

    name: ClassVar[str] = "difference"
    summary: ClassVar[str] = "the record deleted between two tables, modes with covariances or variational fits"
    takes: ClassVar[tuple[type, ...]] = (ApproximatedPair,)
    uses: ClassVar[tuple[str, ...]] = ()

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        rows, warnings = deleted_totals(release)
        count, *totals = rows
        doubts = list[str]()
        if count.lower is None or count.upper is None:
            doubts.append("the number of deleted records is not determined: the fields are those of a single record")
        elif not count.lower <= 1 <= count.upper:
            listed = ", ".join(f"{r.name} {r.estimate:.5g}" for r in totals[:4] if r.estimate is not None)
            raise BayesreconError(
                f"the releases differ by {count.estimate:.4g} records, between {count.lower:.4g} and "
                f"{count.upper:.4g}, and not by a single one ({listed})"
            )
        elif count.lower <= 0 or count.upper >= 2:
            doubts.append(
                f"between {count.lower:.3g} and {count.upper:.3g} records were deleted: the fields assume one"
            )
        unseen = [r.name[4:-1] for r in totals if r.estimate is None]
        if unseen:
            warnings.append(f"not determined: {', '.join(unseen)}")
        record, se = _fields(release, totals)
        if not record:
            raise BayesreconError("these releases determine no field of the deleted record")
        one, two, name = release.before.name, release.after.name, release.before.model.name
        told = (*warnings, *doubts)
        return DeletedRecord(record, se, "difference", None, float("inf"), one, two, name, told, doubts=tuple(doubts))


def _fields(pair: Deletion, totals: list[Row]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Fields all of whose entries are determined, with their standard errors."""
    record, se, rest = {}, {}, list(totals)
    for name, field in pair.before.model.fields.items():
        size = int(np.prod(field.shape, dtype=int))
        own, rest = rest[:size], rest[size:]
        if own and all(r.estimate is not None for r in own):
            record[name] = np.array([r.estimate for r in own], float).reshape(field.shape)
            se[name] = np.array([r.se for r in own], float).reshape(field.shape)
    return record, se


ATTACK = Difference
