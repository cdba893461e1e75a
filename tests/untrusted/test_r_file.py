"""Files of R: what R itself counts in them is read, and nothing else takes time or memory."""

import contextlib
import csv
import time

import numpy as np
import pytest
import r_written
from parts import slow_then_large
from r_written import FIXTURES, HOSTILE, ODD

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.r.r_objects import INTERNAL, RObjects
from bayesrecon.posteriors.r.rds import read_walk
from bayesrecon.untrusted.r_file import read_r

_LINES = (FIXTURES / "counts.csv").read_text().splitlines()
COUNTS = {row["name"].strip(): row for row in csv.DictReader(_LINES, skipinitialspace=True)}
SHOWN = INTERNAL | {"srcref"}


def read(path):
    return RObjects(read_r(path))


def count(objects):
    """As `make.R` counts: in lists, attributes and slots, in no environment, function or call."""
    numbers = texts = 0
    total = 0.0
    waiting = [objects.root]
    while waiting:
        node = waiting.pop()
        kind = objects.kind(node)
        if kind in ("integer", "double"):
            values = np.asarray(objects.numbers(node), float)
            numbers += len(values)
            total += values[np.isfinite(values)].sum()
        texts += len(objects.texts(node)) if kind == "text" else 0
        if kind in ("list", "pairs", "expression"):
            waiting += [child for _, child in objects.elements(node)]
        if kind != "environment":
            waiting += [child for name, child in objects.attributes(node).items() if name not in SHOWN]
    return numbers, texts, total


LARGE = {
    "stanreg",
    "stanreg-stripped",
    "stanreg_glmer",
    "stanreg_glmer-stripped",
}  # they hold the definitions of hundreds of classes


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in COUNTS])
def test_what_r_counts_is_read(name):
    row = COUNTS[name]
    numbers, texts, total = count(read(FIXTURES / f"{name}.rds"))
    assert numbers == int(row["numbers"])
    assert texts == int(row["texts"])
    assert total == pytest.approx(float(row["sum"]), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("forms*")), ids=lambda path: path.name)
def test_every_form_of_a_file_says_the_same(path):
    objects = read(path)
    ((_, node),) = objects.objects()
    values = dict(objects.elements(node))
    np.testing.assert_array_equal(objects.numbers(values["numbers"]), [1.5, np.nan, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(objects.numbers(values["whole"]), [3, np.nan])
    np.testing.assert_array_equal(objects.numbers(values["sequence"]), np.arange(1, 21))
    np.testing.assert_array_equal(objects.numbers(values["logical"]), [1, np.nan])
    np.testing.assert_array_equal(objects.numbers(values["complex"]), [[1, 2]])
    np.testing.assert_array_equal(objects.numbers(values["raw"]), range(4))
    assert objects.texts(values["texts"]) == ['a\n"b', "NA", "é"]
    assert objects.texts(values["numbered"]) == ["1", "2", "3"]
    codes = {place.name: place.code.text for place in read_walk(path) if place.code}
    assert codes["call"] == "f(x, y = 2)"
    assert 'if(x > 1, "more", x + 1)' in codes["code"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *slow_then_large("a bomb by xz", "a bomb of objects"),
        *(name for name in HOSTILE if name not in ("a bomb by xz", "a bomb of objects")),
    ],
)
def test_hostile_files_are_refused_in_one_line(tmp_path, name):
    path = tmp_path / "a.rds"
    path.write_bytes(HOSTILE[name]())
    with pytest.raises(BayesreconError) as caught:
        read_contents(path)
    assert "\n" not in str(caught.value)

    def parse():
        with contextlib.suppress(BayesreconError):
            read_r(path)

    began = time.process_time()
    parse()
    assert time.process_time() - began < 20
    assert r_written.memory_of(parse) < 500 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_read(tmp_path, name):
    path = tmp_path / "a.rds"
    path.write_bytes(ODD[name]())
    assert read_contents(path).format == "R file"


def test_numbers_that_are_not_written_out_are_said_to_be_unread(tmp_path):
    path = tmp_path / "a.rds"
    path.write_bytes(ODD["a thousand million numbers in few bytes"]())
    (unread,) = read_contents(path).unread
    assert unread.where == "object"
    assert "16,777,216 numbers" in unread.reason


def test_bytes_behind_the_end_are_listed(tmp_path):
    path = tmp_path / "a.rds"
    path.write_bytes(r_written.head() + r_written.doubles(1.0) + b"ask Ann")
    assert ("bytes after the end", "ask Ann") in [(e.where, e.values) for e in read_contents(path).entries]


@pytest.mark.slow
@pytest.mark.parametrize("many", [40, *slow_then_large(150, 500)])
def test_mutated_files(tmp_path, many):
    """`benchmarks/files/r_objects.py --fuzz` reads ten thousand."""
    path, outcomes = tmp_path / "a.rds", {"read": 0, "refused": 0}

    def parse():
        with contextlib.suppress(BayesreconError):
            read_r(path)

    for content in r_written.mutations(many, seed=1):
        path.write_bytes(content)
        try:
            read_contents(path)
            outcomes["read"] += 1
        except BayesreconError as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
        assert r_written.memory_of(parse) < 500 * 2**20
    assert outcomes["refused"] > many // 20
    assert outcomes["read"] > 0
