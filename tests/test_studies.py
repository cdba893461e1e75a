"""Pages of benchmarks are those of their rows, and a study keeps both."""

import importlib
import json
from pathlib import Path

import layers
import pytest

from bayesrecon._version import __version__
from benchmarks import study, sweep

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if "STUDY = Study(__file__, page" in path.read_text(encoding="utf-8")
]
QUICK = ("benchmarks.deletion.page", "benchmarks.draws.verdict", "benchmarks.tables.tables")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in PROGRAMS])
def test_the_page_is_that_of_its_rows(name):
    made = importlib.import_module(name).STUDY
    assert made.page() == made.place.read_text(encoding="utf-8")


def test_most_programs_are_studies():
    assert len(PROGRAMS) > 25
    assert set(QUICK) <= set(PROGRAMS)


@pytest.fixture
def own(monkeypatch, tmp_path):
    """A study whose files lie in a folder of their own."""
    monkeypatch.setattr(study, "HERE", tmp_path)
    return study.Study("topic/heights.py", lambda rows: f"{len(rows)} rows\n", empty=list)


def test_rows_are_kept_and_gone_on_with(own):
    assert own.kept() == []
    own.keep([{"a": 1}])
    own.keep([*own.kept(), {"a": 2.5}])
    assert own.kept() == [{"a": 1}, {"a": 2.5}]
    assert own.rows.read_text() == '[\n{"a": 1},\n{"a": 2.5}\n]\n'
    assert own.place.read_text() == f"2 rows\n\nMeasured with bayesrecon {__version__}.\n"
    assert sorted(p.name for p in own.rows.parent.iterdir()) == ["HEIGHTS.md", "heights.json", "versions.json"]


def test_the_page_alone_needs_no_other_option(own, monkeypatch):
    own.rows.write_text(json.dumps([{}]))
    parser = own.parser("What it does.")
    parser.add_argument("--data", required=True)
    monkeypatch.setattr("sys.argv", ["heights", "--page"])
    with pytest.raises(SystemExit):
        own.given(parser)
    assert own.place.read_text() == "1 rows\n"
    monkeypatch.setattr("sys.argv", ["heights", "--data", "x"])
    assert own.given(parser).data == "x"


def test_no_circle_and_no_reach_by_path():
    """Programs import each other one way, and find what they share with the tests by its name."""
    paths = (ROOT / "benchmarks").rglob("*.py")
    sources = {layers.module_name(path, ROOT).removeprefix("bayesrecon."): path.read_text("utf-8") for path in paths}
    graph = {
        name: set(layers.imports_of(name, code, sources)) & (set(sources) - {name}) for name, code in sources.items()
    }
    assert sum(map(len, graph.values())) > 40
    assert layers.circles(graph) == []
    inserted = {name for name, code in sources.items() if "sys.path" in code}
    assert inserted == {"benchmarks.files.audit_time"}  # in the process that it starts, for a model of its own


def measured(item):
    return {**item, "square": item["set"] ** 2}


def swept(own, *options):
    """Rows of five data sets, of which those that are left are measured; their numbers."""
    parser = own.parser("What it does.")
    sweep.add_arguments(parser)
    given = parser.parse_args([str(one) for one in options])
    rows = sweep.Rows(own, lambda row: row["set"], given)
    left = rows.left({"set": k} for k in range(5))
    for row in sweep.measured(lambda _, item: measured(item), None, left, given):
        rows.add(row)
    return [item["set"] for item in left]


def test_sets_that_were_measured_are_not_measured_again(own):
    own.keep([measured({"set": k}) for k in (3, 1)])
    assert swept(own) == [0, 2, 4]
    assert own.kept() == [{"set": k, "square": k**2} for k in range(5)]
    assert swept(own) == []
    assert swept(own, "--anew") == [0, 1, 2, 3, 4]


def test_no_set_is_begun_when_time_is_over(own):
    assert swept(own, "--minutes", "-1") == [0, 1, 2, 3, 4]
    assert own.kept() == []


def test_rows_that_were_measured_elsewhere_are_taken(own, tmp_path):
    own.keep([{"set": 1, "square": -1}])
    lines = tmp_path / "rows.jsonl"
    assert swept(own, "--into", lines) == [0, 2, 3, 4]
    assert own.kept() == [{"set": 1, "square": -1}]  # the page is as it was
    with lines.open("a") as more:
        more.write('{"set": 5, "squ')  # where the machine was taken away
    assert swept(own, "--anew", "--into", lines) == [1]
    with pytest.raises(SystemExit):
        swept(own, "--add", lines)
    assert own.kept() == [measured({"set": 1}) if k == 1 else measured({"set": k}) for k in range(5)]
