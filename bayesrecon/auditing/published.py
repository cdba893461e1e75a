"""What was published, in the ledger: statistics and totals with their errors, to judge later releases by."""

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.auditing.cumulative import examined, shown
from bayesrecon.auditing.look import Asked, Determined, Released
from bayesrecon.auditing.statement import digests
from bayesrecon.auditing.together import Differences
from bayesrecon.diagnostics import Z95
from bayesrecon.disclosure.sanitising.ledger_file import packed, unpacked
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import recovered
from bayesrecon.json_types import Json
from bayesrecon.posteriors.printed.summaries import from_table
from bayesrecon.posteriors.recognition import is_table
from bayesrecon.releases import Release
from bayesrecon.results.row import Row
from bayesrecon.results.sanitised import NO_END, Sanitised

_LONGEST = 2**16  # characters of a table that is kept as it is


def entry_of(
    path: Path,
    kind: str,
    released: Sequence[Released],
    model: object,
    knows: Mapping[str, Any],
    how: Mapping[str, Any] = MappingProxyType({}),
    key: int = 0,
) -> Json:
    """The entry of a file for `Ledger.publish`: what it is, its digests, and what it determines.

    A printed table is kept as it is, because two of them together may tell more than their statistics.

    Args:
        path: the file as it was published.
        kind, released: what it is, and what it releases (`audit.released_by`).
        model: as in `audit`.
        knows: what an attacker knows, as keywords of `Knows`.
        how: how a table is read, as further keywords of `audit`.
        key: seed.
    """
    stated = {k: v for k, v in knows.items() if v is not None}
    asked = Asked(knows=stated, key=key)
    grams = Differences(released, asked).grams
    found = [
        _determined(examined(one, asked).determined) | {"grams": list(map(_packed, grams[one.name]))}
        for one in released
    ]
    table = _table(path, model, how, stated) if is_table(str(path)) and len(released) == 1 else None
    return {"name": path.name, "kind": kind, **digests(path), "released": found, "table": table}


def entry_of_mode(path: Path, result: Sanitised) -> Json:
    """The entry of a sanitised mode with its covariance, which determines statistics to within its measure."""
    assert result.release is not None
    rows, errors = list[Row](), {one.name: one.scatter for one in result.statistics}
    for row in recovered(result.release).judged():
        if row.estimate is None or (error := errors.get(row.name)) is None:
            rows.append(Row(row.name))
            continue
        se = error / math.sqrt(1 + NO_END / result.worth)  # without the measure, whose error is added where they count
        ends = row.estimate - Z95 * se, row.estimate + Z95 * se
        rows.append(Row(row.name, row.estimate, se, *ends, se, 1.0, "determined", NO_END))
    known = _determined(Determined(tuple(rows), None, result.worth, measure=result.measure))
    kind = "mode with its covariance"
    return {"name": path.name, "kind": kind, **digests(path), "released": [known | {"grams": []}], "table": None}


def _table(path: Path, model: object, how: Mapping[str, Any], knows: Mapping[str, Any]) -> Json | None:
    """A table and how to read it; None if that cannot be said in a document."""
    plain = isinstance(model, str) and not set(knows) & {"known", "fit_weights", "offset", "factors"}
    if not plain or how.get("correlations") is not None:
        return None
    with suppress(UnicodeDecodeError, OSError):
        text = path.read_text(encoding="utf-8")
        return {"text": text, "model": model, **how} if len(text) <= _LONGEST else None
    return None


def _determined(by: Determined | None) -> Json:
    by = Determined(()) if by is None else by
    draws = None if by.draws is None else packed(shown(by.draws))
    rows = [asdict(row) for row in by.rows]
    return {"rows": rows, "draws": draws, "worth": by.worth, "guaranteed": by.guaranteed, "measure": by.measure}


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
        table = None if entry["table"] is None else _read(entry)
        for i, one in enumerate(entry["released"], 1):
            number = f"{entry['id']}.{i}" if len(entry["released"]) > 1 else entry["id"]
            name = f"{entry['name']} of {entry['date'][:10]} (entry {number})"
            draws = None if one["draws"] is None else unpacked(one["draws"])
            rows = tuple(Row(**row) for row in one["rows"])
            marks = one["worth"], one["guaranteed"], one.get("measure")
            determined = Determined(rows, draws, *marks) if rows else None
            grams = [_unpacked(name, gram) for gram in one["grams"]]
            release = None if table is None else replace(table, name=name)
            found.append(Released(name, release, grams=grams, determined=determined, part=entry.get("part")))
    return found


def _read(entry: Json) -> Release | None:
    """The printed table of an entry."""
    how = {k: v for k, v in entry["table"].items() if k not in ("text", "model")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table").with_suffix(Path(entry["name"]).suffix)
        path.write_text(entry["table"]["text"], encoding="utf-8")
        with suppress(BayesreconError):  # another version reads less
            return from_table(path, entry["table"]["model"], **how)
    return None


def _unpacked(name: str, entry: Json) -> Gram:
    noise = None if entry["noise"] is None else unpacked(entry["noise"])
    return Gram(name, tuple(entry["fields"]), unpacked(entry["matrix"]), unpacked(entry["columns"]), entry["n"], noise)
