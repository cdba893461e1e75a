"""What is said about installing agrees: pyproject.toml, the recipe for conda, the lowest versions that are tested."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from bayesrecon._version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


CONDA = {"matplotlib": "matplotlib-base"}
"""Names that differ there."""


def test_the_recipe_has_the_dependencies_that_there_are():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    python, *run = recipe["requirements"]["run"]
    assert python == f"python {PROJECT['requires-python']}"
    assert run == [of_conda(one) for one in PROJECT["dependencies"]]
    extras = {of_conda(one) for extra in PROJECT["optional-dependencies"].values() for one in extra}
    assert set(recipe["requirements"]["run_constraints"]) <= extras
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(one) for one in PROJECT["scripts"].items()]
    assert recipe["context"]["version"] == __version__.split(".dev")[0]


def of_conda(one):
    name, bounds = re.match(r"([\w-]+)(?:\[[a-z,]+\])?(.*)", one).groups()
    return f"{CONDA.get(name, name)} {bounds}"


def test_the_pythons_are_those_of_the_classifiers():
    lowest = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])[1]
    named = [int(c.rpartition(".")[2]) for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert named == list(range(int(lowest), max(named) + 1))


def test_the_lowest_versions_are_those_of_pyproject():
    """Every dependency of the tests is held to its lower bound: one that is not understood is no bound."""
    script = (ROOT / ".ci" / "lower-bounds").read_text(encoding="utf-8")
    program = re.search(r"<<'PYTHON'\n(.*?)\nPYTHON\n", script, re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    pinned = dict(line.split("==") for line in done.stdout.splitlines())
    extras = PROJECT["optional-dependencies"]
    for one in (*PROJECT["dependencies"], *extras["dev"], *extras["arviz"], *extras["distributed"]):
        if not one.startswith("bayesrecon["):
            name, bound = re.match(r"([\w.-]+)>=([\d.]+)", one).groups()
            assert pinned[name] == bound


def test_the_version_is_one():
    """The latest one that the changelog was cut for, on its day, is the one that is cited."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", changes, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    version, day = headings[1]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], str(cited["date-released"])) == (version, day)
    assert __version__.split(".dev")[0] == version
