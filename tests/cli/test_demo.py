"""The first command that anybody runs: six lines, and one statement about all that was recovered."""

import json
import re

import pytest
from scipy.stats import f


@pytest.mark.slow
def test_six_lines_and_one_statement(run, tmp_path):
    shown = run("demo", "-o", tmp_path)
    assert shown.code == 0
    rows = [line for line in shown.out.splitlines() if " to " in line]
    assert len(rows) == 6
    for line in rows:
        estimate, low, high, true = (float(x) for x in re.findall(r"-?\d+\.?\d*", line)[-4:])
        assert low <= estimate <= high
        assert low - (high - low) <= true <= high + (high - low)
    told = re.search(r"F\((\d+), (\d+)\) = (\S+), p = (\S+)", " ".join(shown.err.split()))
    content = json.loads((tmp_path / "bayesrecon_demo.json").read_text())
    assert int(told[1]) == content["rank"]
    assert float(told[4]) == pytest.approx(f.sf(float(told[3]), int(told[1]), int(told[2])), abs=0.01)
    assert float(told[4]) > 1e-3
    every = run("demo", "-o", tmp_path, "--all")
    assert every.out.count("determined") >= len(content["statistics"])
