"""Mixed models of statsmodels: a record is a group."""

import numpy as np
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_statsmodels
from bayesrecon.posteriors.fits.mixed import mixed, uneven
from bayesrecon.precision import x64

GROUPS, SIZE = 40, 6
RNG = np.random.default_rng(0)
X = 2 + RNG.normal(size=(GROUPS, SIZE)) + RNG.normal(size=(GROUPS, 1))
Y = 1 + 0.5 * X + 0.8 * RNG.normal(size=(GROUPS, 1)) + RNG.normal(size=(GROUPS, SIZE))


def fit(rows=slice(None), reml=False, slopes=False, y=Y):
    lm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    x, groups = X.ravel()[rows], np.repeat(np.arange(GROUPS), SIZE)[rows]
    design = lm.add_constant(x)
    model = lm.MixedLM(y.ravel()[rows], design, groups=groups, exog_re=design if slopes else None)
    return model.fit(reml=reml)


def test_the_law_of_a_group_is_the_normal_one():
    """Written out with its covariance, which the means and scatter stand for."""
    from scipy.stats import multivariate_normal

    params = {"coefficient": np.array([1.0, 0.5]), "ratio": 0.7, "sigma": 1.3}
    x, y = X[0] - X[0].mean(), Y[0] - Y[0].mean()
    record = {"x": X[0].mean(), "y": Y[0].mean(), "within": np.array([x @ x, x @ y, y @ y])}
    covariance = 1.3**2 * (np.eye(SIZE) + 0.7)
    whole = multivariate_normal(1 + 0.5 * X[0], covariance).logpdf(Y[0])
    found = float(mixed(["x"], "y", True, SIZE).log_lik_at(params, record))
    assert found - 0.5 * SIZE * np.log(2 * np.pi) == pytest.approx(whole, rel=1e-5)  # in single precision


@pytest.mark.slow
def test_the_number_of_groups_and_their_means():
    found = bayesrecon.recover(from_statsmodels(fit()))
    assert not found.failures
    truth = {"n": GROUPS, "mean(x1)": X.mean(), "mean(y)": Y.mean()}
    for name, true in truth.items():
        row = found[name]
        assert row.verdict == "determined"
        assert row.lower <= true <= row.upper
        assert row.estimate == pytest.approx(true, rel=1e-3)
    # the design's variance within groups and that between them enter as one total
    assert found["var(x1)"].verdict == "undetermined"


@pytest.fixture(scope="module")
def several():
    """Groups of two to six rows: what is fitted, and the totals that a fit sees of a group."""
    sizes = 2 + np.arange(GROUPS) % (SIZE - 1)
    rows = np.concatenate([SIZE * i + np.arange(m) for i, m in enumerate(sizes)])
    result = fit(rows)
    ratio = float(np.asarray(result.cov_re)[0, 0] / result.scale)
    weights = sizes / (1 + sizes * ratio)
    groups = [np.array([X[i, :m], Y[i, :m]]) for i, m in enumerate(sizes)]
    means = np.array([g.mean(axis=1) for g in groups])
    scatter = np.array([(g - g.mean(axis=1, keepdims=True)) @ (g - g.mean(axis=1, keepdims=True)).T for g in groups])
    products = scatter + weights[:, None, None] * means[:, :, None] * means[:, None]
    fields = {
        "weight": weights,
        "x1": weights * means[:, 0],
        "y": weights * means[:, 1],
        "products": products[:, [0, 1, 1], [0, 0, 1]],
    }
    return result, ratio, sizes, fields


@pytest.mark.slow
def test_weighted_means_and_scatter_stand_for_a_group_of_any_size(several):
    result, ratio, sizes, fields = several
    params = {"coefficient": np.array([1.0, 0.5]), "ratio": 0.7, "sigma": 1.3}
    model = uneven(["x1"], "y", True, sizes, ratio)
    for i in (0, 1, 4):
        m, x, y = sizes[i], X[i, : sizes[i]], Y[i, : sizes[i]]
        within = np.array([np.var(x), np.cov(x, y, bias=True)[0, 1], np.var(y)]) * m
        with x64():
            plain = mixed(["x1"], "y", True, m).log_lik_at(params, {"x1": x.mean(), "y": y.mean(), "within": within})
            found = model.log_lik_at(params, {k: v[i] for k, v in fields.items()})
        assert float(found) == pytest.approx(float(plain), rel=1e-12)
    assert float(np.sum(model.identities["rows"][0](fields))) == pytest.approx(len(result.model.endog))


@pytest.mark.slow
def test_groups_of_several_sizes_are_summed_up(several):
    result, _, _, fields = several
    found = bayesrecon.recover(from_statsmodels(result))
    assert not found.failures
    assert found["n"].estimate == pytest.approx(GROUPS)
    truth = {f"mean({k})": v.mean() for k, v in fields.items() if k != "products"}
    truth |= {f"mean(products[{k + 1}])": v for k, v in enumerate(fields["products"].mean(axis=0))}
    for name, true in truth.items():
        row = found[name]
        assert row.verdict == "determined"
        assert row.lower <= true <= row.upper
        assert row.estimate == pytest.approx(true, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_groups_of_one_row():
    with pytest.raises(BayesreconError, match="groups of 1 row"):
        from_statsmodels(fit(np.arange(GROUPS) * SIZE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reml": True}, "fit with reml=False"),
        ({"y": 1 + 0.5 * X + np.tile([1.0, -1.0], (GROUPS, SIZE // 2))}, "has not converged"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_unsuitable_mixed_models_are_refused_in_a_line(change, message):
    with pytest.raises(BayesreconError, match=message) as caught:
        from_statsmodels(fit(**change))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [np.full(GROUPS, SIZE), 2 + np.arange(GROUPS) % (SIZE - 1)])
def test_random_slopes_leave_generalised_sums(sizes):
    rows = np.concatenate([SIZE * i + np.arange(m) for i, m in enumerate(sizes)])
    result = fit(rows, slopes=True)
    law = np.asarray(result.cov_re) / result.scale
    sums = np.zeros((3, 3))
    for i, m in enumerate(sizes):
        all_ = np.column_stack([np.ones(m), X[i, :m], Y[i, :m]])
        sums += all_.T @ np.linalg.solve(np.eye(m) + all_[:, :2] @ law @ all_[:, :2].T, all_)
    found = bayesrecon.recover(from_statsmodels(result))
    assert not found.failures
    for k, true in enumerate(sums[np.tril_indices(3)] / GROUPS):
        row = found[f"mean(products[{k + 1}])"]
        assert row.verdict == "determined"
        assert row.estimate == pytest.approx(true, rel=1e-6)
    assert ("mean(rows)" in found.to_dataframe().index) == (len(set(sizes)) > 1)


def test_names_and_sizes():
    with pytest.raises(BayesreconError, match="covariates must be distinct"):
        mixed(["y"], "y", True, 3)
    with pytest.raises(BayesreconError, match="groups of 1 row"):
        mixed(["x"], "y", True, 1)
    with pytest.raises(BayesreconError, match="must not be 'weight'"):
        uneven(["weight"], "y", True, [2, 3], 0.5)
