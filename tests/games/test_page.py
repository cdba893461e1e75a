"""The page about deletion games: its Python runs as it stands, and what it names exists."""

import math
import re
from pathlib import Path

import pytest

from bayesrecon import games
from bayesrecon.games.adversary import named_adversaries
from bayesrecon.games.named_games import named_learners

PAGE = (Path(__file__).resolve().parents[2] / "docs/deletion_games.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_python_runs(capsys):
    found = {"__name__": __name__}  # where dataclasses look their module up
    printed = []
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "deletion_games.md", "exec"), found)
        printed.append(capsys.readouterr().out)
    first, promises, bound, notions, rebuilt, sentence = printed
    assert 0.01 < float(bound) < 0.01 * math.e + 1e-9
    assert [line.split()[0] for line in notions.splitlines()] == ["weak", "weak", "strong", "strong"]
    assert "RandomForestClassifier on iris, 40 rounds" in first
    assert found["row"].wins + found["row"].ties + found["row"].losses == 40
    honest, flagged = promises.splitlines()
    assert honest.startswith("1.0 0.731 ")
    assert honest.endswith("()")
    assert flagged.startswith("1.0 0.731 likelihood ratio ")
    assert "likelihood ratio: success" in flagged
    assert "1 nearest neighbours on iris, 20 deletions" in rebuilt
    assert sentence == "the doctor said it is my heart 1\n"


def listed(section):
    """What the first column of a section's table names."""
    part = PAGE[PAGE.index(f"## {section}\n") :].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return {name.partition("(")[0] for row in rows for name in re.findall(r"`(.*?)`", row)}


def test_it_names_what_there_is():
    assert listed("Adversaries") == set(named_adversaries())
    assert listed("Reconstructors") == {
        name
        for name, value in ((name, getattr(games, name)) for name in dir(games))
        if isinstance(value, type) and issubclass(value, games.Reconstructor) and value is not games.Reconstructor
    }
    assert all(f"`{name}`" in PAGE for name in named_learners())
