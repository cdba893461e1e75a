"""Passes over draws by engines: the numbers are those of one process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from flags import known

import bayesrecon
from bayesrecon.divergence import gaussian, metric_view
from bayesrecon.divergence.dense import DenseEmbedding
from bayesrecon.divergence.gaussian import GaussianEmbedding
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.running.engine import block_entries, mapped, spread, swept, using

pytestmark = pytest.mark.small
PATIENCE = "xla_cpu_collective_call_terminate_timeout_seconds"


def release_of(draws, width=2):
    """Draws near a regression's posterior, of the user's own program."""
    import numpyro
    import numpyro.distributions as dist

    def program(x, y=None):
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand((width,)).to_event(1))
        sd = numpyro.sample("sd", dist.HalfNormal(5.0))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ beta, sd), obs=y)

    rng = np.random.default_rng(0)
    values = {"beta": rng.normal(1, 0.1, (2, draws // 2, width)), "sd": rng.gamma(400, 1 / 400, (2, draws // 2))}
    return from_draws(values, from_numpyro(program, {"x": (width,), "y": ()}))


@pytest.fixture(scope="module")
def release():
    return release_of(800)


@pytest.fixture
def small(monkeypatch):
    """Blocks so small that there are many of them."""
    monkeypatch.setattr(metric_view, "CHUNK", 2**14)
    monkeypatch.setattr(gaussian, "_BLOCK", 2**10)


def passes(release, embeddings=DenseEmbedding):
    """All sums of one embedding."""
    with x64():
        embedding = embeddings(release, metric_factor(release, None))
        reference = Reference(release.model.fields, centre={"x": np.zeros(2), "y": 0.0}, scale={"x": 1.0, "y": 1.0})
        rng = np.random.default_rng(0)
        _, basis, _ = find_basis(embedding, reference, rng)
        y = rng.normal(size=basis.size)
        moments = embedding.moments(basis, stretches=4)
        series, scores = embedding.influence(basis, y, np.eye(basis.size)[:, :3])
        return [
            moments.gram,
            moments.target,
            moments.value,
            *(one.gram for one in moments.stretches),
            embedding.cross(basis, reference.draw(rng, 50)),
            embedding.noise(basis, y),
            embedding.normal_noise(basis, simulated=True),
            series,
            scores,
        ]


def check(found, expected, tolerance=1e-12):
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max() <= tolerance * np.abs(other).max()


@pytest.mark.parametrize("embeddings", [pytest.param(DenseEmbedding, marks=pytest.mark.slow), GaussianEmbedding])
def test_threads_give_the_same_numbers(release, small, embeddings):
    alone = passes(release, embeddings)
    with ThreadPoolExecutor(3) as pool, using(pool):
        check(passes(release, embeddings), alone)


@pytest.mark.slow
def test_a_verb_gives_the_same_statistics(release, small):
    alone = bayesrecon.recover(release, force=True)
    with ThreadPoolExecutor(3) as pool, using(pool):
        found = bayesrecon.recover(release, force=True)
    assert [row.name for row in found.rows] == [row.name for row in alone.rows]
    for one, other in zip(found.rows, alone.rows, strict=True):
        assert one.verdict == other.verdict
        if other.estimate is not None:
            np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-9, atol=1e-9)


def doubled(model, shared, part):
    return 2 * part


def numbered(model, shared, part):
    time.sleep(0.02 * (part % 3))
    return part


def test_results_come_in_the_order_of_the_parts_a_few_at_a_time():
    asked = []

    class Counting(ThreadPoolExecutor):
        def submit(self, *arguments, **more):
            asked.append(1)
            return super().submit(*arguments, **more)

    with ThreadPoolExecutor(4) as pool, using(pool):
        assert list(mapped(numbered, None, None, range(20))) == list(range(20))
        some = mapped(doubled, None, None, range(1000))
        assert [next(some), next(some)] == [0, 2]
        some.close()
    with Counting(2) as pool, using(pool):
        assert sum(1 for _ in mapped(doubled, None, None, [1])) == 1
    assert not asked


def powers(base, exponent):
    return base**exponent, threading.get_ident()


def test_sweeps_go_to_the_workers_outside_their_scope():
    import jax.numpy as jnp

    here = threading.get_ident()
    assert list(swept(powers, 3, range(3))) == [(1, here), (3, here), (9, here)]
    with ThreadPoolExecutor(2) as pool, using(pool):
        found = list(swept(powers, 3, range(20)))
        kinds = list(swept(lambda _, item: str(jnp.ones(1).dtype), None, range(2)))
    assert [value for value, _ in found] == [3**k for k in range(20)]
    assert here not in {thread for _, thread in found}
    assert kinds == ["float32", "float32"]


def test_games_take_the_engine():
    from bayesrecon.games import Game, Law, LeastSquares, LinearLaw, OutputChange, play

    game = Game(Law("linear", LinearLaw(), size=40), LeastSquares(), OutputChange())
    alone = play(game, n=20, seed=3, workers=1)

    class Counting(ThreadPoolExecutor):
        asked = 0

        def submit(self, *arguments, **more):
            Counting.asked += 1
            return super().submit(*arguments, **more)

    with Counting(2) as pool, using(pool):
        found = play(game, n=20, seed=3)
    assert Counting.asked == 20
    assert [row.wins for row in found.rows] == [row.wins for row in alone.rows]


def test_verdicts_take_the_engine(monkeypatch):
    from bayesrecon.games.posteriordb import verdict

    def told(name, *, build, progress):
        if name == "bad":
            raise BayesreconError("no such posterior")
        progress("kernel", 0.5)
        return name.upper(), build, threading.get_ident()

    seen = []
    monkeypatch.setattr(verdict, "verdict", told)
    assert [name for name, _ in verdict.verdicts(["a", "b"], progress=lambda *one: seen.append(one))] == ["a", "b"]
    assert seen == [("a, kernel", 0.5), ("b, kernel", 0.5)]
    with ThreadPoolExecutor(2) as pool, using(pool):
        found = dict(verdict.verdicts(["a", "bad", "b"], build=False))
    assert list(found) == ["a", "bad", "b"]
    assert str(found["bad"]) == "no such posterior"
    assert found["b"][:2] == ("B", False)
    assert found["b"][2] != threading.get_ident()


def test_the_choice_ends_with_its_block():
    devices_apart = np.arange(3)
    with ThreadPoolExecutor(1) as pool, using(pool), using(None):
        assert list(mapped(doubled, None, None, [1, 2])) == [2, 4]
    assert spread(devices_apart) is devices_apart
    found = []
    with ThreadPoolExecutor(1) as pool, using(pool):
        other = threading.Thread(target=lambda: found.extend(mapped(doubled, None, None, [1, 2])))
        other.start()
        other.join()
    assert found == [2, 4]


@pytest.mark.parametrize("engine", [3, "threads", []])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(BayesreconError, match=r"not an engine.*bayesrecon\[distributed\]"), using(engine):
        pass


def test_the_extra_is_named(release, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        using(pool),
        pytest.raises(BayesreconError, match=r"pip install 'bayesrecon\[distributed\]'"),
    ):
        passes(release)


@pytest.mark.slow
@pytest.mark.parametrize("decays", [False, True])
def test_a_pass_stays_on_the_device(release, small, moved, decays):
    """Anchors and coefficients go there once, a block's atoms and weights when it is their turn, a part's metric and
    scalars with it; sums come back once. Nothing else moves: JAX refuses whatever is not asked for."""
    import jax

    rng = np.random.default_rng(0)
    size = 40 if decays else 6  # more than a part of the records where the spectrum decays
    records, probes = ({"x": rng.normal(size=(n, 2)), "y": rng.normal(size=n)} for n in (size, 9))
    basis, y = Basis(records, rng.normal(size=(size, size)), decays), rng.normal(size=size)
    with x64():
        embedding = DenseEmbedding(release, metric_factor(release, None))
        chunk = embedding._chunk(basis.padded.records)
        parts = embedding._parts(chunk, None, 2)
        blocks = sum(-(-len(part.weights) // part.chunk) for part in parts)
        alone = embedding.moments(basis, stretches=2), embedding.noise(basis, y), embedding.cross(basis, probes)
        with using(jax.local_devices()[:1]):
            moved.update(there=0, back=0)
            with jax.transfer_guard("disallow"):
                found = embedding.moments(basis, stretches=2)
            assert moved["back"] == 1
            assert moved["there"] == 1 + 2 * blocks + 3 * len(parts)
            with jax.transfer_guard("disallow"):
                others = []
                for one in (lambda: embedding.noise(basis, y), lambda: embedding.cross(basis, probes)):
                    moved.update(back=0)
                    others.append(one())
                    assert moved["back"] == 1
    check([found.gram, found.target, found.value], [alone[0].gram, alone[0].target, alone[0].value], 1e-11)
    check([one.gram for one in found.stretches], [one.gram for one in alone[0].stretches], 1e-11)
    check(others, alone[1:], 1e-11)


def test_a_guard_sees_what_is_not_asked_for():
    """Or the test before could not fail."""
    import jax
    import jax.numpy as jnp

    there = jax.device_put(np.ones(3))
    with pytest.raises(Exception, match=r"[Dd]isallowed"), jax.transfer_guard("disallow"):
        jnp.add(there, np.ones(3))


def test_blocks_fill_a_part_of_the_memory_of_a_device(monkeypatch):
    import jax

    assert block_entries(100) == 100

    class Device:
        def memory_stats(self):
            return {"bytes_limit": 2**34}

    with using(jax.local_devices()[:1]):
        assert block_entries(100) == 100  # one that does not say
        monkeypatch.setattr(jax, "local_devices", lambda: [Device()])
        assert block_entries(100) == 2**26


DEVICES = """
import sys; sys.path[:0] = {paths!r}
import jax, numpy as np
from test_engine import check, passes, release_of
from bayesrecon.divergence import metric_view
from bayesrecon.running.engine import spread, using
metric_view.CHUNK = 2**14
release = release_of(800)
alone = passes(release)
with using(jax.local_devices()):
    assert len(spread(np.zeros((16, 2))).sharding.device_set) == 8
    check(passes(release), alone, 1e-9)
