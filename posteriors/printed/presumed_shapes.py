"""Functions of covariates that only the names of columns suggest, such as `x2` for the square of x.

Results that use such an assumption say so. It is dropped if the column was described, or if no data agree with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayesrecon.errors import Note
from bayesrecon.factors import Factor
from bayesrecon.inexact import Limits, Statements
from bayesrecon.model import Field


@dataclass(frozen=True)
class Presumed:
    """Limits of statistics under the assumption that a column is what its name suggests.

    Args:
        limits: under the presumption.
        field: the column.
        words: what is presumed.

    >>> from bayesrecon.inexact import Limit
    >>> square = Presumed(lambda *_: Statements({"mean(x2)": Limit(4.0)}), "x2", "x2 is the square of x")
    >>> statements = square.beside(Statements({}), {"x2": Field()}, 40.0, ())
    >>> statements["mean(x2)"].lower, statements.presumed
    (4.0, ('x2 is the square of x',))
    >>> square.beside(Statements({"mean(x2)": Limit(1.0, 2.0)}), {"x2": Field()}, 40.0, ()).remarks
    ('no data give this table if x2 is the square of x, as its name suggests: that is not assumed',)
    """

    limits: Limits
    field: str
    words: str

    def beside(
        self, statements: Statements, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor]
    ) -> Statements:
        """The statements, intersected with those that hold under the assumption."""
        described = fields[self.field].domain.kind != "real" or any(self.field in f.columns for f in factors)
        if described or statements.failures:
            return statements
        more = self.limits(fields, total, factors)
        together = statements.meeting(more)
        if together.failures:
            remark = Note(f"no data give this table if {self.words}, as its name suggests: that is not assumed")
            return Statements(statements, (*statements.remarks, remark), statements.failures, statements.presumed)
        if not more:
            return statements
        remark = (
            f"assumed from the name alone: {self.words}; if this is wrong, state its domain "
            f"(domain={{{self.field!r}: (low, high)}}) or the formula (formula=) with it as a variable"
        )
        return Statements(together, (*together.remarks, remark), (), (*together.presumed, self.words))
