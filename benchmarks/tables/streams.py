"""Streams of published tables and posteriors: what all of them give away that none of them does."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import bayesrecon
from bayesrecon.auditing.audit import released_by
from bayesrecon.auditing.cumulative import KIND as TOGETHER
from bayesrecon.auditing.together import KIND as BETWEEN
from bayesrecon.posteriors.printed.footers import cell
from bayesrecon.results.audit import Audit
from benchmarks.study import Study, share, table

DIGITS, MONTHS, PEOPLE, SITE, FOLD = 6, 12, 200, 6, 6
FIELDS = ("age", "income")
_GROUP = re.compile(r" of (fold \d+|fifth) by difference")
POSTERIORS = 10

KINDS = {
    "control": f"control: {MONTHS} tables of other people",
    "exchange": f"{MONTHS} monthly refits, 5 join and 5 leave",
    "joined": f"{MONTHS} monthly refits, one joins",
    "corrected": f"{MONTHS} monthly refits, one value of one person corrected each month",
    "sites": f"five sites and their pool, less the fifth ({SITE} people)",
    "leave-one-out": "leave-one-out, 40 people",
    "folds": f"ten training folds of {10 * FOLD} people, and all of them",
    "stated folds": "the same, if it is stated who is in which fold",
}
INTRODUCTION = f"""# What a stream of outputs gives away

Made by `python -m benchmarks.tables.streams`. Each stream is a list of printed least-squares tables of one covariate,
to {DIGITS} digits and with n, which `bayesrecon.audit` examines together, as `audit --ledger` does with each new one.
*Alone*: people who are all that two of the tables differ by. *Named*: people whom the audit states. *Right*: of these,
those who are such a person, with all values in the first interval. *Groups right*: differences of two to nine records
that are stated, and of these those whose means are in their intervals. *Pooled*: streams of which the audit combines
statistics of several tables as those of the same records. The first row is the control: nothing should be stated.

![Leave-one-out fits, monthly refits, the fifth of five sites, and posteriors of the same data](streams.png)

"""
READING = """
* **Monthly refits in which as many join as leave** name nobody: no two tables differ by one person alone. What they
  reveal is differences of totals.
* **One who joins alone** is the difference of two months, and **leave-one-out** fits are all records.
* **Corrections** leave n as it is. The audit does not take such tables for tables of the same records, and it does not
  look for the corrected value.
* **The pool less four sites** is the fifth, which was never published by itself; the audit has to be told which site is
  in which table (`--membership`).
* **Cross-validation**: all less a training fold are the people of the fold. That the tables are related is seen by
  itself only if a fold is one person (leave-one-out). If it is stated (`--membership`), the means of each fold follow.
  Folds of ten and more people are not looked at.
