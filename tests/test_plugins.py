"""A package of its own adds a reader, a channel, an attack and more; one that is broken is named and skipped."""

import os
import re
import subprocess
import sys

import numpy as np
import plugged
import pytest
import xarray as xr
from command import exact_draws

import bayesrecon
from bayesrecon.auditing.channel import channels
from bayesrecon.models import load, shipped
from bayesrecon.posteriors import formats
from bayesrecon.untrusted.guarded import PROCESS, Limits

COMMAND = '''
def wards(beds: int = 3) -> None:
    """Count the wards."""
    print(f"{beds} beds")
'''
FILES = {
    "tabbed": plugged.skeleton("CONTRIBUTING.md", "class TabbedFile"),
    "reader": plugged.skeleton("CONTRIBUTING.md", "FORMAT = ").replace("bayesrecon.untrusted.tab", "hospital.tab"),
    "rates": plugged.skeleton("CONTRIBUTING.md", "CHANNEL = "),
    "mean": plugged.skeleton("docs/add_an_attack.md", "ATTACK = ").replace("Guess", "HospitalsGuess"),
    "waiting": plugged.skeleton("CONTRIBUTING.md", "MODELS = "),
    "noisy": plugged.skeleton("CONTRIBUTING.md", "KIND = "),
    "wards": COMMAND,
}
POINTS = [
    ("formats", "tabbed = hospital.reader:FORMAT"),
    ("channels", "rates = hospital.rates:CHANNEL"),
    ("attacks", "mean = hospital.mean:ATTACK"),
    ("models", "waiting = hospital.waiting:MODELS"),
    ("kinds", "noisy = hospital.noisy:KIND"),
    ("commands", "wards = hospital.wards:wards"),
]

