"""Posteriors of posteriordb by their own programs give what the hand-written twins give."""

import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_posteriordb

CODES = {"race_adj": [1, 1.5, 2], "gender": [1, 2]}  # as the twin states them; the program has them as real numbers
POSTERIORS = [
    ("kidiq-kidscore_momiq", {}),
    pytest.param("kidiq_with_mom_work-kidscore_mom_work", {}, marks=pytest.mark.slow),
    pytest.param("earnings-logearn_height", {}, marks=pytest.mark.slow),
    # Which ages there are is presumed of what the program compares them with.
    pytest.param("nes1972-nes", CODES, marks=pytest.mark.slow),
]


pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.parametrize(("name", "domain"), POSTERIORS)
def test_its_own_program_gives_what_its_twin_gives(name, domain):
    own, twin = (from_posteriordb(name, draws=1000, program=p) for p in (True, False))
    own, twin = bayesrecon.recover(own, domain=domain), bayesrecon.recover(twin)
    shared = {row.name: row for row in own if row.estimate is not None}
    same = [(shared[row.name], row) for row in twin if row.name in shared and row.estimate is not None]
    assert len(same) >= 3
    for one, other in same:
        assert one.estimate == pytest.approx(other.estimate, rel=1e-6, abs=1e-6)
        assert one.se == pytest.approx(other.se, rel=1e-4, abs=1e-6)


def test_a_program_and_a_model_are_not_both_taken():
    with pytest.raises(BayesreconError, match="leave model= out"):
        from_posteriordb("kidiq-kidscore_momiq", program=True, model=bayesrecon.models.load("kidscore_momiq"))


def test_a_posterior_without_a_twin_is_read_or_says_why_not():
    with pytest.raises(BayesreconError, match=r"records are coupled here"):
        from_posteriordb("arma-arma11", program=True)