"""


@pytest.mark.slow
def test_draws_over_eight_devices():
    told = "--xla_force_host_platform_device_count=8"
    if known(PATIENCE):  # eight devices on few cores that are busy wait for each other
        told += f" --{PATIENCE}=600"
    environment = os.environ | {"XLA_FLAGS": told, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    tests = Path(__file__).parent
    code = DEVICES.format(paths=[str(tests), str(tests / "support")])
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env=environment)


@pytest.mark.slow
def test_processes_give_the_same_numbers(release, small):
    alone, closed, base = passes(release), passes(release, GaussianEmbedding), 2
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, using(pool):
        check(passes(release), alone)
        check(passes(release, GaussianEmbedding), closed)
        assert list(swept(lambda shared, item: base**item + shared, 1, range(3))) == [2, 3, 5]


SLOW = 0.15  # seconds that a part of the killed worker's pass takes at least


def slowly(model, shared, part):
    """Says which process works, and gives time to end it."""
    with open(os.path.join(shared, str(os.getpid())), "a") as file:
        file.write(f"{part}\n")
    time.sleep(SLOW)
    return np.sin(part + np.arange(5.0))


def kill_at_work(said):
    """Ends the process of that file in the part that it begins next."""
    before = said.stat().st_size
    while said.stat().st_size == before:
        time.sleep(0.01)
    os.kill(int(said.name), signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_is_made_good(cluster, release, small, tmp_path):
    alone = passes(release)
    with using(cluster):
        check(passes(release), alone)

    seen = tmp_path / "seen"
    seen.mkdir()
    expected = [np.sin(part + np.arange(5.0)) for part in range(40)]
    with using(cluster):
        found = mapped(slowly, None, str(seen), range(40))
        first = [next(found) for _ in range(4)]
        victims = [int(name.name) for name in seen.iterdir()]
        assert len(victims) == 2
        killer = threading.Thread(target=kill_at_work, args=(seen / str(victims[0]),))
        killer.start()
        rest = list(found)
        killer.join()
    check([*first, *rest], expected, 0.0)
    assert (sum(len(one.read_text().split()) for one in seen.iterdir())) > 40  # parts were done again

    killed = []

    def tell(label, fraction):
        if label == "summing over the draws" and fraction > 0.2 and not killed:
            killed.append(next(iter(cluster.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with x64():
        embedding = DenseEmbedding(release, metric_factor(release, None), tell)
        reference = Reference(release.model.fields, centre={"x": np.zeros(2), "y": 0.0}, scale={"x": 1.0, "y": 1.0})
        _, basis, _ = find_basis(embedding, reference, np.random.default_rng(0))
        with using(cluster):
            found = embedding.moments(basis)
        assert killed
        expected = embedding.moments(basis)
    check([found.gram, found.target, found.value], [expected.gram, expected.target, expected.value])


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parent.parent / "docs/beyond_one_machine.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "beyond_one_machine.md", "exec"), found)
    assert found["table"]["n"].verdict == "determined"
