"""The page about deletion games: its Python runs as it stands, and what it names exists."""

import re
from pathlib import Path

from bayesrecon.games import named_adversaries, named_learners

PAGE = (Path(__file__).resolve().parents[2] / "docs/deletion_games.md").read_text(encoding="utf-8")


def test_its_python_runs(capsys):
    found = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "deletion_games.md", "exec"), found)
    printed = capsys.readouterr().out
    assert "RandomForestClassifier on iris, 40 rounds" in printed
    assert found["row"].wins + found["row"].ties + found["row"].losses == 40
    assert "the doctor said it is my heart 1" in printed


def test_it_names_what_there_is():
    table = PAGE[PAGE.index("## Adversaries") :]
    listed = {
        name for line in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", line)
    }
    assert listed == set(named_adversaries())
    assert all(f"`{name}`" in PAGE for name in named_learners())
