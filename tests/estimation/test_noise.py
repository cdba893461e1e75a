import numpy as np

from bayesrecon.estimation.noise import weighing


def test_weights_make_errors_alike():
    rng = np.random.default_rng(0)
    normal, bounded, free = rng.normal(size=(5, 4)), rng.normal(size=(5, 3)), rng.normal(size=(5, 1))
    w = weighing(normal, bounded, free)
    assert w.shape == (5, 4)
    assert np.allclose(w.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ w, np.eye(4))
    assert np.allclose(w.T @ free, 0)
