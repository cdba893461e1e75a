"""Libraries of extras: absent, too old, or such that they do not import beside the others, each in one line."""

import sys

import pytest

from bayesrecon.errors import BayesreconError, MissingExtraError, Note, labelled, library, version

pytestmark = pytest.mark.small


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A library of that version whose import runs that code."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, number, code):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
        (tmp_path / f"{name}-{number}.dist-info").mkdir()
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        (tmp_path / f"{name}-{number}.dist-info" / "METADATA").write_text(about)

    yield make
    for name in [n for n in sys.modules if n.startswith("unlikely")]:
        del sys.modules[name]


def needed(name):
    return library(name, "reading unlikely models", "unlikely", least=(5, 28))


def test_what_is_there_is_imported(install):
    install("unlikely_new", "6.4.0rc1", "value = 3")
    assert needed("unlikely_new").value == 3
    assert version("unlikely_new") == (6, 4)


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        ("5.9.1", "", r"needs unlikely_\w+ 5.28 or newer, and 5.9.1 is installed: pip install --upgrade"),
        (
            "5.28.5",
            "from math import nothing",
            r"unlikely_\w+ 5.28.5 is installed but cannot be imported \(ImportError: ",
        ),
        (
            "6.0.0",
            "import unlikely_below",
            r"cannot be imported \(ModuleNotFoundError: No module named 'unlikely_below'\)",
        ),
        (
            "6.1.0",
            "raise RuntimeError('one\\ntwo')",
            r"cannot be imported \(RuntimeError: one\): .*bayesrecon\[unlikely\]",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(number, code, message, install):
    name = f"unlikely_{number.replace('.', '_')}"
    install(name, number, code)
    with pytest.raises(BayesreconError, match=message) as caught:
        needed(name)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, MissingExtraError)


def test_what_is_not_there_names_its_extra():
    assert version("unlikely_absent") == (0, 0)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayesrecon\[unlikely\]'"):
        needed("unlikely_absent")


def test_a_label_keeps_notes_and_warnings_apart():
    note, warning = labelled("fit.nc", Note("every 2nd draw was used")), labelled("fit.nc", "the chains are short")
    assert (note, warning) == ("fit.nc: every 2nd draw was used", "fit.nc: the chains are short")
    assert isinstance(note, Note)
    assert not isinstance(warning, Note)