"""


@dataclass(frozen=True)
class Stream:
    """Published tables.

    Attributes:
        records: `(n, 2)`, of all people, corrected ones again.
        members: positions of the people of each table.
        contains: which table contains which, if that is stated.
    """

    records: np.ndarray
    members: list[np.ndarray]
    contains: dict[str, list[str]] | None = None

    def group(self, name: str) -> np.ndarray:
        """Positions of the people of a group that no table has by itself."""
        left = [self.members[int(name.removeprefix("fold ")) + 1]] if name.startswith("fold") else self.members[1:]
        return np.setdiff1d(self.members[0], np.concatenate(left))


def people(rng: np.random.Generator, n: int) -> np.ndarray:
    age = rng.normal(50, 9, n)
    return np.column_stack([age, 20 + 0.5 * age + rng.normal(0, 5, n)])


def stream(kind: str, rng: np.random.Generator) -> Stream:
    if kind == "control":
        sizes = PEOPLE + rng.integers(5, size=MONTHS)
        ends = np.cumsum(sizes)
        return Stream(people(rng, ends[-1]), [np.arange(b - n, b) for n, b in zip(sizes, ends, strict=True)])
    if kind in ("exchange", "joined"):
        first, width = (5, 0) if kind == "exchange" else (0, 1)
        members = [np.arange(first * m, first * m + PEOPLE + width * m) for m in range(MONTHS)]
        return Stream(people(rng, members[-1][-1] + 1), members)
    if kind == "corrected":
        records, who = people(rng, PEOPLE), rng.integers(PEOPLE, size=MONTHS - 1)
        members, now = [np.arange(PEOPLE)], np.arange(PEOPLE)
        for month, k in enumerate(who):
            changed = records[now[k]] + rng.normal(size=2) * (5, 0)
            records, now = np.vstack([records, changed]), np.where(np.arange(PEOPLE) == k, PEOPLE + month, now)
            members.append(now)
        return Stream(records, members)
    if kind == "sites":
        sizes = [*rng.integers(40, 61, 4), SITE]
        parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        names = [f"table {i}" for i in range(2, 6)]
        return Stream(people(rng, sum(sizes)), [np.arange(sum(sizes)), *parts[:4]], {"table 1": [*names, "fifth"]})
    n, left = (40, 1) if kind == "leave-one-out" else (10 * FOLD, FOLD)
    every = np.arange(n)
    parts = [np.setdiff1d(every, every[k : k + left]) for k in range(0, n, left)]
    folds = [f"fold {k}" for k in range(len(parts))]
    contains = {"table 1": folds} | {f"table {k + 2}": [*folds[:k], *folds[k + 1 :]] for k in range(len(parts))}
    return Stream(people(rng, n), [every, *parts], contains if kind == "stated folds" else None)


def printed(records: np.ndarray) -> pd.DataFrame:
    """The table of a regression."""
    z, y = np.column_stack([np.ones(len(records)), records[:, 0]]), records[:, 1]
    b = np.linalg.lstsq(z, y, rcond=None)[0]
    s = np.sqrt(((y - z @ b) ** 2).sum() / (len(y) - 2))
    se = s * np.sqrt(np.diag(np.linalg.inv(z.T @ z)))
    rows = [[cell(v, DIGITS), cell(e, DIGITS)] for v, e in zip(b, se, strict=True)]
    rows += [[cell(s, DIGITS), ""], [str(len(y)), ""]]
    return pd.DataFrame(rows, ["const", FIELDS[0], "sigma", "N"], ["coef", "se"])


def audited(one: Stream) -> Audit:
    tables = [printed(one.records[members]) for members in one.members]
    options = {} if one.contains is None else {"membership": one.contains}
    known: Any = {"domain": {FIELDS[0]: (0, 120)}, "response": FIELDS[1], **options}
    return bayesrecon.audit(tables, "ols", remedies=False, **known)


def stated(one: Stream, audit: Audit) -> Iterator[tuple[np.ndarray, dict[str, tuple[float, float, float]], int]]:
    """What an audit states of the records between tables: who they are, their means with limits, and how many."""
    for finding in audit:
        if finding.kind != BETWEEN or finding.severity == "info":
            continue
        if group := _GROUP.search(finding.title):
            between, kept = one.group(group[1]), True
        else:
            at = sorted((one.members[int(name.removeprefix("table ")) - 1] for name in finding.where), key=len)
            between = np.setdiff1d(at[-1], np.concatenate(at[:-1]))
            kept = len(at[-1]) - len(between) == sum(map(len, at[:-1]))  # the parts are in the whole
        count = int(finding.evidence[0].estimate or 0)
        values = {
            item.name.removeprefix("mean(").partition(")")[0]: (item.estimate, item.lower, item.upper)
            for item in finding.evidence[1:]
        }
        yield between if kept and len(between) == count else between[:0], values, count  # type: ignore[misc]


def alone(one: Stream) -> int:
    """The number of people who are all that two tables differ by."""
    sets = [set(map(int, members)) for members in one.members]
    found = {min(a - b) for a in sets for b in sets if len(a - b) == 1 and not b - a}
    return len(found)


def measured(kind: str, streams: int) -> dict[str, Any]:
    """One row."""
    rng, began = np.random.default_rng(list(kind.encode())), time.process_time()
    row: dict[str, Any] = {"kind": kind, "streams": streams, "alone": 0, "named": 0, "right": 0, "groups": 0}
    row |= {"right groups": 0, "pooled": 0, "tables": 0}
    for _ in range(streams):
        one = stream(kind, rng)
        audit = audited(one)
        row["alone"], row["tables"] = row["alone"] + alone(one), row["tables"] + len(one.members)
        row["pooled"] += any(f.kind == TOGETHER and f.evidence for f in audit)
        named: set[int] = set()
        for who, values, count in stated(one, audit):
            true = dict(zip(FIELDS, one.records[who].mean(axis=0), strict=True)) if len(who) else {}
            hit = bool(true) and all(low <= true[f] <= high for f, (_, low, high) in values.items())
            if count > 1:
                row["groups"], row["right groups"] = row["groups"] + 1, row["right groups"] + hit
            elif not hit:
                row["named"] += 1
            elif int(who[0]) not in named:
                named.add(int(who[0]))
                row["named"], row["right"] = row["named"] + 1, row["right"] + 1
    return row | {"seconds": (time.process_time() - began) / streams}


def averaged() -> list[dict[str, float]]:
    """Posteriors of the same data, and the interval of a mean from the first k of them together."""
    from dataclasses import replace

    from bayesrecon.auditing.cumulative import find
    from bayesrecon.auditing.look import Asked

    rng = np.random.default_rng(5)
    x = rng.normal(0, 1, PEOPLE)
    y = 1 + 2 * x + rng.normal(size=PEOPLE)
    z = np.column_stack([np.ones(PEOPLE), x])
    covariance = np.linalg.inv(z.T @ z)
    model, kept, rows = bayesrecon.models.load("linear_predictor"), [], []
    for k in range(POSTERIORS):
        b = covariance @ z.T @ y + rng.normal(size=(4, 500, 2)) @ np.linalg.cholesky(covariance).T
        _, (one,) = released_by({"intercept": b[..., :1], "coef": b[..., 1:, None]}, model)
        kept.append(replace(one, name=f"posterior {k + 1}"))
        asked = Asked(earlier=tuple(o.name for o in kept[1:]))
        found = find(kept, asked)[0] if k else None
        known = {r.name: r for r in kept[0].determined.rows} if kept[0].determined else {}
        item = known["n"] if found is None else next(i for i in found.evidence if i.name == "n")
        rows.append({"outputs": k + 1, "n": item.estimate, "lower": item.lower, "upper": item.upper})  # type: ignore[dict-item]
    return rows


def line(row: dict[str, Any]) -> list[str]:
    def part(hits: int, of: int) -> str:
        _, rate, range_ = share([True] * hits + [False] * (of - hits))
        return f"{hits} of {of}, {rate} ({range_})" if of else "–"

    named = part(row["right"], row["named"])
    groups = part(row["right groups"], row["groups"])
    counts = [str(row[name]) for name in ("streams", "alone", "named")]
    return [KINDS[row["kind"]], *counts, named, groups, str(row["pooled"]), f"{row['seconds']:.2f} s"]


def page(kept: dict[str, Any]) -> str:
    head = ["stream", "streams", "alone", "named", "right", "groups right", "pooled", "CPU"]
    text = table(head, [line(row) for row in kept["rows"]])
    first, last = kept["posteriors"][0], kept["posteriors"][-1]
    widths = [row["upper"] - row["lower"] for row in (first, last)]
    more = (
        f"* **{POSTERIORS} posteriors of the same data**, each of its own run of the sampler: the interval of n is "
        f"{widths[0] / widths[1]:.1f} times as narrow as that of one ({last['lower']:.1f} to {last['upper']:.1f}, in "
        f"place of {first['lower']:.1f} to {first['upper']:.1f}; {PEOPLE} are right). That they are of the same "
        "records is a premise, which the audit states.\n"
    )
    return INTRODUCTION + text + "\n" + READING + more


def draw(kept: dict[str, Any]) -> None:
    """The figure."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), layout="constrained")
    _leave_one_out(axes[0, 0])
    _months(axes[0, 1])
    _sites(axes[1, 0])
    posteriors = kept["posteriors"]
    k, n, low, high = (np.array([row[name] for row in posteriors]) for name in ("outputs", "n", "lower", "upper"))
    axes[1, 1].fill_between(k, low, high, alpha=0.25, color="C0", linewidth=0, label="95 % interval")
    axes[1, 1].plot(k, n, "o-", color="C0", ms=4, label="from all of them together")
    axes[1, 1].axhline(PEOPLE, color="C1", linestyle="--", label="true number of records")
    axes[1, 1].set(xlabel="posteriors of the same data", ylabel="n", title="independent noise averages out")
    axes[1, 1].legend(frameon=False)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.savefig(STUDY.folder / "streams.png", dpi=150)
    plt.close(figure)


