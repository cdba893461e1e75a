"""The page about vicious classifiers: its Python runs as it stands."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs/vicious_classifiers.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_python_runs():
    found = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "vicious_classifiers.md", "exec"), found)
    assert found["guess"].shape == (797, 144)
    assert found["afterwards"].outputs == 10
    assert 0 <= found["scores"].gradient <= 1
