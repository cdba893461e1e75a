"""What stands in a file is shown, not obeyed; and a closed pipe is no error."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from command import draws

import bayesrecon
from bayesrecon.errors import visible

STEERS = "\x1b[31mred\x1b]0;title\x07 \u202ecilbup\u202c \x9b2J \u2066"
SPELT = visible(STEERS)


def test_what_steers_is_spelt_out():
    assert SPELT == r"\x1b[31mred\x1b]0;title\x07 \u202ecilbup\u202c \x9b2J \u2066"
    assert visible("Ömer\tθ 7\n\U000e0001") == "Ömer\tθ 7\n\\U000e0001"


def steering(path):
    data = xr.Dataset({STEERS: ("obs", np.arange(9.0))}, attrs={f"author{STEERS}": STEERS})
    posterior = xr.Dataset({"mu": (("chain", "draw"), np.random.default_rng(0).normal(size=(2, 30)))})
    xr.DataTree.from_dict({"posterior": posterior, "observed_data": data}).to_netcdf(path, engine="h5netcdf")
    return path


def harmless(text):
    return not [c for c in text if c in "\x1b\x07\x9b\u202e\u202c\u2066"]


def test_terminal_and_page(run, tmp_path):
    path = steering(tmp_path / f"fit{STEERS[:5]}\u202e.nc")
    outcome = run("audit", path, "--html", "page.html")
    assert outcome.code == 3, outcome.err  # there is no model
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (outcome.out, outcome.err, page):
        assert harmless(text)
    assert r"\x1b[31m" in outcome.out
    assert r"\u202e" in page
    found = bayesrecon.audit(path)
    assert harmless(repr(found) + found._repr_html_())
    outcome = run("recover", f"none{STEERS}.nc")
    assert outcome.code == 2
    assert harmless(outcome.err)
    assert r"\x1b[31" in outcome.err


def test_warnings_and_tables(run, tmp_path):
    (tmp_path / "draws.npz").unlink(missing_ok=True)
    call = draws()(tmp_path)
    (tmp_path / "draws.npz").rename(tmp_path / "a\u202eb.npz")
    outcome = run(call[0], "a\u202eb.npz", *call[2:], "--total", 7)
    assert outcome.code == 0, outcome.err
    assert harmless(outcome.out + outcome.err)
    assert "7 records were stated, which is outside the interval of n" in outcome.err


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
@pytest.mark.parametrize("closing", ["| true", ">&-"])
def test_a_closed_stdout_is_no_traceback(closing):
    call = f"{sys.executable} -m bayesrecon posteriors --help {closing}"
    ended = subprocess.run(call, shell=True, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    program = """import sys
import bayesrecon.cli.main as main
def app(**_): raise BrokenPipeError
main.app = app
main.main()"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, "", "")
