"""Compiled programs on disk: kept by the command line, found by the next process, and never in the way."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.releases import Release
from bayesrecon.running import compile_cache, compiled
from bayesrecon.verbs.verb import verb

SETTLED = {"JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "TF_CPP_MIN_LOG_LEVEL"}

RUN = """
import sys
from bayesrecon.running.compiled import cache_by_default
cache_by_default()
import jax
found = []
jax.monitoring.register_event_listener(lambda event, **rest: found.append(event))
from bayesrecon.cli.main import main
try:
    main()
finally:
    print(*(sum(e.endswith(end) for e in found) for end in ("/cache_hits", "/cache_misses")), file=sys.stderr)
"""

ASKED = """
import os, sys
assert "jax" not in sys.modules
from bayesrecon.running.compiled import cache_by_default
cache_by_default()
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""

CALLED = """
import sys, bayesrecon
{before}
folder = bayesrecon.running.compile_cache(sys.argv[1])
import jax
assert jax.config.jax_compilation_cache_dir == str(folder)
print(jax.config.jax_persistent_cache_min_compile_time_secs)
{after}
"""


def clean(**more):
    return {**{k: v for k, v in os.environ.items() if k not in SETTLED}, **{k: str(v) for k, v in more.items()}}


def python(code, *arguments, **environment):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean(**environment)
    )


def said(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip(), err.strip()


def found(process):
    """The document without its time, and the lines on stderr; the draws are of no data, which is warned of."""
    out, err = said(process)
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
    return {k: v for k, v in json.loads(out).items() if k != "seconds"}, lines


@pytest.fixture(scope="module")
def draws(tmp_path_factory):
    path = tmp_path_factory.mktemp("draws") / "draws.npz"
    rng = np.random.default_rng(0)
    np.savez(path, beta=rng.normal([26, 0.6], [0.2, 0.01], (2, 200, 2)), sigma=rng.normal(18, 0.5, (2, 200)))
    return path


@pytest.mark.slow
def test_the_next_process_finds_what_two_at_once_have_compiled(draws, tmp_path):
    asked = "recover", draws, "--model", "kidscore_momiq", "--json"
    both = [python(RUN, *asked, BAYESRECON_CACHE=tmp_path) for _ in range(2)]
    (first, _), (second, _) = map(found, both)
    (folder,) = (tmp_path / "compiled").iterdir()
    entries = {path.name: path.stat().st_size for path in folder.iterdir()}
    third, (counts,) = found(python(RUN, *asked, BAYESRECON_CACHE=tmp_path))
    hits, misses = map(int, counts.split())
    assert (misses, first, third) == (0, second, first)
    assert hits >= len(entries) > 2
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == entries
    # As a process that was killed while it wrote leaves them: nothing is said, and nothing else is different.
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    fourth, (counts,) = found(python(RUN, *asked, BAYESRECON_CACHE=tmp_path))
    assert (fourth, counts.split()[0]) == (first, "0")


@pytest.mark.slow
def test_the_command_line_keeps_compiled_programs(draws, tmp_path):
    command = "recover", draws, "--model", "kidscore_momiq", "--json"
    code = "from bayesrecon.cli.main import main; main()"
    _, lines = found(python(code, *command, BAYESRECON_CACHE=tmp_path))
    assert lines == []
    assert list(tmp_path.rglob("*-cache"))


def test_verbs_keep_compiled_programs_in_a_library_call(monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("BAYESRECON_COMPILE_CACHE", raising=False)
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    compiled._configure({"jax_compilation_cache_dir": None})
    try:
        program = jax.jit(lambda x: x * 3.25 - 1)  # that nothing else has compiled
        assert float(verb()(lambda release: program(2.0))(Release.__new__(Release))) == 5.5
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        compiled._configure({"jax_compilation_cache_dir": before})
    assert any(path.is_file() for path in (tmp_path / "compiled").rglob("*"))


def test_a_folder_belongs_to_its_versions_and_its_processor(tmp_path):
    folder, _ = said(python(ASKED, BAYESRECON_CACHE=tmp_path))
    assert os.path.isdir(folder)
    for name in ("bayesrecon-", "_jax-", "_jaxlib-", sys.platform):
        assert name in os.path.basename(folder)


def test_the_switch(tmp_path):
    assert said(python(ASKED, BAYESRECON_CACHE=tmp_path, BAYESRECON_COMPILE_CACHE=0))[0] == "None"
    assert not list(tmp_path.iterdir())


def test_the_users_own_setting_wins(tmp_path):
    assert said(python(ASKED, BAYESRECON_CACHE=tmp_path, JAX_COMPILATION_CACHE_DIR="/mine"))[0] == "/mine"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert said(python(ASKED, BAYESRECON_CACHE=file / "cache")) == ("None", "")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path):
    tmp_path.chmod(0o500)
    assert said(python(ASKED, BAYESRECON_CACHE=tmp_path)) == ("None", "")


def test_a_folder_that_cannot_be_used_is_refused_when_asked_for(monkeypatch, tmp_path):
    def full(dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiled.tempfile, "TemporaryFile", full)
    before = dict(os.environ)
    with pytest.raises(BayesreconError, match=r"cannot cache compiled programs in .*No space left"):
        compile_cache(tmp_path / "programs")
    assert dict(os.environ) == before


@pytest.mark.slow
def test_it_can_be_asked_for_before_jax_is_imported(tmp_path):
    folder = tmp_path / "programs"
    assert said(python(CALLED.format(before="", after=""), folder))[0] == "0.0"
    assert folder.is_dir()


@pytest.mark.slow
def test_after_jax_is_imported_it_keeps_what_jax_is_set_to_keep(tmp_path):
    before = "import jax; jax.jit(lambda x: x + 1)(1.0)"
    after = 'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0); jax.jit(lambda x: x + 2)(1.0)'
    assert said(python(CALLED.format(before=before, after=after), tmp_path / "programs"))[0] == "1.0"
    assert list(tmp_path.glob("programs/*-cache"))


@pytest.mark.skipif(sys.platform == "win32", reason="modes of folders")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch, mode):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BayesreconError, match="other users can write to"):
        compile_cache(folder)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    with pytest.raises(BayesreconError, match="other users can write to"):
        compiled.cache_by_default()


@pytest.mark.skipif(sys.platform == "win32", reason="owners of folders")
def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner == 0:  # what the system's owner made is no stranger's
        os.chown(tmp_path, 12345, -1)
    with pytest.raises(BayesreconError, match="belongs to another user"):
        compile_cache(tmp_path)
