"""An audit of what answers give away: linear figures with their nulls, what remedies leave, and nothing cleared."""

import numpy as np
import pytest
from asked import OUTPUTS, PUBLIC, WEIGHTS, WIDTH, linear

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import linear_risk


def item(finding, start):
    (found,) = [i for i in finding.evidence if i.name.startswith(start)]
    return found


@pytest.fixture(scope="module")
def found():
    return bayesrecon.audit_outputs(linear, PUBLIC, cut=1e-10)


def test_without_a_trained_decoder_nothing_is_cleared(found):
    assert found.verdict == "incomplete"
    assert found.not_run[0].attack == "trained decoder"
    assert "Not cleared" in found.advice or found.severity == "high"
    assert "decoders that were not tried" in found.warnings[0]


def test_the_risk_of_a_linear_model_is_its_closed_form(found):
    risk, null = item(found.findings[0], "risk R"), item(found.findings[0], "R of any linear model")
    assert null.estimate == pytest.approx(linear_risk(WIDTH, OUTPUTS))
    assert abs(risk.estimate - null.estimate) < 4 * risk.se


def test_remedies_leave_less_and_as_predicted(found):
    left = {r.action: r for r in found.findings[0].remedies}
    for remedy in left.values():
        assert remedy.measured == pytest.approx(remedy.predicted, rel=0.12)
        assert remedy.measured > remedy.before * 0.97
    one = next(r for name, r in left.items() if name.startswith("the largest class alone (2.0 bits)"))
    softmax = next(r for name, r in left.items() if name.startswith("softmax, whose"))
    assert one.measured > softmax.measured > one.before
    noise = [r.measured for name, r in left.items() if name.startswith("normal noise")]
    assert noise == sorted(noise)


def test_a_decoder_is_tried_and_told():
    inverse = np.linalg.lstsq(linear(PUBLIC), PUBLIC)[0]
    found = bayesrecon.audit_outputs(linear, PUBLIC, decoder=lambda z: z @ inverse)
    assert found.verdict == "findings"
    assert {f.title for f in found} == {f"A {kind} decoder reconstructs the input" for kind in ("linear", "trained")}
    assert "decoders that were not tried may recover more" in found.warnings[0]


def test_a_poor_decoder_clears_nothing():
    found = bayesrecon.audit_outputs(linear, PUBLIC, decoder=lambda z: np.zeros((len(z), WIDTH)))
    assert found.verdict == "incomplete"
    assert "does worse than the best linear one" in found.not_run[0].reason


def test_what_is_packed_non_linearly_is_seen_by_its_decoder_alone():
    """One number holds two fields: a linear decoder sees a little of them, its own decoder everything."""
    x = np.random.default_rng(0).uniform(size=(600, 2))

    def packed(x):
        return np.floor(100 * x[:, :1]) * 10 + x[:, 1:]

    def unpacked(z):
        return np.concatenate([np.floor(z / 10) / 100, z % 10], axis=1)

    found = bayesrecon.audit_outputs(packed, x, decoder=unpacked)
    gain = {f.title: item(f, "visibility").estimate for f in found}
    assert gain["A trained decoder reconstructs the input"] > 0.99
    assert gain["A linear decoder reconstructs the input"] < 0.6
    assert found.severity == "high"


@pytest.mark.slow
def test_the_report_is_escaped(found, tmp_path):
    named = bayesrecon.audit_outputs(linear, PUBLIC[:300], name="<script>alert(1)</script>")
    page = named.save_report(tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "trained decoder" in page
    assert "risk R at cut" in page


REFUSED = {
    "few": ({"data": PUBLIC[:50]}, "m at least 200"),
    "outside": ({"values": (0, 1)}, "outside 0 to 1"),
    "cut": ({"cut": 2.0}, "cut=2.0"),
    "ragged": ({"data": [[1.0], [1.0, 2.0]]}, "one array of numbers"),
    "decoder": ({"decoder": lambda z: z}, "expected 12 finite numbers"),
    "outputs": ({"predict": lambda x: x @ np.ones((WIDTH, 700))}, "more than twice as many"),
    "model": ({"predict": lambda x: x @ np.ones(3)}, "predict fails on records"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line(name):
    changes, message = REFUSED[name]
    given = {"predict": linear, "data": PUBLIC} | changes
    with pytest.raises(BayesreconError, match=message) as caught:
        bayesrecon.audit_outputs(given.pop("predict"), given.pop("data"), **given)
    assert "\n" not in str(caught.value)
    assert WEIGHTS.shape == (WIDTH, OUTPUTS)
