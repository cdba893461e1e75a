import conjugate
import numpy as np
import pytest
import summaries
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_log_density, gaussian


def without(rows):
    return {k: np.delete(v, rows, axis=0) for k, v in DATA.items()}


def laplace(data, digits=None):
    mode = summaries.mode(MODEL, data, summaries.start())
    if digits is not None:
        mode = summaries.cut(*mode, digits)
    return gaussian(MODEL, *mode, jacobian=True, digits=digits)


def deleted(found):
    return {row.name: row for row in found.deleted}


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[7], [7, 30]])
@pytest.mark.parametrize("digits", [None, 5, 4])
def test_modes_tell_which_records_were_deleted(rows, digits):
    pair = bayesrecon.deletion(laplace(DATA, digits), laplace(without(rows), digits))
    found = bayesrecon.infer_deletion(pair, DATA)
    assert found.method == "totals"
    assert set(found.ranking[: len(rows)]) == set(rows)
    assert found.probability.sum() == pytest.approx(len(rows))
    assert found.probability[rows].min() > 0.99
    truth = {"n": len(rows), "sum(x[1])": DATA["x"][rows].sum(), "sum(y)": DATA["y"][rows].sum()}
    for name, true in truth.items():
        row = deleted(found)[name]
        assert row.lower <= true <= row.upper
        assert row.upper - row.lower < (1e-5 if digits is None else 10_000 * 10.0**-digits)


@pytest.mark.slow
def test_candidates_without_the_deleted_record_have_no_probability():
    pair = bayesrecon.deletion(laplace(DATA), laplace(without([7])))
    found = bayesrecon.infer_deletion(pair, without([7]))
    assert any("no candidate explains the change" in w for w in found.warnings)
    assert np.ptp(found.probability) == 0
    assert deleted(found)["sum(y)"].estimate == pytest.approx(DATA["y"][7])


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_summaries_of_draws():
    rng, right, z = np.random.default_rng(1), 0, []
    for k in (7, 40):
        releases = []
        for data in (DATA, without([k])):
            draws = conjugate.sample_regression(data["x"], data["y"], 200_000, rng)
            theta = np.column_stack([draws["beta"][0], np.log(draws["variance"][0])])
            releases.append(gaussian(MODEL, theta.mean(axis=0), np.cov(theta.T), draws=200_000))
        found = bayesrecon.infer_deletion(bayesrecon.deletion(*releases), DATA)
        right += k in found.ranking[:3]
        n = deleted(found)["n"]
        z.append((n.estimate - 1) / n.se)
    assert right == 2
    assert np.abs(z).max() < 3.5


@pytest.mark.slow
def test_densities():
    rng, releases = np.random.default_rng(1), []
    for data in (DATA, without([5])):
        draws = conjugate.sample_regression(data["x"], data["y"], 100, rng)
        theta = np.column_stack([draws["beta"][0], np.log(draws["variance"][0])])

        def log_q(points, data=data):
            beta, variance = points[:, :2], np.exp(points[:, 2])
            residual = data["y"] - beta[:, :1] - beta[:, 1:] * data["x"][:, 0]
            log_lik = -0.5 * (len(data["y"]) * points[:, 2] + (residual**2).sum(axis=1) / variance)
            prior = -(beta**2).sum(axis=1) / (2 * conjugate.PRIOR_SCALE**2 * variance) - points[:, 2]
            return log_lik + prior - (conjugate.SHAPE + 1) * points[:, 2] - conjugate.RATE / variance + points[:, 2]

        releases.append(from_log_density(MODEL, log_q, theta))
    found = bayesrecon.infer_deletion(bayesrecon.deletion(*releases), DATA)
    assert found.ranking[0] == 5
    assert deleted(found)["n"].estimate == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_what_cannot_be():
    before, after = laplace(DATA), laplace(without([7]))
    pair, reverse = bayesrecon.deletion(before, after), bayesrecon.deletion(after, before)
    with pytest.raises(BayesreconError, match="none was deleted"):
        bayesrecon.infer_deletion(reverse, DATA)
    with pytest.raises(BayesreconError, match="public=, total= and premise= are not used"):
        bayesrecon.infer_deletion(pair, DATA, public=DATA)
    many = bayesrecon.deletion(before, laplace(without(list(range(10)))))
    with pytest.raises(BayesreconError, match="give fewer candidates"):
        bayesrecon.infer_deletion(many, DATA)
    wrong = gaussian(MODEL, np.asarray(after.theta)[0, :3] + 0.3, np.eye(3) * 0.01, jacobian=True, digits=5)
    with pytest.raises(BayesreconError, match=r"after .*no data have these numbers"):
        bayesrecon.infer_deletion(bayesrecon.deletion(before, wrong), DATA)


@pytest.mark.slow
def test_a_saved_result_loads_with_the_same_totals(tmp_path):
    found = bayesrecon.infer_deletion(bayesrecon.deletion(laplace(DATA), laplace(without([7]))), DATA)
    assert bayesrecon.load_result(found.save(tmp_path / "found.npz")).deleted == found.deleted
    assert found.to_dict()["deleted"][0]["name"] == "n"
