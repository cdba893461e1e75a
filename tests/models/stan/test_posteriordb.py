"""Posteriors of posteriordb by their own programs give what the hand-written twins give."""

import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from command import document
from linear_posteriors import BY_PROGRAM

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.games.posteriordb.verdict import available, verdict
from bayesrecon.models import shipped
from bayesrecon.models.catalogue.lazy_numpyro import dist
from bayesrecon.models.catalogue.linear import (
    flat,
    gaussian_linear,
    interaction,
    linear,
    unit_variance,
    zero_mean,
)
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.posteriors.fitting.database import read_reference_draws
from bayesrecon.posteriors.fitting.fitted import built_file

CODES = {"race_adj": [1, 1.5, 2], "gender": [1, 2]}  # as the twin states them; the program has them as real numbers
POSTERIORS = [
    ("kidiq-kidscore_momiq", {}),
    ("earnings-logearn_height", {}),
    # Which ages there are is presumed of what the program compares them with.
    ("nes1972-nes", CODES),
]


pytestmark = pytest.mark.usefixtures("database", "hardly_optimised")


@pytest.mark.slow
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
    with pytest.raises(BayesreconError, match="omit model="):
        from_posteriordb("kidiq-kidscore_momiq", program=True, model=bayesrecon.models.load("kidscore_momiq"))


def test_a_posterior_without_a_twin_is_read_or_says_why_not():
    with pytest.raises(BayesreconError, match=r"records are coupled here"):
        from_posteriordb("arma-arma11", program=True)


def twin(response, fields, design, coefficients, **more):
    return gaussian_linear("twin", fields=fields, response=response, design=design, coefficients=coefficients, **more)


def kid_score(fields, design, **more):
    return twin("kid_score", dict.fromkeys(fields, ()), design, {"beta": (4, flat)}, **more)


C, Z = (tuple(f"{kind}_{name}" for name in ("mom_hs", "mom_iq")) for kind in "cz")
X = lambda z: [z["X"][:, k] for k in range(5)]  # noqa: E731
BLR = {"beta": (5, lambda: dist.Normal(0, 10))}
TREND = {
    "alpha": (None, lambda: dist.Normal(9.31290322580645, 100)),
    "beta": (None, lambda: dist.Normal(0, 0.0333333333333333)),
}
WORK = {"mom_work": [1, 2, 3, 4]}
BY_HAND = {  # the programs once more, by hand
    "earnings-earn_height": lambda: twin("earn", {"height": ()}, linear("height"), {"beta": (2, flat)}),
    "kidiq_with_mom_work-kidscore_interaction_c": lambda: kid_score(C, interaction(*C), identities=zero_mean(*C)),
    "kidiq_with_mom_work-kidscore_interaction_z": lambda: kid_score(
        Z, interaction(*Z), identities=unit_variance(2, *Z)
    ),
    "kidiq_with_mom_work-kidscore_mom_work": lambda: kid_score(
        ["mom_work"], lambda z: [1.0 + 0 * z["mom_work"], *(1.0 * (z["mom_work"] == k) for k in (2, 3, 4))], domain=WORK
    ),
    "kilpisjarvi_mod-kilpisjarvi": lambda: twin("y", {"x": ()}, linear("x"), TREND),
    "sblrc-blr": lambda: twin("y", {"X": (5,)}, X, BLR, scale=lambda: dist.HalfNormal(10.0)),
    "sblri-blr": lambda: twin("y", {"X": (5,)}, X, BLR, scale=lambda: dist.HalfNormal(10.0)),
}


def letters(name):
    """Whatever the order of the fields."""
    return "".join(sorted(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_PROGRAM)
def test_what_has_no_shipped_model_is_recovered_by_its_program(database, name):
    """All rows, as by a model that is written by hand."""
    assert not any(name in entry.posteriors for entry in shipped().values())
    own = bayesrecon.recover(from_posteriordb(name))
    other = bayesrecon.recover(from_draws(read_reference_draws(database, name), BY_HAND[name]()))
    assert (own.rank, own.gap, own.consistent) == (other.rank, True, True)
    theirs = {letters(row.name): row for row in other}
    assert {letters(row.name) for row in own} == set(theirs)
    assert sum(row.verdict == "determined" for row in own) >= 6
    for row in own:
        same = theirs[letters(row.name)]
        assert row.verdict == same.verdict
        if row.verdict == "determined":
            assert row.estimate == pytest.approx(same.estimate, rel=1e-6, abs=1e-12 + 1e-6 * same.se)
            assert row.se == pytest.approx(same.se, rel=1e-5, abs=1e-12)  # of a centred column the mean is zero


@pytest.mark.slow
def test_the_verbs_find_it_by_its_name(run, database):
    name = "kilpisjarvi_mod-kilpisjarvi"
    assert name in available()[0]
    found = document(run("recover", name, "--draws", 1000, "--json"))
    assert {row["verdict"] for row in found["statistics"]} == {"determined"}
    found = verdict(name).found
    assert (found.statistics, found.determined, found.rank, found.finite, found.consistent) == (6, 6, 6, True, True)
    assert found.z < 4


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_it_is_sampled_by_its_program_where_there_are_no_draws(database, tmp_path, monkeypatch):
    """As if its draws were missing."""
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path))
    monkeypatch.setattr("bayesrecon.posteriors.fitting.fitted.has_reference_draws", lambda *_: False)
    name = "kidiq_with_mom_work-kidscore_mom_work"
    release = from_posteriordb(name, say=lambda _: None)
    assert release.model.name == "kidscore_mom_work"
    assert abs(bayesrecon.recover(release)["n"].estimate - 434) < 25
    assert built_file(database, name) is not None


@pytest.mark.slow
def test_where_the_program_cannot_be_used_the_reason_is_given(database):
    match = "its model is not shipped, and its own program cannot be used: kronecker_gp.stan, line 36, column 29"
    with pytest.raises(BayesreconError, match=match):
        from_posteriordb("synthetic_grid_RBF_kernels-kronecker_gp")
