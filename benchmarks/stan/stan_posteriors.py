"""Posteriors of posteriordb by their own Stan programs, beside the models that are written for them by hand."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.stan.apart import Row

CLOSE = 1e-6
WIDE = 1e-2  # where the spectrum decays, and rounding decides where it is cut off
SMALL = 1e-6  # below which numbers are compared as they are: a centred column has mean 0
RECORDS, POINTS = 20, 3  # at which the terms of two models are compared

WORDS = {
    "equal": "the same as by the model that is written by hand",
    "differs": "something else than by the model that is written by hand",
    "alone": "a result; no model is written by hand",
    "no draws": "no draws in the database",
    "refused": "no record is read off the program",
    "slow": "too slow",
    "failed": "an error",
}


NO_DRAWS: Row = {"status": "no draws"}


def drawn(name: str) -> bool:
    """Whether there are draws of a posterior."""
    from bayesrecon.posteriors.fitting.database import has_reference_draws, open_database

    return has_reference_draws(open_database(), name)


def names() -> list[str]:
    """All posteriors, those with draws first."""
    from bayesrecon.posteriors.fitting.database import open_database, posterior_names

    return sorted(posterior_names(open_database()), key=lambda name: not drawn(name))


def posterior(name: str) -> Row:
    """What one posterior gives by its own program, and whether its twin gives the same."""
    from bayesrecon.errors import BayesreconError
    from bayesrecon.models.registry import load, shipped
    from bayesrecon.posteriors.fitting.database import open_database, read_data
    from bayesrecon.posteriors.fitting.programs import own_program

    database = open_database()
    try:
        model, records = own_program(database, name)
    except BayesreconError as error:
        return {"status": "refused", "why": str(error)[:300]}
    row: Row = {"fields": list(model.fields), "records": len(next(iter(records.values())))}
    entry = next((e for e in shipped().values() if name in e.posteriors and e.records is not None), None)
    twin = None
    if entry is not None:
        assert entry.records is not None
        data = read_data(database, name)
        twin, theirs = load(entry.name, **(entry.constants(data) if entry.constants else {})), entry.records(data)
        row |= {"twin": entry.name, "same": _paired(records, theirs)}
        row["terms"] = _terms(model, records, twin, theirs)
    if not drawn(name):
        return {**row, **NO_DRAWS}
    return {**row, **_recovered(database, name, model, twin, row.get("same", {}))}


def _paired(own: Mapping[str, Any], twin: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Fields that hold the same data up to a shift, `{own name: (name in the twin, shift)}`; of several the one of the
    same name."""
    found: dict[str, tuple[str, float]] = {}
    for k, v in own.items():
        for other, w in sorted(twin.items(), key=lambda pair: pair[0] != k):
            one, two = np.asarray(v, float), np.asarray(w, float)
            taken = {name for name, _ in found.values()}
            if other not in taken and one.shape == two.shape and np.ptp(one - two) <= 1e-9 * (1 + np.abs(two).max()):
                found[k] = other, float(np.round(np.mean(one - two), 9))
                break
    return found


def _terms(model: Any, records: Any, twin: Any, theirs: Any) -> float | None:
    """By how much the terms of the same records differ between two points, relative to their size; None where the two
    have other parameters, or other records."""
    import jax

    from bayesrecon.precision import x64

    shapes = {p.name: p.shape for p in model.parameters}
    count, other = len(next(iter(records.values()))), len(next(iter(theirs.values())))
    if shapes != {p.name: p.shape for p in twin.parameters} or count != other:
        return None
    rng = np.random.default_rng(0)
    rows = rng.permutation(count)[:RECORDS]
    mine, hers = ({k: np.asarray(v)[rows] for k, v in z.items()} for z in (records, theirs))
    with x64():
        points = jax.vmap(model.constrain)(rng.normal(size=(POINTS, model.dimension)) * 0.3)
        one, two = (
            np.diff(jax.jit(jax.vmap(jax.vmap(m.log_lik_at, in_axes=(None, 0)), in_axes=(0, None)))(points, z), axis=0)
            for m, z in ((model, mine), (twin, hers))
        )
    return float(np.abs(one - two).max() / (1 + np.abs(two).max()))