def _leave_one_out(axes: Any) -> None:
    one = stream("leave-one-out", np.random.default_rng(1))
    found = [(who[0], values) for who, values, count in stated(one, audited(one)) if count == 1 and len(who)]
    for field, name in enumerate(FIELDS):
        true = [one.records[who, field] for who, values in found if name in values]
        told = np.array([values[name] for _, values in found if name in values])
        half = np.abs(told[:, 1:] - told[:, :1]).T
        axes.errorbar(true, told[:, 0], half, fmt="o", ms=4, label=name, color=f"C{field}")
    axes.axline((40, 40), slope=1, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xlabel="true value", ylabel="all less one fit")
    axes.set_title(f"leave-one-out: {len(found)} of 40 people")
    axes.legend(frameon=False)


def _months(axes: Any) -> None:
    names = {"joined": "one joins", "exchange": "5 join and 5 leave", "control": "control: other people"}
    for kind, label in names.items():
        one = stream(kind, np.random.default_rng(2))
        named = [
            len({int(who[0]) for who, _, count in stated(part, audited(part)) if count == 1 and len(who)})
            for part in (Stream(one.records, one.members[:k]) for k in range(2, MONTHS + 1))
        ]
        axes.plot(range(2, MONTHS + 1), named, "o--" if kind == "control" else "o-", label=label, ms=4)
    axes.set(xlabel="months published", ylabel="people named")
    axes.set_title("monthly refits")
    axes.legend(frameon=False)


def _sites(axes: Any) -> None:
    rng = np.random.default_rng(3)
    for repeat in range(25):
        one = stream("sites", rng)
        for who, values, _ in stated(one, audited(one)):
            if len(who) == SITE and FIELDS[1] in values:
                told, low, high = values[FIELDS[1]]
                true = one.records[who, 1].mean()
                label = None if repeat else "mean of the fifth site"
                axes.errorbar([true], [told], [[told - low], [high - told]], fmt="o", ms=4, color="C0", label=label)
    axes.axline((45, 45), slope=1, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xlabel=f"true mean {FIELDS[1]} of its {SITE} people", ylabel="pool less four sites")
    axes.set_title("a site that was never published")
    axes.legend(frameon=False)


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__, streams=100)
    given = STUDY.given(parser)
    kept = STUDY.kept() or {"rows": [], "posteriors": averaged()}
    for kind in KINDS:
        if not any(row["kind"] == kind for row in kept["rows"]):
            kept["rows"].append(measured(kind, given.streams))
            STUDY.keep(kept)
            print(*line(kept["rows"][-1]), sep=" | ", flush=True)
    draw(kept)


if __name__ == "__main__":
    main()
