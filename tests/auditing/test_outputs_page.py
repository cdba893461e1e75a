"""The page about outputs: its Python runs as it stands, and prints what is true."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/outputs.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_python_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "outputs.md", "exec"), found)
    first, second, third = capsys.readouterr().out.splitlines()
    assert "64 fields by linear-decoding" in first
    assert "9 numbers about the input" in second  # coefficients of the classes add up to zero
    assert third.startswith("incomplete ")
    assert {p.name for p in tmp_path.iterdir()} == {"digit.png", "answers.html"}
    assert 0.85 < found["result"].coverage < 1


def test_what_it_links_to_is_there():
    for link in re.findall(r"\]\((\.\./.*?)\)", PAGE):
        assert (Path(__file__).resolve().parents[2] / "docs" / link).exists(), link
