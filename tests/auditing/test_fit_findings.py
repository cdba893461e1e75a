import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import summaries
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import gaussian


@pytest.fixture(scope="module")
def release():
    return gaussian(MODEL, *summaries.mode(MODEL, DATA, summaries.start()), jacobian=True)


@pytest.mark.slow
def test_a_mode_with_its_covariance(release):
    found = bayesrecon.audit(release, data=DATA, remedies=False)
    assert (found.verdict, found.severity, found.format) == ("findings", "medium", "fit")
    evidence = {item.name: item for item in found.findings[0].evidence}
    assert evidence["n"].estimate == pytest.approx(80)
    assert evidence["var(y)"].truth == pytest.approx(DATA["y"].var())
    assert found.findings[0].remedies == ()


@pytest.mark.slow
def test_remedies_are_tried(release):
    found = bayesrecon.audit(release)
    remedies = [r for r in found.findings[0].remedies if r.statistic == "n" and r.measured is not None]
    assert [r.action for r in remedies] == ["print 4 digits", "print 3 digits", "print 2 digits"]
    assert remedies[2].predicted > 5 * remedies[1].predicted > 25 * remedies[0].predicted > 0


@pytest.mark.slow
def test_a_fit_that_determines_nothing_is_not_cleared():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    found = bayesrecon.audit(sm.Logit((y > 0).astype(float), sm.add_constant(x)).fit(disp=0), remedies=False)
    assert found.verdict == "incomplete"
    assert "Not cleared" in found.advice


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (pd.DataFrame({"coef": [1.0], "se": [0.1]}, index=["const"]), {}, "needs its model"),
        ({"mu": np.zeros((1, 20))}, {"correlations": [[1]]}, "correlations= belongs to a table"),
    ],
)
def test_what_cannot_be_audited(source, options, message):
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.audit(source, **options)


def test_units_of_fits_are_refused(release):
    with pytest.raises(BayesreconError, match="is not used in the audit of a fit"):
        bayesrecon.audit(release, unit="x")
