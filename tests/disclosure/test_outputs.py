"""How many numbers about its input the outputs of a model determine."""

import numpy as np
import pytest
from asked import PRIVATE, PUBLIC, WEIGHTS, linear, softmax

import bayesrecon
from bayesrecon.attacks.outputs.decoding import linear_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import outputs

Z = linear(PRIVATE[0])


def test_numbers_and_bits_by_view():
    found = bayesrecon.diagnose(outputs(linear, Z, public=PUBLIC))
    assert (found.numbers, found.resolved, found.bits) == (4, 4, None)
    # Softmax takes the mean of the logits away.
    assert bayesrecon.diagnose(outputs(linear, softmax(Z), public=PUBLIC, view="softmax")).numbers == 3
    rounded = bayesrecon.diagnose(outputs(linear, softmax(Z).round(1), public=PUBLIC, view="rounded", decimals=1))
    assert rounded.bits == pytest.approx(np.log2(286))  # C(13, 3)
    assert bayesrecon.diagnose(outputs(linear, Z.argmax(), public=PUBLIC, view="argmax")).bits == 2
    assert "no limit in bits" in found.headline


def test_visibilities_are_the_decoders():
    found = bayesrecon.diagnose(outputs(linear, Z, public=PUBLIC, noise=0.5))
    exact = linear_decoder(PUBLIC.mean(axis=0), np.cov(PUBLIC, rowvar=False), WEIGHTS, noise=0.5)
    np.testing.assert_allclose([f.visibility for f in found.features], exact.visibility, atol=0.02)
    values = np.linalg.eigvalsh(np.cov(linear(PUBLIC), rowvar=False))
    assert found.bits == pytest.approx(np.log2(1 + values / 0.25).sum() / 2, rel=1e-2)


def test_it_comes_back_from_its_file(tmp_path):
    found = bayesrecon.diagnose(outputs(linear, Z, public=PUBLIC))
    back = bayesrecon.load_result(found.save(tmp_path / "found.npz"))
    assert (back.to_dict(), repr(back)) == (found.to_dict(), repr(found))


def test_options_that_do_not_apply_are_refused():
    with pytest.raises(BayesreconError, match="total= does not apply to outputs"):
        bayesrecon.diagnose(outputs(linear, Z, public=PUBLIC), total=3)
