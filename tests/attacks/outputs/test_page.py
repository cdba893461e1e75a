"""The page benchmarks/OUTPUTS_POSTERIOR.md is made of what was measured, and its intervals hold."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parents[3] / "benchmarks"
HELD = json.loads((HERE / "outputs_posterior.json").read_text(encoding="utf-8"))
PAGE = (HERE / "OUTPUTS_POSTERIOR.md").read_text(encoding="utf-8")


def test_every_row_is_on_the_page():
    lines = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")][1:]
    told = [(c[1].strip(), c[2].strip(), c[3].strip(), c[4].strip()) for c in lines if "---" not in c[1]]
    assert told == [(r["model"], r["view"], r["method"], f"{r['psnr']:.2f}") for r in HELD["rows"]]


def test_intervals_hold_90_to_98_percent():
    assert {r["method"].partition(",")[0] for r in HELD["rows"]} >= {"linear decoder", "posterior mean"}
    for row in HELD["rows"]:
        assert 0.90 <= row["coverage"] <= 0.98, row
        assert 0.90 <= row.get("components", 0.95) <= 0.98, row
