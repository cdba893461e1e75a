"""`bayesrecon models` and `bayesrecon posteriors` list what there is."""

from concurrent.futures import ThreadPoolExecutor

from command import KIDIQ, document, one_line

from bayesrecon.errors import BayesreconError
from bayesrecon.games.posteriordb.outcomes import StatisticsFound, Verdict
from bayesrecon.models import shipped
from bayesrecon.posteriors.fitting.database import posterior_names


def test_every_shipped_model_is_listed(run):
    found = document(run("models", "--json"))
    assert [entry["name"] for entry in found] == list(shipped())
    (entry,) = (e for e in found if e["name"] == "kidscore_momiq")
    assert entry["posteriors"] == [KIDIQ]
    outcome = run("models")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(name in outcome.out for name in shipped())


def test_posteriors(run, database):
    found = document(run("posteriors", "--json"))
    assert [entry["name"] for entry in found] == posterior_names(database)
    entries = {entry["name"]: entry for entry in found}
    assert entries[KIDIQ] == {"name": KIDIQ, "reference_draws": True, "model": "kidscore_momiq"}
    assert entries["Rate_1_data-Rate_1_model"]["reference_draws"] is False
    outcome = run("posteriors")
    assert (outcome.code, outcome.err) == (0, "")
    assert KIDIQ in outcome.out


def test_verdicts_go_to_the_workers(run, monkeypatch):
    """In the order of the names, whoever finds them."""
    asked = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, count, **more):
            asked.append(count)
            super().__init__(count)

        def submit(self, work, shared, name):
            asked.append(name)
            return super().submit(work, shared, name)

    def told(name, **more):
        if name == "bad":
            raise BayesreconError("no such posterior")
        found = StatisticsFound(
            3, estimated=2, determined=1, n=40.0, n_se=2.0, n_floor=1.0, z=1.5, rank=6, finite=True, consistent=True
        )
        return Verdict(name, 40, 3, 1000, True, True, found, (), 1.0)

    monkeypatch.setattr("bayesrecon.running.engine.ProcessPoolExecutor", Pool)
    monkeypatch.setattr("bayesrecon.games.posteriordb.verdict.verdict", told)
    names = [f"posterior {k}" for k in range(5)]
    alone = run("posteriors", "--verdict", *names, "bad", "--json")
    assert not asked
    found = run("posteriors", "--verdict", *names, "bad", "--workers", 2, "--json")
    assert asked == [2, *names, "bad"]
    assert document(found) == document(alone)
    assert [row["posterior"] for row in document(found)] == names
    assert "bad: no such posterior" in found.err
    one_line(run("posteriors", "--verdict", "bad", "--workers", 2), "no such posterior")
    one_line(run("posteriors", "--workers", 2), "--workers need --verdict")
