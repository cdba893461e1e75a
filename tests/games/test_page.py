"""The page about deletion games: its Python runs as it stands, and what it names exists."""

import re
from pathlib import Path

from bayesrecon.games import named_adversaries, named_learners

PAGE = (Path(__file__).resolve().parents[2] / "docs/deletion_games.md").read_text(encoding="utf-8")


def test_its_python_runs(capsys):
    first, promises = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found = {}
    exec(compile(first, "deletion_games.md", "exec"), found)
    assert "RandomForestClassifier on iris, 40 rounds" in capsys.readouterr().out
    assert found["row"].wins + found["row"].ties + found["row"].losses == 40
    # Dataclasses look their module up.
    exec(compile(promises, "deletion_games.md", "exec"), found | {"__name__": __name__})
    honest, flagged = capsys.readouterr().out.splitlines()
    assert honest.startswith("1.0 0.731 ")
    assert honest.endswith("()")
    assert flagged.startswith("1.0 0.731 likelihood ratio ")
    assert "likelihood ratio: success" in flagged


def test_it_names_what_there_is():
    table = PAGE[PAGE.index("## Adversaries") : PAGE.index("## Compliance")]
    listed = {
        name for line in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", line)
    }
    assert listed == set(named_adversaries())
    assert all(f"`{name}`" in PAGE for name in named_learners())
