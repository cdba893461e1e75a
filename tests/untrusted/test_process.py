"""Files that hang, crash or explode are one error; the next file is read all the same."""

import os
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from functools import partial

import h5py
import numpy as np
import pytest
from written import hdf5_fit, refused

from bayesrecon import load_result
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.formats.npz import read_array
from bayesrecon.posteriors.printed.summaries import read_frame
from bayesrecon.posteriors.tables import read_table
from bayesrecon.untrusted import __main__ as worker
from bayesrecon.untrusted import guarded
from bayesrecon.untrusted.guarded import PROCESS, Guarded, Limits, opened, pack, unpack
from bayesrecon.untrusted.hdf5 import HDF5File

pytestmark = pytest.mark.small

posix = pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
MU = np.random.default_rng(0).normal(size=(2, 30))
fit = partial(hdf5_fit, mu=MU)


def test_one_process_reads_all_files(tmp_path):
    path = fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(read_draws(path).values["mu"], MU)
    first = PROCESS._running
    began = time.perf_counter()
    np.testing.assert_array_equal(read_draws(fit(tmp_path / "other.nc")).values["mu"], MU)
    assert time.perf_counter() - began < 0.5
    assert PROCESS._running is first
    path.unlink()  # closed
    np.testing.assert_array_equal(read_draws(tmp_path / "other.nc", trusted=True).values["mu"], MU)


def test_the_process_loads_little():
    """So that it starts at once: neither JAX nor pandas."""
    code = "import bayesrecon.untrusted.__main__, sys; print(sorted({'jax', 'pandas', 'xarray'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.slow
@posix
def test_long_computing_is_ended(tmp_path, monkeypatch):
    """Inside of a C library, where no thread of the interpreter would end it; the message blames nobody."""
    path = tmp_path / "fit.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("observed_data/names", (2**25,), h5py.string_dtype(), chunks=(2**20,))
    monkeypatch.setattr(guarded, "SECONDS", 0.2)
    monkeypatch.setattr(guarded, "MEMORY", 2**32)
    with opened(HDF5File, path) as file:
        before = PROCESS._running
        with pytest.raises(BayesreconError, match=r"fit.nc: takes more than 0 s of computing to read, .*anew") as found:
            file.read("observed_data/names", [slice(None)])
        assert "trust" not in str(found.value)
        assert "damaged" not in str(found.value)
        assert before.poll() is not None
        assert not list(tmp_path.glob("core*"))
    with opened(HDF5File, path) as file:
        assert file.describe()["groups"] == ["observed_data"]
    assert PROCESS._running is not before


@pytest.mark.slow
@posix
def test_waiting_is_not_computing(tmp_path, monkeypatch):
    """A process that a busy machine does not let run for longer than its limit answers all the same."""
    import signal

    path = fit(tmp_path / "fit.nc")
    monkeypatch.setattr(guarded, "SECONDS", 1.0)
    monkeypatch.setattr(guarded, "BYTES_A_SECOND", 2**40)
    with opened(HDF5File, path) as file:
        os.kill(PROCESS._running.pid, signal.SIGSTOP)
        threading.Timer(2.5, os.kill, (PROCESS._running.pid, signal.SIGCONT)).start()
        began = time.perf_counter()
        assert file.describe()["groups"] == ["posterior"]
    assert time.perf_counter() - began > 2


def test_a_crash_is_an_error(tmp_path):
    path = fit(tmp_path / "fit.nc")
    file = Guarded(HDF5File, path)
    threading.Timer(0.05, PROCESS._running.kill).start()
    refused("ended the process that read it", asked, path, "wait")
    assert file.describe()["groups"] == ["posterior"]  # opened again


def test_a_reader_lies_in_the_package(tmp_path):
    refused("is no reader", PROCESS.ask, "os:system", str(fit(tmp_path / "a.nc")), "open", (), 5.0, Limits(5.0, 2**30))


def test_no_pipe_is_opened(tmp_path):
    """Which would wait for a writer for ever."""
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "a.nc")
        with pytest.raises(BayesreconError, match="not a plain file"), opened(HDF5File, tmp_path / "a.nc"):
            pass


HDF5 = "bayesrecon.untrusted.hdf5:HDF5File"


def asked(path, what, *arguments):
    return PROCESS.ask(HDF5, str(path), what, arguments, 5.0, Limits(5.0, 2**30))


def request(path, what, *arguments):
    return {"reader": HDF5, "path": str(path), "method": what, "arguments": arguments, "seconds": 5.0, "memory": 2**30}


@pytest.fixture(autouse=True)
def waiting(monkeypatch, tmp_path_factory):
    """Requests to wait: the process stands still until it is ended."""
    import signal

    ask = PROCESS._exchange

    def exchange(request, limits):
        if request["method"] == "wait":
            os.kill(PROCESS._running.pid, signal.SIGSTOP)
        return ask(request, limits)

    monkeypatch.setattr(PROCESS, "_exchange", exchange)


