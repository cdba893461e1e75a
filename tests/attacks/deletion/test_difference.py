import numpy as np
import pytest
import summaries
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.models import load
from bayesrecon.posteriors import dirac, gaussian


def release(rows=()):
    data = {k: np.delete(v, list(rows), axis=0) for k, v in DATA.items()}
    return gaussian(MODEL, *summaries.mode(MODEL, data, summaries.start()), jacobian=True)


@pytest.mark.slow
def test_the_record_between_two_modes():
    pair = bayesrecon.deletion(release(), release([7]))
    found = bayesrecon.reconstruct(pair)
    assert found.method == "difference"
    assert found.condition == ""
    (told,) = found.warnings
    assert isinstance(told, Note)
    assert "another record exchanged" in told
    np.testing.assert_allclose(found.record["x"], DATA["x"][7], atol=1e-6)
    np.testing.assert_allclose(found.record["y"], DATA["y"][7], atol=1e-6)


@pytest.mark.slow
def test_two_records_are_not_one():
    with pytest.raises(BayesreconError, match=r"differ by 2 records.*not by a single one"):
        bayesrecon.reconstruct(bayesrecon.deletion(release(), release([7, 30])))


def test_trained_parameters_are_for_another_attack():
    line = load("linear_predictor", intercept=False)
    pair = bayesrecon.deletion(*(dirac(line, {"coef": [[v]]}) for v in (0.52, 0.49)))
    with pytest.raises(BayesreconError, match="use HRec"):
        bayesrecon.reconstruct(pair, attack=bayesrecon.Difference())
