"""Terms and densities of draws that were rounded afterwards, and what of them is scored."""

import hiding
import numpy as np
import pytest
import xarray as xr

from bayesrecon.auditing.audit import audit

DATA = {name: hiding.DATA[name] for name in ("age", "pressure")}


def with_terms(tmp_path, terms, posterior=lambda v: v):
    made = hiding.groups()
    made["posterior"] = made["posterior"].map(lambda v: v.copy(data=posterior(v.values)))
    made["log_likelihood"] = xr.Dataset({"pressure": ((*hiding.DRAW, "obs"), terms)})
    made["sample_stats"]["lp"] = (hiding.DRAW, hiding.DENSITY)
    return audit(hiding.write(made, tmp_path / "fit.nc"), hiding.model(), data=DATA, remedies=False)


@pytest.mark.slow
@pytest.mark.parametrize("digits", [5, None])
def test_draws_that_were_rounded_after_their_densities_were_computed(tmp_path, digits):
    def rounded(values):
        return values.astype(np.float32) if digits is None else np.vectorize(lambda x: float(f"{x:.{digits}g}"))(values)

    found = {f.kind: f for f in with_terms(tmp_path, hiding.TERMS, rounded)}
    terms, density = found["log-likelihood"], found["log-density"]
    assert (terms.severity, terms.score.matched, terms.score.total) == ("high", hiding.SIZE, hiding.SIZE)
    errors = np.abs(np.asarray(terms.records["age"]) - hiding.AGE) / np.asarray(terms.errors["age"])
    assert np.median(errors) < 5  # all share the rounding errors of the same draws
    (n,) = (item for item in density.evidence if item.name == "n")
    assert 0 < n.se < 0.01
    assert abs(n.estimate - hiding.SIZE) < 5 * n.se


@pytest.mark.slow
def test_records_that_do_not_fit_are_left_out_of_the_score(tmp_path):
    terms = hiding.TERMS.copy()
    terms[..., :9] += np.random.default_rng(0).normal(0, 0.1, terms[..., :9].shape)
    (finding,) = (f for f in with_terms(tmp_path, terms) if f.kind == "log-likelihood")
    assert "71 of 80 records" in finding.summary
    assert "9 did not fit and are left out" in finding.summary
    assert (finding.score.matched, finding.score.total) == (71, 71)
