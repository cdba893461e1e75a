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
def test_two_records_have_totals_alone():
    found = bayesrecon.reconstruct(bayesrecon.deletion(release(), release([7, 30])))
    assert (found.record, found.title) == ({}, "2 deleted records")
    for name, true in (("n", 2), ("sum(x[1])", DATA["x"][[7, 30]].sum()), ("sum(y)", DATA["y"][[7, 30]].sum())):
        row = next(row for row in found.deleted if row.name == name)
        assert row.lower <= true <= row.upper < row.lower + 1e-5
    assert found.to_dataframe().index.tolist() == ["n", "sum(x[1])", "sum(y)"]


def test_trained_parameters_are_for_another_attack():
    line = load("linear_predictor", intercept=False)
    pair = bayesrecon.deletion(*(dirac(line, {"coef": [[v]]}) for v in (0.52, 0.49)))
    with pytest.raises(BayesreconError, match="use HRec"):
        bayesrecon.reconstruct(pair, attack=bayesrecon.Difference())
