"""What is audited: a folder and an archive give each of their files, and nothing is loaded that is not needed."""

import io
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

import bayesrecon
from bayesrecon.attacks.sidechannels.combinations import may_be_combinations, pool_of
from bayesrecon.results.findings import Finding
from bayesrecon.results.told import in_r, told, values_in, without_values

AGES = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    """Draws, a copy of data, and what is not read."""
    place = tmp_path / "site"
    (place / "inner").mkdir(parents=True)
    np.savez(place / "draws.npz", mu=RNG.normal(size=(2, 50)))
    np.savez(place / "inner" / "copy.npz", mu=RNG.normal(size=(2, 50)), x=np.ones((2, 50, 1)) * AGES)
    (place / "notes.unknown").write_text("hello")
    return place


def _zipped(place, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"ask Ann Miller"
        for file in sorted(place.rglob("*.*")):
            archive.write(file, file.relative_to(place))


def _tarred(place, path):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(place, arcname=".")


def test_every_file_of_a_folder_is_a_subject(folder):
    found = bayesrecon.audit(folder, remedies=False, rows="draws")
    (copy,) = (f for f in found if f.severity == "high")
    assert copy.title == "inner/copy.npz: posterior/x is the same in every draw"
    assert found.draws == 200
    assert [n.where for n in found.not_run if n.attack == "notes.unknown: reading"] == [("notes.unknown",)]


@pytest.mark.parametrize(("name", "pack"), [("site.zip", _zipped), ("site.tar.gz", _tarred)])
def test_an_archive_is_audited_as_its_folder(folder, tmp_path, name, pack):
    pack(folder, tmp_path / name)
    whole, packed = (bayesrecon.audit(source, remedies=False) for source in (folder, tmp_path / name))
    titles = {f.title.removeprefix("./") for f in packed}
    assert {f.title for f in whole if f.kind != "unrecognised"} <= titles
    assert len(packed.not_run) == len(whole.not_run)
    assert any("Ann Miller" in f.summary for f in packed) == name.endswith(".zip")


def test_members_that_leave_the_archive_are_not_written(tmp_path):
    path = tmp_path / "odd.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("../outside.npz", "/tmp/absolute.npz"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found = bayesrecon.audit(path, remedies=False)
    assert {n.where[0] for n in found.not_run} == {"../outside.npz", "/tmp/absolute.npz", "link"}
    assert not (tmp_path / "outside.npz").exists()


def test_progress_never_goes_back(folder):
    told_of = []
    bayesrecon.audit(folder, remedies=False, progress=lambda label, fraction: told_of.append(fraction))
    assert told_of == sorted(told_of)
    assert 0 <= told_of[0] < told_of[-1] <= 1


@pytest.mark.slow
def test_without_a_model_no_library_for_models_is_loaded(folder):
    code = (
        "import sys; from bayesrecon.cli.main import main\n"
        f"sys.argv = ['bayesrecon', 'audit', {str(folder / 'draws.npz')!r}, '--no-remedies']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'jax', 'numpyro', 'sklearn', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_one_regression_finds_what_may_be_a_combination():
    x = RNG.normal(size=(600, 12))
    x[:, 3] = x[:, 1] - 2 * x[:, 2]
    x[:, 7] = np.exp(x[:, 4] * x[:, 5])
    found = may_be_combinations(pool_of([(f"x{k}", column) for k, column in enumerate(x.T)]))
    assert np.flatnonzero(found).tolist() == [1, 2, 3, 7]


def _finding(k, severity="high"):
    where = f"object/forest/[[{k}]]/nodes"
    return Finding(
        "copy", severity, f"{where} holds values", (where,), f"they begin {values_in('41, 17')}", drop=(where,)
    )


def test_alike_findings_are_one_for_a_person():
    listed, cut = told([*map(_finding, range(200)), _finding(0, "low")], "R file", values=False)
    assert [f.title for f in listed] == [
        "object$forest[[0]]$nodes holds values, and 199 more of this kind",
        "object$forest[[0]]$nodes holds values",
    ]
    assert len(listed[0].where) == len(listed[0].drop) == 200
    assert cut == ""
    many = [Finding(f"kind {chr(97 + k)}", "low", "found", ("x",), "") for k in range(25)]
    assert len(told(many, "", values=False)[0]) == 20
    assert told(many, "", values=False)[1] == "5 more findings of other kinds are not listed: 5 low"


def test_values_of_people_are_shown_on_request_only(folder, tmp_path):
    found = bayesrecon.audit(folder / "inner" / "copy.npz", remedies=False, rows="draws")
    hidden, shown = found.told(), found.told(show_values=True)
    for text in (str(hidden.to_dict()), hidden.to_html(), str(found)):
        assert "41, 17" not in text
        assert "values not shown" in text
    assert "beginning 41, 17" in str(shown.to_dict())
    assert "confidential" in hidden.to_dict()
    report = tmp_path / "report.html"
    report.write_text("")
    report.chmod(0o644)
    assert found.save_report(report).stat().st_mode & 0o777 == 0o600


def test_values_that_look_like_marks_stay_hidden():
    assert without_values(f"a {values_in('1› 2 ‹3')} b") == "a (values not shown) b"
    assert in_r("fit@names") == 'attr(fit, "names")'