def _recovered(database: Any, name: str, model: Any, twin: Any, same: Mapping[str, tuple[str, float]]) -> Row:
    from bayesrecon.attacks.recovery import recover
    from bayesrecon.posteriors.fitting.database import read_reference_draws
    from bayesrecon.posteriors.sources import from_draws

    draws = read_reference_draws(database, name)
    release = from_draws(draws, model, name=name, ignore_unknown=True)
    one = recover(release, force=True)
    row: Row = {"rank": one.rank, "finite": bool(one.gap), **_counted(one)}
    if twin is None:
        return {**row, "status": "alone"}
    other = recover(from_draws(draws, twin, name=name), force=True)
    row["twin_rank"] = other.rank
    compared = _compared(one, other, same)
    stated = {
        k: _shifted(twin.fields[t].domain, shift)
        for k, (t, shift) in same.items()
        if twin.fields[t].domain != model.fields[k].domain and twin.fields[t].shape == model.fields[k].shape
    }
    if stated and compared["apart"] > CLOSE:
        # What only the twin says of its fields is stated here, too.
        one = recover(release, force=True, domain=stated)
        compared = _compared(one, other, same)
        row |= {"rank": one.rank, "finite": bool(one.gap), **_counted(one), "stated": sorted(stated)}
    equal = compared["apart"] <= (CLOSE if one.gap and other.gap else WIDE) and not compared["verdicts"]
    return {**row, **compared, "status": "equal" if equal else "differs"}


def _shifted(domain: Any, by: float) -> Any:
    return replace(domain, low=domain.low + by, high=domain.high + by, levels=tuple(v + by for v in domain.levels))


def _counted(result: Any) -> Row:
    return {
        "statistics": len(result),
        "determined": sum(r.verdict == "determined" for r in result),
        "consistent": bool(result.consistent),
    }


def _compared(one: Any, other: Any, same: Mapping[str, tuple[str, float]]) -> Row:
    """The largest distance of estimates that both give, relative to their size or standard error, and verdicts that
    differ."""
    theirs = {_sorted(r.name): r for r in other}
    apart, verdicts, shared = 0.0, [], 0
    for r in one:
        name = _sorted(re.sub(r"[A-Za-z_]\w*", lambda m: same.get(m.group(), (m.group(), 0))[0], r.name))
        if name not in theirs:
            continue
        twin, shared = theirs[name], shared + 1
        if r.verdict != twin.verdict:
            verdicts.append(r.name)
        if r.estimate is not None and twin.estimate is not None:
            shift = same[r.name[5:-1]][1] if r.name.startswith("mean(") and r.name[5:-1] in same else 0.0
            size = max(abs(r.estimate), abs(twin.estimate), twin.se or 0.0, SMALL)
            apart = max(apart, abs(r.estimate - shift - twin.estimate) / size)
    return {"shared": shared, "apart": apart, "verdicts": verdicts}


def _sorted(name: str) -> str:
    """A covariance by its fields in order."""
    found = re.fullmatch(r"cov\((.+?),(\w+(?:\[\d+\])?)\)", name)
    return f"cov({','.join(sorted(found.groups()))})" if found else name


def section(rows: Mapping[str, Row]) -> list[str]:
    """The section of the page."""
    if not rows:
        return []
    many = {s: sum(r["status"] == s for r in rows.values()) for s in WORDS}
    told = [f"{many[s]} {WORDS[s]}" for s in WORDS if many[s]]
    terms = [r["terms"] for r in rows.values() if r.get("terms") is not None]
    lines = [
        "",
        "## Posteriors by their own programs",
        "",
        "Every posterior is taken with its own program and the constants of its data, and `recover` is run on its "
        "reference draws. Where a model is written by hand, it is run on the same draws: verdicts have to be the same, "
        f"and estimates to {CLOSE:g} of themselves ({WIDE:g} where the spectrum decays). *Stated* are fields of which "
        "the program says less than that model, and which were given its domain. *Terms*: by how much the two differ "
        "in the terms of records, where "
        "their parameters are the same. Models that were written by hand and were equal are no longer shipped, and "
        "their programs are used instead.",
        "",
        f"Of {len(rows)} posteriors: {'; '.join(told)}. Terms of {len(terms)} were compared; the largest difference "
        f"is {max(terms):.1g}."
        if terms
        else f"Of {len(rows)} posteriors: {'; '.join(told)}.",
        "",
        "| posterior | what | rank | by hand | determined | shared | apart | terms | stated |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, r in sorted(rows.items()):
        what = WORDS[r["status"]]
        if r["status"] == "differs" and r.get("verdicts"):
            what += f" ({', '.join(r['verdicts'][:3])})"
        if r["status"] in ("refused", "slow", "failed"):
            what = str(r.get("why", what))
        of = f"{r['determined']} of {r['statistics']}" if "determined" in r else ""
        numbers = [f"{r[k]:.1e}" if r.get(k) is not None else "" for k in ("apart", "terms")]
        cells = [
            name,
            what,
            str(r.get("rank", "")),
            str(r.get("twin_rank", "")),
            of,
            str(r.get("shared", "")),
            *numbers,
        ]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + f" | {', '.join(r.get('stated', []))} |")
    return lines
