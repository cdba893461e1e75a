"""The examples and the README's Python run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TINY = {"own_model.py": ["--draws", "100"], "kidscore_figures.py": ["--steps", "20", "--sizes", "20"]}
NEEDS_DATABASE = {"eight_schools.py", "kidscore_figures.py"}


SLOW = {"kidscore_figures.py", "own_model.py"}
EXAMPLES = [
    pytest.param(p, id=p.name, marks=[pytest.mark.slow] * (p.name in SLOW))
    for p in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_example(path, request, tmp_path):
    if path.name in NEEDS_DATABASE:
        request.getfixturevalue("database")
    run([str(path), *TINY.get(path.name, [])], tmp_path)


def test_readme(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    words = ["determined" if "recover" in block or "diagnose" in block else "posterior/age" for block in blocks]
    for block, word in zip(blocks, words, strict=True):
        assert word in run(["-c", block], tmp_path)


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
