import numpy as np
import pytest
import summaries
import variational
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_cmdstan, from_guide
from bayesrecon.posteriors.conversion import release_of

HEADER = {
    "variational": """# stan_version_major = 2
# stan_version_minor = 36
# model = regression_model
# method = variational
#   variational
#     algorithm = {algorithm}
#       {algorithm}
#     iter = 10000 (Default)
#     grad_samples = 1 (Default)
#     elbo_samples = 100 (Default)
#     eta = 1 (Default)
#     adapt
#       engaged = true (Default)
#       iter = 50 (Default)
#     tol_rel_obj = 0.01 (Default)
#     eval_elbo = 100 (Default)
#     output_samples = 1000 (Default)
lp__,log_p__,log_g__,beta.1,beta.2,variance
# Stepsize adaptation complete.
# eta = 0.1
""",
    "laplace": """# stan_version_major = 2
# method = laplace
#   laplace
#     mode = mode.json
#     jacobian = {jacobian} (Default)
#     draws = 1000 (Default)
log_p__,log_q__,beta.1,beta.2,variance
""",
}


def written(path, method, mean, covariance, draws, first=True, **settings):
    """A file as CmdStan writes it, of draws of the normal law in unconstrained coordinates."""
    theta = np.random.default_rng(0).multivariate_normal(mean, covariance, draws)
    extra = "0,-9.1,-0.4," if method == "variational" else "-9.1,-0.4,"
    rows = [extra + ",".join(f"{v:.8g}" for v in (*t[:2], np.exp(t[2]))) for t in theta]
    if method == "variational" and first:
        rows.insert(0, "0,0,0," + ",".join(f"{v:.8g}" for v in (*mean[:2], np.exp(mean[2]))))
    path.write_text(HEADER[method].format(**settings) + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def start():
    return summaries.mode(MODEL, DATA, summaries.start())


@pytest.mark.slow
def test_draws_of_the_variational_law(start, tmp_path):
    law = variational.optimum(MODEL, DATA, *start)
    path = written(tmp_path / "fit.csv", "variational", *law, 20_000, algorithm="fullrank")
    n = bayesrecon.recover(from_guide(MODEL, path, residual=1e-3))["n"]
    assert abs(n.estimate - 80) < 4 * n.se < 8
    assert n.verdict == "determined"


@pytest.mark.slow
def test_few_draws_do_not_show_that_the_ascent_ended(start, tmp_path):
    path = written(tmp_path / "fit.csv", "variational", *start, 1000, algorithm="fullrank")
    release = from_guide(MODEL, path)
    assert release.ascent.freedom == 0
    assert release.theta[0, :3] == pytest.approx(start[0], abs=1e-6)


def test_mean_field_has_its_own_equations(start, tmp_path):
    path = written(
        tmp_path / "fit.csv", "variational", start[0], np.diag(np.diag(start[1])), 500, algorithm="meanfield"
    )
    assert from_guide(MODEL, path).directions.shape == (9, 6)


@pytest.mark.slow
def test_draws_of_the_laplace_law(start, tmp_path):
    path = written(tmp_path / "fit.csv", "laplace", *start, 20_000, jacobian="true")
    found = bayesrecon.recover(from_guide(MODEL, path))
    assert not found.failures
    assert abs(found["n"].estimate - 80) < 4 * found["n"].se < 8


def test_they_are_no_draws_of_the_posterior(start, tmp_path):
    path = written(tmp_path / "fit.csv", "variational", *start, 500, algorithm="fullrank")
    with pytest.raises(BayesreconError, match=r"method 'variational', not 'sample'; posteriors\.from_guide reads it"):
        from_cmdstan(path, MODEL)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if line[0] != "#"))
    with pytest.raises(BayesreconError, match="draws of an approximation"):
        from_cmdstan(path, MODEL)
    with pytest.raises(BayesreconError, match="method 'sample', not 'variational'"):
        from_guide(MODEL, path)


@pytest.mark.slow
def test_verbs_take_the_file(start, tmp_path):
    path = written(tmp_path / "fit.csv", "laplace", *start, 5000, jacobian="1")
    found = bayesrecon.recover(path, model=MODEL)
    assert not found.failures
    assert abs(found["n"].estimate - 80) < 4 * found["n"].se < 16
    half = release_of(path, MODEL, power=0.5)
    assert bayesrecon.recover(half)["n"].estimate == pytest.approx(2 * found["n"].estimate)
    audited = bayesrecon.audit(path, MODEL, remedies=False)
    assert any(one.evidence for one in audited.findings)


def test_a_power_is_not_lost(start, tmp_path):
    path = written(tmp_path / "fit.csv", "laplace", *start, 100, jacobian="true")
    release = release_of(path, MODEL, power=0.25)
    assert release.about.power == 0.25
    with pytest.raises(BayesreconError, match="with its own power"):
        release_of(release, power=0.5)
    with pytest.raises(BayesreconError, match="pass one"):
        release_of(path)


def test_other_methods_are_named(tmp_path):
    path = tmp_path / "fit.csv"
    for method, remedy in {"optimize": "posteriors.dirac", "pathfinder": "draws are those of a mixture"}.items():
        path.write_text(f"# method = {method}\nlp__,variance\n-1,2\n")
        with pytest.raises(BayesreconError, match=remedy):
            release_of(path, MODEL)
    path.write_text("lp_approx__,lp__,variance\n-1,-1,2\n-1,-1,3\n")
    with pytest.raises(BayesreconError, match=r"draws of an approximation, not of the posterior$"):
        release_of(path, MODEL)


def test_what_is_no_law_of_this_model(start, tmp_path):
    path = tmp_path / "fit.csv"
    with pytest.raises(BayesreconError, match="no such file"):
        from_guide(MODEL, path)
    written(path, "variational", *start, 500, first=False, algorithm="fullrank")
    with pytest.raises(BayesreconError, match="first row is not the mean"):
        from_guide(MODEL, path)
    written(path, "variational", *start, 30, algorithm="fullrank")
    with pytest.raises(BayesreconError, match="too few"):
        from_guide(MODEL, path)
    with pytest.raises(BayesreconError, match="omit params and iterates"):
        from_guide(MODEL, path, {})
    written(path, "variational", start[0], np.diag([0.1, 0.1, 1.5]), 2000, algorithm="fullrank")
    with pytest.raises(BayesreconError, match="not normal in the coordinates"):
        from_guide(MODEL.in_constrained_coordinates, path)
