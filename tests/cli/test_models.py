"""`bayesrecon models` and `bayesrecon posteriors` list what there is."""

from command import KIDIQ, document

from bayesrecon.models import shipped
from bayesrecon.posteriors.database import posterior_names


def test_models(run):
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
    assert entries["wells_data-wells_dist"]["reference_draws"] is False
    outcome = run("posteriors")
    assert (outcome.code, outcome.err) == (0, "")
    assert KIDIQ in outcome.out
