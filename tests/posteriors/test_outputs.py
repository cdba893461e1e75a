"""Outputs of a model as a release: what is taken, and what is refused in one line."""

import numpy as np
import pytest
from asked import OUTPUTS, PRIVATE, PUBLIC, WIDTH, curved, linear, softmax

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import outputs

Z = linear(PRIVATE[0])
P = softmax(Z)


def test_every_view_is_read_as_the_public_answers_are():
    answers = linear(PUBLIC)
    given = {
        "logits": (Z, {}),
        "softmax": (P, {}),
        "rounded": (P.round(2), {"decimals": 2}),
        "argmax": (Z.argmax(), {}),
    }
    for view, (z, more) in given.items():
        release = outputs(linear, z, public=PUBLIC, view=view, **more)
        np.testing.assert_allclose(release.z, release.answer.seen(Z[None])[0], atol=1e-9)
        np.testing.assert_allclose(release.answers, release.answer.seen(answers), atol=1e-9)
    # Without noise a softmax tells the logits but for their mean.
    release = outputs(linear, P, public=PUBLIC, view="softmax")
    np.testing.assert_allclose(release.z, Z - Z.mean(), atol=1e-9)


def test_several_models_stack_and_repeated_answers_average():
    both = outputs([linear, curved], [Z, np.asarray(curved(PRIVATE[0]))], public=PUBLIC)
    assert both.z.shape == (2 * OUTPUTS,)
    assert both.answers.shape == (len(PUBLIC), 2 * OUTPUTS)
    repeated = Z + 0.3 * np.random.default_rng(1).normal(size=(9, OUTPUTS))
    release = outputs(linear, repeated, public=PUBLIC, noise=0.3)
    assert release.noise == pytest.approx(0.1)
    np.testing.assert_allclose(release.z, repeated.mean(axis=0))


def test_records_keep_their_shape():
    images = PUBLIC.reshape(-1, 3, 4)
    release = outputs(lambda x: linear(np.asarray(x).reshape(len(x), -1)), Z, public=images)
    assert release.answer.shape == (3, 4)
    assert release.public.shape == (len(PUBLIC), WIDTH)


def broken(x):
    raise TypeError("no such layer")


REFUSED = {
    "far outside": ({"z": Z + 1e3}, "times as far from their mean as that to any public record"),
    "width": ({"z": Z[:2]}, r"shape \(2,\) and the model 4 outputs"),
    "missing": ({"z": np.full(OUTPUTS, np.nan)}, "missing or infinite"),
    "no softmax": ({"z": Z, "view": "softmax"}, "the answer is not a softmax: .* set view="),
    "more decimals": ({"z": P, "view": "rounded", "decimals": 1}, "more than 1 decimals"),
    "no class": ({"z": 7, "view": "argmax"}, "a class, 0 to 3"),
    "no view": ({"view": "logit"}, "view='logit': expected logits"),
    "no decimals": ({"view": "rounded"}, "belongs to view='rounded'"),
    "noise before rounding": ({"view": "argmax", "z": 1, "noise": 0.1}, "noise= belongs to logits and softmax"),
    "noise": ({"noise": -1.0}, "noise=-1.0: expected"),
    "repeats": ({"z": np.stack([Z, Z])}, "repeated answers help only if noise was added"),
    "few": ({"public": PUBLIC[:30]}, r"shape \(30, 12\): expected .* at least 60"),
    "not finite": ({"public": np.where(PUBLIC > 2, np.nan, PUBLIC)}, "public records hold missing"),
    "outside": ({"public": abs(PUBLIC) * 80, "values": (0, 1)}, "outside 0 to 1: scale them"),
    "fails": ({"predict": broken}, "predict fails on records .* TypeError: no such layer"),
    "no table": ({"predict": lambda x: x[:, 0]}, "expected outputs"),
    "constant": ({"predict": lambda x: np.zeros((len(x), OUTPUTS))}, "gives the same answer to all public records"),
    "no function": ({"predict": 3}, "expected one or several functions from records"),
    "models": ({"predict": [linear, linear]}, "2 models and 4 answers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line(name):
    changes, message = REFUSED[name]
    given = {"predict": linear, "z": Z, "public": PUBLIC} | changes
    with pytest.raises(BayesreconError, match=message) as caught:
        outputs(given.pop("predict"), given.pop("z"), **given)
    assert "\n" not in str(caught.value)


def test_bytes_are_told_to_be_divided():
    with pytest.raises(BayesreconError, match="divide by 255"):
        outputs(linear, Z, public=abs(PUBLIC).clip(0, 3) * 80, values=(0, 1))