MODE = [26.0, 0.6, 2.9]  # of "kidscore_momiq", in unconstrained coordinates


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Puts a folder with what was installed on the path."""
    folder = tmp_path / "site"
    folder.mkdir()

    def install(files, points):
        plugged.write(folder, "hospital", files, points)
        monkeypatch.syspath_prepend(folder)
        plugged.forget("hospital")

    yield install
    monkeypatch.undo()
    plugged.forget("hospital")


def tabbed(path):
    """Draws as the plug-in reads them."""
    values = np.random.default_rng(1).normal(size=(40, 2))
    np.savetxt(path, values, delimiter="\t", header="mu\ttau", comments="")
    return values


@pytest.mark.slow
def test_what_a_package_adds_is_in_use(installed, tmp_path, run):
    installed(FILES, POINTS)
    values = tabbed(tmp_path / "draws.tsv")
    np.testing.assert_allclose(formats.read_draws(tmp_path / "draws.tsv").values["tau"], values[None, :, 1])
    assert bayesrecon.audit(tmp_path / "draws.tsv").verdict == "incomplete"
    assert "waiting_times" in shipped()
    assert load("waiting_times", shape=2.0).settings == {"shape": 2.0}
    assert run("wards", "--beds", "4").out == "4 beds\n"
    assert re.search(r"wards +Count the wards", run("--help").out)
    assert "mean-record" in run("reconstruct", "--help").out
    path = tmp_path / "trace.nc"
    draws = exact_draws(chains=2, length=200)
    posterior = xr.Dataset({k: (["chain", "draw", *["k"] * (v.ndim - 2)], v) for k, v in draws.items()})
    stats = xr.Dataset({"acceptance_rate": (["chain", "draw"], np.full((2, 200), 0.9))})
    stats["acceptance_rate"].values[:, ::2] = 0.8
    xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats}).to_netcdf(path)
    found = bayesrecon.audit(path, "kidscore_momiq", remedies=False)
    assert "acceptance" in {finding.kind for finding in found.findings}
    from hospital.mean import MeanRecord
    from hospital.noisy import noisy_mode

    guess = bayesrecon.reconstruct(path, model="kidscore_momiq", attack=MeanRecord())
    assert set(guess.record) == {"kid_score", "mom_iq"}
    model = load("kidscore_momiq")
    release = noisy_mode(model, MODE, np.eye(3) * 1e-2, np.full(3, 0.5))
    assert type(bayesrecon.estimation.kinds.kind.kind_of(release)).__module__ == "hospital.noisy"


def test_files_of_strangers_reach_a_plugin_in_the_guarded_process_alone(installed, tmp_path):
    told = FILES["tabbed"].replace('np.loadtxt(self._file, delimiter="\\t", ndmin=2)', "np.full((2, 1), os.getpid())")
    told = told.replace("import numpy", "import os\n\nimport numpy")
    installed({**FILES, "tabbed": told}, POINTS[:1])
    path = tmp_path / "draws.tsv"
    path.write_text("mu\n1\n2\n")
    assert formats.read_draws(path).values["mu"][0, 0] not in (0, os.getpid())
    assert formats.read_draws(path, trusted=True).values["mu"][0, 0] == os.getpid()
    with pytest.raises(bayesrecon.BayesreconError, match="is no reader"):
        PROCESS.ask("other.tabbed:TabbedFile", str(path), "open", (), 5.0, Limits(5.0, 2**30))


def test_a_format_that_opens_files_itself_gets_trusted_ones(installed, tmp_path):
    reader = FILES["reader"]
    for one, other in (
        (", guarded=True", ""),
        (", trusted=False", ""),
        (", trusted)", ", True)"),
        (", trusted=trusted", ""),
    ):
        reader = reader.replace(one, other)
    installed({**FILES, "reader": reader}, POINTS[:1])
    values = tabbed(tmp_path / "draws.tsv")
    with pytest.raises(
        bayesrecon.BayesreconError, match=r"reads files without limits; if you trust it, .*trusted=True"
    ):
        formats.read_draws(tmp_path / "draws.tsv")
    read = formats.read_draws(tmp_path / "draws.tsv", trusted=True)
    np.testing.assert_allclose(read.values["mu"], values[None, :, 0])


TAKEN = FILES["reader"].replace('(".tsv",)', '(".nc",)')
BROKEN = {
    "does not import": ("formats", "x = hospital.absent:FORMAT", {}, r"it cannot be loaded \(ModuleNotFoundError"),
    "has no such name": ("attacks", "x = hospital.mean:ATTAK", FILES, r"it cannot be loaded \(AttributeError"),
    "raises": ("channels", "x = hospital.bad:CHANNEL", {"bad": "1 / 0"}, r"it cannot be loaded \(ZeroDivisionError"),
    "something else": ("channels", "x = hospital.bad:CHANNEL", {"bad": "CHANNEL = 3"}, "it is no channel"),
    "no models": ("models", "x = hospital.bad:MODELS", {"bad": "MODELS = 3"}, "it is not a tuple of Shipped"),
    "taken": (
        "attacks",
        "x = hospital.mean:ATTACK",
        {"mean": FILES["mean"].replace("mean-record", "tilt")},
        "attack 'tilt' exists already",
    ),
    "a suffix that is taken": ("formats", "x = hospital.reader:FORMAT", {**FILES, "reader": TAKEN}, r"\.nc is of"),
    "a command that is taken": (
        "commands",
        "audit = hospital.wards:wards",
        FILES,
        "there is already a command 'audit'",
    ),
}
LOOKED = {
    "formats": formats.formats,
    "attacks": bayesrecon.attacks.attack.attacks,
    "channels": channels,
    "models": shipped,
    "commands": plugged.main._plugin_commands,
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_named_and_skipped(installed, case):
    group, point, files, why = BROKEN[case]
    installed(files, [(group, point)])
    named = rf"the plug-in \w+ \({point.partition(' = ')[2]}, of hospital\) is skipped: {why}"
    with pytest.warns(UserWarning, match=named):
        LOOKED[group]()


def test_what_a_broken_channel_would_find_is_not_cleared(installed):
    draws = exact_draws(chains=2, length=200)
    installed({"bad": "1 / 0"}, [("channels", "rates = hospital.bad:CHANNEL")])
    with pytest.warns(UserWarning, match="is skipped"):
        found = bayesrecon.audit(draws, "kidscore_momiq", remedies=False)
    assert ["cannot be loaded" in n.reason for n in found.not_run if n.attack == "rates"] == [True]


def test_a_channel_that_fails_is_no_end(installed):
    code = FILES["rates"].replace("    rates = [v for", "    1 / 0\n    rates = [v for").replace("1 / 0", "{}[0]")
    installed({"rates": code}, POINTS[1:2])
    found = bayesrecon.audit(exact_draws(chains=2, length=200), "kidscore_momiq", remedies=False)
    assert ["the attack of the plug-in ended" in n.reason for n in found.not_run if n.attack == "acceptance"] == [True]


def test_a_release_whose_kind_was_skipped_is_refused(installed):
    """The law of the errors of another kind would make wrong numbers of it."""
    installed(FILES, [("kinds", "noisy = hospital.noisy:KINDS")])
    from hospital.noisy import noisy_mode

    release = noisy_mode(load("kidscore_momiq"), MODE, np.eye(3) * 1e-2, np.full(3, 0.5))
    with (
        pytest.warns(UserWarning, match="is skipped"),
        pytest.raises(bayesrecon.BayesreconError, match="noisy mode cannot be read: the plug-in noisy"),
    ):
        bayesrecon.recover(release)


PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "hospital"
version = "1.0"

[project.entry-points."bayesrecon.formats"]
tabbed = "hospital.reader:FORMAT"
"""


@pytest.mark.slow
def test_one_that_pip_installs(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    (source / "hospital").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PROJECT)
    for name in ("tabbed", "reader"):
        (source / "hospital" / f"{name}.py").write_text(FILES[name])
    (source / "hospital" / "__init__.py").touch()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "-t", str(site), str(source)], check=True, timeout=300)
    values = tabbed(tmp_path / "draws.tsv")
    code = "import sys, bayesrecon.posteriors.formats as f; print(f.read_draws(sys.argv[1]).values['mu'][0, 0])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "draws.tsv")],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{plugged.ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(values[0, 0])
