from types import SimpleNamespace

from bayesrecon.estimation.kinds.limits import limited
from bayesrecon.inexact import Statements
from bayesrecon.knowledge import Knowledge
from bayesrecon.types import Field, Limit


def test_every_statistic_has_a_row_and_open_ends_are_none():
    def limits(fields, total, factors):
        return Statements(
            {"n": Limit(lower=9.5), "var(x)": Limit(1.0, 2.0, 1.5), "mean(x*x)": Limit(3.0, 4.0)}, ["few"]
        )

    release = SimpleNamespace(limits=limits)
    rows, said, wrong = limited(release, Knowledge({"x": Field()}))
    assert said.remarks == ("few",)
    found = {row.name: row for row in rows}
    assert list(found) == ["n", "mean(x)", "var(x)", "mean(x*x)"]
    assert (found["n"].lower, found["n"].upper, found["n"].verdict) == (9.5, None, "undetermined")
    assert (found["var(x)"].estimate, found["var(x)"].verdict) == (1.5, "determined")
    assert (found["mean(x)"].lower, found["mean(x)"].upper, wrong) == (None, None, ())
    rows, _, wrong = limited(release, Knowledge({"x": Field()}, total=9.0))
    assert "9 records were stated" in wrong[0]
    assert limited(release, Knowledge({"x": Field()}, total=10.0))[2] == ()
