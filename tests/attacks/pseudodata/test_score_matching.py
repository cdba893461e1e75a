"""The published descent: its start, its checkpoints, and what ends it."""

import numpy as np
import pytest

import bayesrecon
from bayesrecon import ScoreMatching, WeightedRecords
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.regularisers import Box


@pytest.mark.slow
def test_published_recipe_starts_as_published(database):
    release = from_posteriordb("kidiq-kidscore_momiq", draws=200)
    found = bayesrecon.reconstruct(release, attack=ScoreMatching(n=50, steps=100))
    assert (found.metric, found.coordinates, found.objective) == ("identity", "constrained", "sliced")
    first = dict(zip(found.columns, found.trace[0], strict=True))
    assert first["n"] == 50
    assert abs(first["mean(mom_iq)"]) < 0.6
    assert 20 < first["mean(kid_score)"] < 32  # the fitted line at zero, 26
    assert found.trace[-1][3] < found.trace[0][3]
    assert found.stopped == "all steps taken"


@pytest.mark.slow
def test_a_descent_can_be_resumed(small, tmp_path):
    _, release = small
    path = tmp_path / "run.npz"
    whole = bayesrecon.reconstruct(release, attack=ScoreMatching(n=10, steps=200, rate=0.01))
    bayesrecon.reconstruct(release, attack=ScoreMatching(n=10, steps=100, rate=0.01, checkpoint=path))
    resumed = bayesrecon.reconstruct(release, attack=ScoreMatching(n=10, steps=200, rate=0.01, checkpoint=path))
    np.testing.assert_allclose(resumed.pseudo.weights, whole.pseudo.weights, rtol=1e-10)
    assert [row[0] for row in resumed.trace] == [row[0] for row in whole.trace]
    with pytest.raises(bayesrecon.BayesreconError, match="another reconstruction"):
        bayesrecon.reconstruct(release, attack=ScoreMatching(n=11, steps=200, rate=0.01, checkpoint=path))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(bayesrecon.BayesreconError, match="not a checkpoint"):
        bayesrecon.reconstruct(release, attack=ScoreMatching(n=10, steps=200, rate=0.01, checkpoint=path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [WeightedRecords(n=10, steps=1000), ScoreMatching(n=10, steps=1000)],
)
def test_an_interrupted_descent_keeps_its_best(small, attack):
    _, release = small
    calls = []

    def interrupt(label, fraction):
        if label == "fitting the records":
            calls.append(fraction)
            if len(calls) == 3:
                raise KeyboardInterrupt

    found = bayesrecon.reconstruct(release, attack=attack, progress=interrupt)
    assert found.stopped == "interrupted"
    assert found.gap == pytest.approx(min(row[3] for row in found.trace), rel=1e-6)


@pytest.mark.slow
def test_a_checkpoint_belongs_to_what_was_stated(small, tmp_path):
    _, release = small
    path = tmp_path / "run.npz"
    attack = WeightedRecords(n=10, steps=100, checkpoint=path)
    bayesrecon.reconstruct(release, attack=attack, progress=lambda *_: None)
    assert path.exists()
    with pytest.raises(bayesrecon.BayesreconError, match="different total"):
        bayesrecon.reconstruct(release, attack=attack, total=60)
    with pytest.raises(bayesrecon.BayesreconError, match="cannot be set together"):
        bayesrecon.reconstruct(release, n=10, known={"x": np.ones((3, 1))})


@pytest.mark.slow
def test_a_regulariser_moves_the_recipe(small):
    """A box that the response leaves; a penalty of zero changes nothing."""
    _, release = small
    plain, zero, boxed = (
        bayesrecon.reconstruct(release, attack=ScoreMatching(n=10, steps=200, rate=0.01, regulariser=penalty))
        for penalty in (None, Box(0.0, 1.0, 0.0, field="y"), Box(-0.5, 0.5, 1e4, field="y"))
    )
    np.testing.assert_allclose(zero.pseudo.records["y"], plain.pseudo.records["y"])
    assert np.abs(plain.pseudo.records["y"]).max() > 1
    assert np.abs(boxed.pseudo.records["y"]).max() < 0.6 * np.abs(plain.pseudo.records["y"]).max()
    assert boxed.objective_value > plain.objective_value
