"""The witness: a density around the data."""

import numpy as np
import pytest

import bayesrecon
from bayesrecon.posteriors import from_posteriordb


def test_witness_is_a_density_around_the_data(database):
    """It integrates to one, has the recovered mean, and its map shows the recovered correlation."""
    release = from_posteriordb("kidiq-kidscore_momiq")
    result = bayesrecon.recover(release)
    found = bayesrecon.witness(release, "mom_iq", points=121)
    assert found.values.shape == found.se.shape == (121,)
    step = np.diff(found.grids[0])[0]
    mass = found.values.sum() * step
    assert mass == pytest.approx(1, abs=0.05)
    mean = (found.grids[0] * found.values).sum() * step / mass
    assert mean == pytest.approx(result["mean(mom_iq)"].estimate, abs=2)
    both = bayesrecon.witness(release, ("mom_iq", "kid_score"), points=41)
    x, y = (g - g.mean() for g in both.grids)
    correlation = (both.values * x[:, None] * y).sum() / np.sqrt(
        (both.values * x[:, None] ** 2).sum() * (both.values * y**2).sum()
    )
    truth = result["cov(mom_iq,kid_score)"].estimate / np.sqrt(
        result["var(mom_iq)"].estimate * result["var(kid_score)"].estimate
    )
    assert correlation == pytest.approx(truth, abs=0.12)
    assert found.plot().get_xlabel() == "mom_iq"
    both.plot()


def test_witness_of_a_binary_field_gives_shares(database):
    release = from_posteriordb("kidiq-kidscore_momhs", draws=1000)
    share = bayesrecon.witness(release, "mom_hs")
    assert share.values.sum() == pytest.approx(1, rel=1e-6)
    assert abs(share.values[1] - 341 / 434) < 4.5 * share.se[1]
    assert share.visibility.min() > 0.999
    assert len(bayesrecon.witness(release, ("kid_score", "mom_hs"), points=11).to_dataframe()) == 22
    share.plot()
    for wrong in ("mom", ("mom_hs", "mom_hs"), ()):
        with pytest.raises(bayesrecon.BayesreconError):
            bayesrecon.witness(release, wrong)


@pytest.mark.slow
def test_witness_needs_a_number_of_records(database):
    with pytest.raises(bayesrecon.BayesreconError, match="how many records"):
        bayesrecon.witness(from_posteriordb("eight_schools-eight_schools_noncentered"), "y")
