"""What is written is whole, private, and never in the place of what was read."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from command import draws, one_line

from bayesrecon import temporary
from bayesrecon.errors import BayesreconError
from bayesrecon.files import private_folder, write_netcdf, write_whole

pytestmark = pytest.mark.small

posix = pytest.mark.skipif(sys.platform == "win32", reason="no modes, locks or limits")


def mode(path):
    return path.stat().st_mode & 0o777


@posix
def test_new_files_are_private_and_others_keep_their_mode(tmp_path):
    file = tmp_path / "a.json"
    write_whole(file, lambda t: t.write_text("1"))
    assert mode(file) == 0o600
    file.chmod(0o640)
    write_whole(file, lambda t: t.write_text("2"))
    assert (mode(file), file.read_text()) == (0o640, "2")
    made = private_folder(tmp_path / "cache" / "compiled")
    assert {mode(made), mode(made.parent)} == {0o700}
    made.chmod(0o755)
    assert mode(private_folder(made)) == 0o755


@posix
def test_what_killed_runs_left_is_removed(tmp_path):
    """A run that is killed while it writes; one that is alive keeps its file."""
    program = """
        import os, sys, time
        from pathlib import Path
        from bayesrecon.files import write_whole

        def write(temporary):
            temporary.write_text("half")
            print("writing", flush=True)
            time.sleep(60)

        write_whole(Path(sys.argv[1]), write)
    """
    other = tmp_path / ".a.json.bayesrecon-notours.bak"
    other.write_text("")
    start = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "a.json")]
    running = [subprocess.Popen(start, stdout=subprocess.PIPE, cwd=Path.cwd()) for _ in range(2)]
    try:
        assert {process.stdout.readline() for process in running} == {b"writing\n"}
        assert len(list(tmp_path.iterdir())) == 3
        running[0].kill()
        running[0].wait()
        write_whole(tmp_path / "b.csv", lambda t: t.write_text("x"))
        assert len([p for p in tmp_path.iterdir() if p.name.startswith(".a.json")]) == 2
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()
    write_whole(tmp_path / "b.csv", lambda t: t.write_text("x"))
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "b.csv"]


@posix
def test_taken_for_abandoned_before_it_is_locked(tmp_path, monkeypatch):
    """Another run cleans up between the moment a file is made and the moment it is held."""
    lock, calls = temporary._lock, []

    def late(handle, wait=True):
        calls.append(wait)
        if len(calls) == 1:
            temporary.remove_abandoned(tmp_path)
        return lock(handle, wait)

    def write(path):
        temporary.remove_abandoned(tmp_path)
        path.write_text("whole")

    monkeypatch.setattr(temporary, "_lock", late)
    write_whole(tmp_path / "a.json", write)
    assert (calls[0], len(calls)) == (True, 4)  # made, removed, made again, kept
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "whole")]


@pytest.mark.slow
@posix
def test_netcdf_on_a_full_disk_is_an_error(tmp_path):
    """A limit on the size of files stands in for a full disk: the HDF5 library crashed on both."""
    program = """
        import resource, signal, sys
        from pathlib import Path
        import numpy as np, xarray as xr
        from bayesrecon.files import write_netcdf

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, 2**14))
        try:
            write_netcdf(Path(sys.argv[1]), xr.Dataset({"x": ("a", np.arange(1e5))}), "posterior")
        except OSError as error:
            print(error.strerror)
    """
    (tmp_path / "a.nc").write_text("before")
    start = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "a.nc")]
    ended = subprocess.run(start, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "File too large\n"), ended.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]
    assert (tmp_path / "a.nc").read_text() == "before"


def test_netcdf_has_groups(tmp_path):
    write_netcdf(tmp_path / "a.nc", xr.Dataset({"x": ("a", np.arange(3.0))}), "posterior")
    with xr.open_dataset(tmp_path / "a.nc", group="posterior", engine="h5netcdf") as found:
        assert found["x"].values.tolist() == [0, 1, 2]


def test_no_folder(tmp_path):
    with pytest.raises(BayesreconError, match="does not exist"):
        write_whole(tmp_path / "none" / "a.json", None)


# Every command


def place(folder):
    """The files of a call, links to them, and what is in all of them."""
    draws()(folder)
    for name, text in {"p.json": "[]", "data.csv": "y\n1\n", "own.py": "x = 1"}.items():
        (folder / name).write_text(text)
    for name, target in {"soft.json": "p.json", "soft.csv": "data.csv", "soft.npz": "draws.npz"}.items():
        (folder / name).symlink_to(target)
    for name, target in {"hard.nc": "draws.npz", "hard.csv": "own.py"}.items():
        os.link(folder / target, folder / name)
    (folder / "fit.zarr").mkdir()
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


OVER = {
    "recover": "recover draws.npz --out draws.npz",
    "through a soft link": "recover draws.npz --out soft.npz",
    "through a hard link": "recover draws.npz --out hard.nc",
    "read through the link": "recover soft.npz --out draws.npz",
    "a plot": "recover hard.png --plot hard.png",
    "the model": "recover x.nc --model own.py:make --out hard.csv",
    "within a folder": "recover fit.zarr --out fit.zarr/a.json",
    "audit": "audit p.json --out p.json",
    "audit, soft": "audit p.json --out soft.json",
    "audit, data": "audit p.json --data data.csv --out data.csv",
    "audit, fix": "audit draws.npz --fix ./draws.npz",
    "audit, known": "audit p.json --known soft.csv --out data.csv",
    "reconstruct": "reconstruct draws.npz --checkpoint draws.npz",
    "diagnose": "diagnose p.json --out p.json",
    "deletion": "deletion draws.npz draws.npz --public data.csv --out data.csv",
    "fit": "fit kidscore_momiq draws.npz --out hard.nc",
}


@posix
@pytest.mark.parametrize("name", OVER)
def test_no_command_overwrites_what_it_reads(run, tmp_path, name):
    before = place(tmp_path)
    if name == "a plot":
        os.link(tmp_path / "draws.npz", tmp_path / "hard.png")
    one_line(run(*OVER[name].split()), "which is read; name another file")
    for file, content in before.items():
        assert (tmp_path / file).read_bytes() == content


def test_two_outputs_in_one_place(run, tmp_path):
    place(tmp_path)
    call = "deletion a.npz b.npz c.npz --truth data.csv --plot a.png --cdf ./a.png --image 2x2"
    one_line(run(*call.split()), "--(plot|cdf) writes to the same file")
