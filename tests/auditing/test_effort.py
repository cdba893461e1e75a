"""How long an audit measures, what it says of the rest, and what Ctrl-C leaves."""

from dataclasses import replace

import fits
import numpy as np
import pytest

import bayesrecon
from bayesrecon.auditing import audit, effort, opened
from bayesrecon.auditing.effort import Budget, Open, budget_of, unmeasured_note
from bayesrecon.errors import BayesreconError, Interrupted
from bayesrecon.models import load
from bayesrecon.results.findings import Finding, Remedy

MODEL = load("kidscore_momiq")
DRAWS = fits.draws(fits.records())
FINDING = Finding("draws", "low", "n is known", ("posterior",), "n to 3 %", remedies=(Remedy("drop it"),))
OVER = Budget(0.0, False, clock=lambda: 1.0)


def test_a_budget_ends():
    clock = iter([0.0, 10.0, 44.0, 46.0])
    budget = budget_of("quick", clock=lambda: next(clock))
    assert [budget.allows(5), budget.allows(5), budget.allows()] == [True, False, False]
    assert budget_of("full").thorough
    with pytest.raises(BayesreconError, match="effort slow: expected quick or full"):
        budget_of("slow")


def test_trials_end_with_their_part_of_the_time():
    now = [0.0]
    enough = Budget(30.0, False, clock=lambda: now[0]).enough(3)
    assert not enough(1, 1.0)  # eleven more fit
    now[0] = 10.0
    assert not enough(5, 1.0)  # beyond its part, but too few to tell
    assert enough(5, 4.0)  # never twelve
    assert enough(12, 1.0)
    now[0] = 3.0
    assert not enough(12, 1.0)
    assert not budget_of("full").enough(3)(500, 1e6)


def test_what_was_not_measured_is_said():
    measured = Remedy("halve", "n", 1.0, 2.0, 2.1)
    remedies = [Remedy("keep 30 draws", "n", 1.0, 2.0), Remedy("round", untried=True), measured]
    assert [r.status for r in (*remedies, Remedy("drop it"))] == ["predicted", "not tried", "measured", "stated"]
    line = unmeasured_note([replace(FINDING, remedies=tuple(remedies))])
    assert "1 predicted and not measured and 1 not tried" in line
    assert unmeasured_note([replace(FINDING, remedies=(measured,))]) == unmeasured_note([FINDING]) == ""


def test_remedies_stand_beside_the_findings_own():
    found = Open(FINDING, lambda budget: (Remedy("round"),)).closed(OVER)
    assert [r.action for r in found.remedies] == ["drop it", "round"]
    assert [r.action for r in Open(FINDING, lambda budget: (Remedy("round"),), first=True).closed(OVER).remedies] == [
        "round",
        "drop it",
    ]


def test_without_time_theory_answers(monkeypatch):
    monkeypatch.setattr(effort, "QUICK_SECONDS", 0.0)
    told_of = []

    class Listener:
        found = told_of.append

        def __call__(self, label, fraction):
            pass

    found = bayesrecon.audit(DRAWS, MODEL, progress=Listener())
    (finding,) = found
    assert [f.title for f in told_of] == [finding.title]
    tried = [r for r in finding.remedies if r.status != "stated"]
    assert tried
    assert {r.status for r in tried} == {"predicted"}
    assert any("--effort full" in warning for warning in found.warnings)
    assert all(r.predicted >= 0.999 * r.before for r in tried)


@pytest.mark.parametrize(("after", "left"), [(0, ["draws", "log densities"]), (1, ["log densities"])])
def test_an_interruption_leaves_what_was_found(monkeypatch, after, left):
    """Where the attack on the draws, or the first one on a channel, is interrupted."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    if after:
        found, _ = audit.channels()
        stopped = tuple(replace(c, find=stop) if c.name == "log densities" else c for c in found)
        monkeypatch.setattr(audit, "channels", lambda needs: (stopped, ()))
    else:
        monkeypatch.setattr(opened, "recovered_with_problem", stop)
    with pytest.raises(Interrupted) as caught:
        bayesrecon.audit({**DRAWS, "clinic": np.ones((2, 300, 1)) * np.arange(9.0) ** 2}, MODEL)
    found = caught.value.so_far
    assert found.verdict == "incomplete"
    assert [n.attack for n in found.not_run if n.attack in ("draws", "log densities")] == left
    assert {f.kind for f in found} == {"copy", "draws"}
    assert found.severity == "high"
