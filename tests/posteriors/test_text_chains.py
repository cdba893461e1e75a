"""Chains as plain text, as getdist, cobaya, JAGS and R write them."""

import hiding
import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.formats import read_contents, read_draws

pytestmark = pytest.mark.small

RNG = np.random.default_rng(11)
CHAINS = RNG.normal(size=(2, 40, 2))


def test_getdist(tmp_path):
    """Written by getdist itself."""
    getdist = pytest.importorskip("getdist")
    weights, density = RNG.integers(1, 9, 40).astype(float), RNG.gamma(3, size=40)
    made = getdist.MCSamples(samples=CHAINS[0], weights=weights, loglikes=density, names=["a", "b"], ranges={})
    made.saveAsText(str(tmp_path / "root"))
    draws = read_draws(tmp_path / "root.txt")
    np.testing.assert_allclose(draws.values["a"][0], CHAINS[0, :, 0], rtol=1e-6)
    np.testing.assert_array_equal(draws.values["weight"][0], weights)
    np.testing.assert_allclose(draws.values["minuslogpost"][0], density, rtol=1e-6)
    assert {file.path.rpartition(".")[2] for file in read_contents(tmp_path / "root.txt").files} == {
        "txt",
        "paramnames",
    }


def test_cobaya(tmp_path):
    """Chains of a run have their own lengths."""
    for c, length in enumerate((40, 30)):
        rows = [f"  {k + 1}  {2.5 + k}  {a!r}  {b!r}" for k, (a, b) in enumerate(CHAINS[c, :length].tolist())]
        (tmp_path / f"run.{c + 1}.txt").write_text("\n".join(["# weight  minuslogpost  a  b", *rows, ""]))
    paths = [tmp_path / "run.1.txt", tmp_path / "run.2.txt"]
    draws = read_draws(paths)
    assert draws.name == "run"
    np.testing.assert_array_equal(draws.values["b"][0], np.concatenate([CHAINS[0, :, 1], CHAINS[1, :30, 1]]))
    assert "concatenated" in read_contents(paths).notes[0]


FIRST_LINES = {
    "beast.log": "# BEAST v1.10.4\nstate\tposterior\tprior\tlikelihood\ta\n",
    "revbayes.log": "Iteration\tPosterior\tLikelihood\tPrior\ta\n",
    "mrbayes.run1.p": "[ID: 9409050143]\nGen\tLnL\tLnPr\tTL\ta\n",
}


@pytest.mark.parametrize("name", FIRST_LINES)
def test_programs_for_phylogenies(name, tmp_path):
    rows = (f"{100 * k}\t-7.5\t-2.5\t-5.0\t{a!r}\n" for k, a in enumerate(CHAINS[0, :, 0].tolist()))
    (tmp_path / name).write_text(FIRST_LINES[name] + "".join(rows))
    np.testing.assert_array_equal(read_draws(tmp_path / name).values["a"][0], CHAINS[0, :, 0])


def coda(folder):
    for c, chain in enumerate(CHAINS):
        cells = [(k + 1, value) for column in chain.T for k, value in enumerate(column.tolist())]
        (folder / f"CODAchain{c + 1}.txt").write_text("".join(f"{k} {value!r}\n" for k, value in cells))
    (folder / "CODAindex.txt").write_text("beta[1] 1 40\nbeta[2] 41 80\n")
    return [folder / "CODAchain1.txt", folder / "CODAchain2.txt"]


def test_coda(tmp_path):
    paths = coda(tmp_path)
    np.testing.assert_array_equal(read_draws(paths).values["beta"], CHAINS)
    (tmp_path / "CODAindex.txt").write_text("beta[1] 1 40\nbeta[2] 41 90\n")
    refused("equally many rows", read_draws, paths)
    (tmp_path / "CODAindex.txt").write_text("beta[1] 1 41\nbeta[2] 42 82\n")
    refused("80 rows, but CODAindex.txt declares 82", read_draws, paths)
    (tmp_path / "CODAindex.txt").write_text("beta[1] one 40\n")
    refused("each line of CODA's index", read_draws, paths)
    (tmp_path / "CODAindex.txt").unlink()
    refused("no names. getdist stores them", read_draws, paths)


def test_a_table_of_r(tmp_path):
    """`write.table(as.matrix(mcmc))`: names of rows stand under no name."""
    path = tmp_path / "draws.txt"
    rows = [f'"{k + 1}" {a!r} {b!r}' for k, (a, b) in enumerate(CHAINS[0].tolist())]
    path.write_text("\n".join(['"b_x" "r_g[ann,Intercept]"', *rows, ""]))
    np.testing.assert_array_equal(read_draws(path).values["r_g[ann,Intercept]"][0], CHAINS[0, :, 1])
    found = read_contents(path)
    assert not found.entries
    assert found.coordinates["posterior/r_g"].tolist() == ["ann"]
    path.write_text("\n".join(['"b_x" "r_g[ann,Intercept]"', *(row.replace('"1"', '"Ann"', 1) for row in rows), ""]))
    assert read_contents(path).variables[-1].values[0] == "Ann"


def test_comments_are_looked_at(tmp_path):
    path = tmp_path / "run.txt"
    rows = "\n".join(f"1 {k}.5 {a!r} {b!r}" for k, (a, b) in enumerate(CHAINS[0].tolist()))
    path.write_text(f"# weight minuslogpost a b\n# y: 41, 63, 17, 28\n{rows}\n")
    assert any("comments" in finding.where for finding in audit(str(path)).findings)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no rows of numbers"),
        ("# a b\n", "no rows of numbers"),
        ("1 2\n3 4\n", "no names"),
        ("a b\n1 2\n3\n", "not columns of numbers"),
        ("a b\n1 x\n", "not columns of numbers"),
        ("a b c\n1 2\n", "2 columns under 3 names"),
        ("a a\n1 2\n", "appears 2 times"),
        ('"a\n1 2\n', "cannot be read|No closing quotation"),
    ],
)
def test_bad_text_chains_are_refused(tmp_path, text, match):
    (tmp_path / "a.txt").write_text(text)
    refused(match, read_draws, tmp_path / "a.txt")


@pytest.mark.slow
def test_a_chain_of_getdist_with_its_model(tmp_path):
    """Weights and names are what they are, and minus a log density is one, not of minus so many records."""
    draws = np.column_stack([hiding.DRAWS["coef"].reshape(-1, 2), hiding.DRAWS["sigma"].ravel()])
    weights = np.random.default_rng(0).integers(1, 4, len(draws))
    np.savetxt(tmp_path / "fit_1.txt", np.column_stack([weights, -hiding.DENSITY.ravel(), draws]), "%.9e")
    (tmp_path / "fit.paramnames").write_text("coef[1]\t\\beta_0\ncoef[2]\t\\beta_1\nsigma\t\\sigma\n")
    found = audit(str(tmp_path / "fit_1.txt"), hiding.model(), remedies=False)
    assert found.unrecognised == ()
    (n,) = (item for f in found if f.kind == "log-density" for item in f.evidence if item.name == "n")
    assert abs(n.estimate - hiding.SIZE) < 1e-4
    (tmp_path / "fit.paramnames").write_text("coef[1]\tP4711, 41.5 years\ncoef[2]\ta\nsigma\tb\n")
    assert "fit.paramnames" in audit(str(tmp_path / "fit_1.txt"), remedies=False).unrecognised
