"""Results of bilby, written by bilby."""

import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.formats import read_contents, read_draws

pytestmark = pytest.mark.slow

AGES = [41.0, 17.0, 63.0, 28.0, 35.0, 52.0, 71.0, 44.0]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    bilby = pytest.importorskip("bilby", reason="bilby is not installed, which brings much with it")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "log_likelihood"])
    priors = bilby.core.prior.PriorDict({key: bilby.core.prior.Uniform(-9, 9, key) for key in "ab"})
    meta = {"likelihood": f"GaussianLikelihood(y={AGES})", "ages": np.array(AGES)}
    made = bilby.core.result.Result(
        label="fit", outdir=str(tmp_path_factory.mktemp("bilby")), posterior=table, search_parameter_keys=["a", "b"],
        sampler_kwargs={"nlive": 30}, meta_data=meta, priors=priors, samples=table[["a", "b"]].to_numpy(),
    )  # fmt: skip
    for suffix in ("json", "hdf5"):
        made.save_to_file(overwrite=True, extension=suffix, filename=f"{made.outdir}/fit.{suffix}")
    return made


@pytest.mark.parametrize("suffix", ["json", "hdf5", ""])
def test_results_of_bilby_are_read_in_every_format(result, suffix):
    source = f"{result.outdir}/fit.{suffix}" if suffix else result
    draws = read_draws(source)
    assert list(draws.values) == ["a", "b", "log_likelihood"]
    for name in draws.values:
        np.testing.assert_array_equal(draws.values[name][0], result.posterior[name])
    held = {entry.where: entry.values for entry in read_contents(source).entries}
    np.testing.assert_array_equal(held["meta_data/ages"], AGES)
    found = audit(source)
    assert any("meta_data/ages" in finding.where for finding in found.findings)
    assert any("meta_data/likelihood" in str(finding.where) for finding in found.findings)


def test_a_result_without_draws(result, tmp_path):
    (tmp_path / "empty.json").write_text('{"posterior": null, "sampler_kwargs": {"nlive": 30}}')
    refused("its posterior is not a table|has no posterior draws", read_draws, tmp_path / "empty.json")
