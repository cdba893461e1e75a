import numpy as np

from bayesrecon.estimation.noise import error_whitening


def test_weights_make_errors_alike():
    rng = np.random.default_rng(0)
    normal, bounded = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
    w = error_whitening(normal, bounded)
    assert np.allclose(w.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ w, np.eye(5))
    assert np.allclose(error_whitening(normal[:, :0], bounded[:, :0]), np.eye(5))