@pytest.mark.slow
@posix
def test_repeated_texts(tmp_path, monkeypatch):
    """One text of 2^16 letters, kept once in the file and named 10^4 times."""
    monkeypatch.setattr(guarded, "MEMORY", 2**27)
    PROCESS.stop()
    path = fit(tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        texts = file.create_dataset(
            "observed_data/names", (10**4,), h5py.string_dtype(), chunks=(10**4,), compression=9
        )
        texts[:1] = "x" * 2**16
        repeat_first_text(texts)
    assert path.stat().st_size < 10**6
    # HDF5 may crash where it is refused memory.
    memory = r"takes more than 129 MiB of memory to read, refused; .*trusted=True"
    crash = r"ended the process that read it \(exit code -\d+\), refused; .* more than 129 MiB of memory to read$"
    refused(f"{memory}|{crash}", read_contents, path)
    assert set(read_draws(path).values) == {"mu"}


def repeat_first_text(texts):
    """Point all entries at the first one's bytes."""
    _, chunk = texts.id.read_direct_chunk((0,))
    import zlib

    raw = zlib.decompress(chunk)
    texts.id.write_direct_chunk((0,), zlib.compress(raw[:16] * (len(raw) // 16)))


def test_messages():
    value = {"a": [1, None, "é", 2.5, True], "s": [slice(0, None, 2)], "x": np.arange(3), "y": np.float32(1), "n": {}}
    found = unpack(pack(value | {"t": np.array([["a"], ["bb"]], object), "b": np.array([b"a"]), "z": np.array(1.5)}))
    np.testing.assert_array_equal(found.pop("x"), np.arange(3))
    assert (found.pop("t").tolist(), found.pop("b").tolist(), found.pop("z").shape) == ([["a"], ["bb"]], [b"a"], ())
    assert type(found["y"]) is np.float32
    del value["x"]
    assert found == value


def test_the_loop_answers_everything(tmp_path):
    """In this process: what is asked is answered, errors too, until there is no more."""
    import io

    asked = [
        pack(request(fit(tmp_path / "a.nc"), what, *arguments) | {"memory": 2**62, "seconds": 1e6})
        for what, arguments in (
            ("open", ()),
            ("describe", (None,)),
            ("read", ("posterior/mu", [slice(None), 0])),
            ("read", ("none", [])),
            ("close", ()),
        )
    ]
    answers = io.BytesIO()
    worker.serve(io.BytesIO(b"".join(len(a).to_bytes(8) + a for a in asked)), answers)
    answers.seek(0)
    found = []
    while head := answers.read(8):
        found.append(unpack(answers.read(int.from_bytes(head))))
    assert found[0]["value"] is None
    assert 0 <= found[0]["spent"] < 60
    assert found[1]["value"]["groups"] == ["posterior"]
    np.testing.assert_array_equal(found[2]["value"], MU[:, 0])
    assert found[3]["kind"] == "Exception"


@pytest.mark.slow
@posix
def test_scripts_are_not_run_again(tmp_path):
    """Nor does a module of the current folder come before the library of its name."""
    path = fit(tmp_path / "fit.nc")
    (tmp_path / "h5py.py").write_text("raise SystemExit('run')")
    script = tmp_path / "scripts" / "script.py"
    script.parent.mkdir()
    script.write_text(
        textwrap.dedent(
            f"""
            import os
            print("started", flush=True)
            from pathlib import Path
            from bayesrecon.untrusted.guarded import Guarded
            from bayesrecon.untrusted.hdf5 import HDF5File
            child = os.fork()
            found = Guarded(HDF5File, Path({str(path)!r})).describe()["groups"]
            os.write(1, f"{{found}}\\n".encode())  # at once: both processes write
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            """
        )
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.stdout, ended.returncode) == ("started\n['posterior']\n['posterior']\n", 0), ended.stderr


def test_a_dead_process_is_let_go_whatever_was_not_sent():
    one = guarded.Process()
    one._start()
    one._running.kill()
    one._running.wait()
    one._running.stdin.write(b"a request")
    one.stop()
    assert one._running is None


def write_all(folder):
    """A file of every suffix that is read there, by what reads it."""
    draws = '[{"mu": [1.0, 2.0]}]'
    (folder / "a.json").write_text(draws)
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a.json", draws)
    (folder / "b.json").write_text('{"y": [1, 2]}')
    (folder / "a.csv").write_text("mu,tau\n1,2\n3,4\n")
    (folder / "e.csv").write_text("name,estimate,std. error\nx,1.0,0.1\n")
    np.savez(folder / "a.npz", mu=MU)
    np.save(folder / "a.npy", MU)
    draws_of, tables = ("a.json", "a.zip", "a.csv", "a.npz"), ("b.json", "a.csv", "a.npz")
    return [
        *((read, folder / name) for read in (read_draws, read_contents) for name in draws_of),
        *((read_table, folder / name) for name in tables),
        (read_array, folder / "a.npy"),
        (partial(read_frame, description="the table"), folder / "e.csv"),
        (load_result, folder / "a.npz"),
        (load_result, fit(folder / "a.nc")),
    ]


def test_all_readers_run_there(tmp_path, monkeypatch):
    """None of them opens the file in this process."""

    def ask(reader, path, *rest):
        raise BayesreconError(f"asked for {reader}")

    monkeypatch.setattr(PROCESS, "ask", ask)
    for read, path in write_all(tmp_path):
        refused(r"asked for bayesrecon\.untrusted\.\w+:\w+", read, path)
