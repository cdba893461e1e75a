"""Scratch files go with what they are for, with the process, and with the next one where a process was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from bayesrecon.running.scratch import Scratch

PROGRAM = """
import sys, time
import numpy as np
from bayesrecon.cli.main import ending_cleanly
from bayesrecon.running.scratch import Scratch
ending_cleanly()
scratch = Scratch(3)
scratch.write(np.ones((10, 3)))
print("written", flush=True)
time.sleep(60)
"""


def ended(folder, number):
    """The exit status of a process with a scratch file that got a signal."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        assert len(left(folder)) == 1
        process.send_signal(number)
        return process.wait(20)


def left(folder):
    return [path for path in folder.iterdir() if path.suffix == ".h5"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_that_is_asked_to_end_leaves_nothing(tmp_path):
    assert ended(tmp_path, signal.SIGTERM) == 128 + signal.SIGTERM
    assert left(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path, monkeypatch):
    assert ended(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    (killed,) = left(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Scratch(2)
    assert not killed.exists()
    assert len(left(tmp_path)) == 1
    other = Scratch(2)  # one that is in use is left alone
    assert len(left(tmp_path)) == 2
    own.write(np.ones((2, 2)))
    assert np.array_equal(own.done()[np.array([0, 1])], np.ones((2, 2)))
    other.close()
    del own, other
    assert left(tmp_path) == []


def test_rows_keep_their_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = Scratch(1)
    scratch.write(np.arange(5.0)[:, None])
    rows = scratch.done()
    del scratch
    assert np.array_equal(rows[:], np.arange(5.0)[:, None])
    assert Path(rows.path).exists()
    del rows
    assert left(tmp_path) == []
