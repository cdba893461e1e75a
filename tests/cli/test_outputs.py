"""`bayesrecon outputs`: an input from its answer, and the audit of a model."""

import json

import numpy as np
import pytest
from command import document, one_line

PROGRAM = """
import numpy as np

W = np.random.default_rng(0).normal(size=(16, 3)) / 4


def predict(x):
    return np.tanh(np.asarray(x).reshape(len(x), -1) @ W)


def decode(z):
    return np.full((len(z), 16), 0.5)


number = 3
"""
X = np.random.default_rng(1).uniform(size=(400, 4, 4))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(PROGRAM)
    names = {}
    exec(PROGRAM, names)
    np.savez("images.npz", x=X[1:], y=np.arange(399))
    np.save("z.npy", names["predict"](X[:1])[0])
    return tmp_path


ASKED = ("outputs", "model.py:predict", "--public", "images.npz")


def test_an_input_with_errors_and_pictures(folder, run):
    found = document(run(*ASKED, "--outputs", "z.npy", "--image", "4x4", "--plot", "found.png", "--json"))
    assert (found["method"], len(found["fields"]), found["shape"]) == ("linear-decoding", 16, [4, 4])
    assert 0.85 < found["coverage"] <= 1
    assert (folder / "found.png").stat().st_size > 1000
    shown = run(*ASKED, "--outputs", "z.npy", "--out", "found.npz")
    assert shown.code == 0
    assert "x[1,1]" in shown.out
    assert "if the input comes from the distribution of the public records" in shown.out


@pytest.mark.slow
def test_an_audit_is_incomplete_without_a_decoder(folder, run):
    outcome = run(*ASKED, "--audit", "--html", "report.html", "--json")
    assert outcome.code == 3
    assert json.loads(outcome.out)["verdict"] == "incomplete"
    assert "trained decoder" in (folder / "report.html").read_text()
    # A decoder that does worse than the linear one tells nothing.
    outcome = run(*ASKED, "--audit", "--decoder", "model.py:decode")
    assert (outcome.code, "does worse" in outcome.out) == (3, True)
    assert run(*ASKED, "--audit", "--fail-on", "low").code == 1


REFUSED = {
    "neither": ((), "--outputs FILE.npy, or --audit"),
    "both": (("--audit", "--outputs", "z.npy"), "leave --outputs out"),
    "html": (("--outputs", "z.npy", "--html", "a.html"), "need --audit"),
    "attack": (("--outputs", "z.npy", "--attack", "magic"), "--attack magic: expected"),
    "decoder": (("--outputs", "z.npy", "--attack", "trained-decoding"), "--decoder FILE.py:decode goes with"),
    "image": (("--outputs", "z.npy", "--image", "5x5"), "have 16 values each"),
    "no file": (("--outputs", "none.npy"), "none.npy: no such file"),
    "no function": (("--audit", "--decoder", "model.py:number"), "this is a int, not a function"),
    "gradient": (("--outputs", "z.npy", "--attack", "posterior-sampling"), "cannot be differentiated by JAX"),
    "view": (("--outputs", "z.npy", "--view", "softmax"), "the answer is not a softmax"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line(name, folder, run):
    options, message = REFUSED[name]
    one_line(run(*ASKED, *options), message)


def test_arrays_are_data(folder, run):
    np.save("pickled.npy", np.array([{}], object), allow_pickle=True)
    one_line(run(*ASKED, "--outputs", "pickled.npy"), "pickled")
    whole = (folder / "z.npy").read_bytes()
    (folder / "short.npy").write_bytes(whole[:-8])
    one_line(run(*ASKED, "--outputs", "short.npy"), "shorter than its header says")
    (folder / "large.npy").write_bytes(whole.replace(b"(3,)", b"(3000000000000,)").replace(b"            \n", b"\n"))
    assert run(*ASKED, "--outputs", "large.npy").code == 2
    np.savez("two.npz", a=np.ones(3), b=np.ones(3))
    one_line(run(*ASKED, "--outputs", "two.npz"), "holds a, b; name one of them 'z'")
    np.savez("images.npz", x=X[1:] * 255)
    one_line(run(*ASKED, "--outputs", "z.npy", "--image", "4x4"), "divide by 255")
