"""The page on Stan programs is run as it stands."""

import re
from pathlib import Path

import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "stan_programs.md"


def test_the_blocks_of_the_page_run(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert "non-centred" in capsys.readouterr().out
