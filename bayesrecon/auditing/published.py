"""What was published, in the ledger: totals with their errors, to compare later releases with."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.auditing.look import Asked, Released
from bayesrecon.auditing.together import Differences
from bayesrecon.disclosure.sanitising.ledger_file import packed, unpacked
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import stamp


def entry_of(path: Path, released: Sequence[Released], knows: Mapping[str, Any]) -> Json:
    """The entry of a file for `Ledger.publish`: its name, the hash of its bytes, and the totals that it determines.

    Args:
        path: the file as it was published.
        released: what it releases (`audit.released_by`).
        knows: what an attacker knows, as keywords of `Knows`.
    """
    found = Differences(released, Asked(knows={k: v for k, v in knows.items() if v is not None})).grams
    totals = [[_packed(gram) for gram in grams] for grams in found.values() if grams]
    return {"name": path.name, "sha256": stamp(path).sha256, "totals": totals}


def _packed(gram: Gram) -> Json:
    arrays = {"matrix": gram.matrix, "columns": gram.columns, "noise": gram.noise}
    return {
        "fields": list(gram.fields),
        "n": gram.n,
        **{k: None if a is None else packed(a) for k, a in arrays.items()},
    }


def published_before(entries: Iterable[Json]) -> list[Released]:
    """The releases of an account, to compare others with. Withdrawn ones count: they are known."""
    found = []
    for entry in entries:
        for i, grams in enumerate(entry["totals"], 1):
            number = f"{entry['id']}.{i}" if len(entry["totals"]) > 1 else entry["id"]
            name = f"{entry['name']} of {entry['date'][:10]} (entry {number})"
            found.append(Released(name, None, grams=[_unpacked(name, gram) for gram in grams]))
    return found


def _unpacked(name: str, entry: Json) -> Gram:
    noise = None if entry["noise"] is None else unpacked(entry["noise"])
    return Gram(name, tuple(entry["fields"]), unpacked(entry["matrix"]), unpacked(entry["columns"]), entry["n"], noise)
