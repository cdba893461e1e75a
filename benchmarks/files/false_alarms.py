"""How often does an audit match values with private columns that they have nothing to do with? FALSE_ALARMS.md.

python -m benchmarks.files.false_alarms [--audits 125] [--to DIR] [--page]

Every audit has a table of 50 columns and a file of arrays that were made independently of it. Then copies of the same
columns are compared, to count those that are missed. A run that was interrupted goes on where it ended.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayesrecon.evaluate.column_matches import Matching
from benchmarks.study import Study, share, table

SIZES = (5, 8, 12, 20, 50, 91, 200, 500)
COLUMNS = 50
_BLOCK = 25  # audits that are kept together

Draw = Callable[[int, np.random.Generator], np.ndarray]

KINDS: Mapping[str, Draw] = {
    "binary": lambda n, rng: rng.integers(0, 2, n),
    "Likert": lambda n, rng: rng.integers(1, 6, n),
    "ages": lambda n, rng: rng.integers(18, 90, n),
    "reals": lambda n, rng: np.round(rng.normal(size=n), 6),
    "reals of 2 digits": lambda n, rng: np.round(rng.normal(size=n), 2),
    "sorted ids": lambda n, rng: np.sort(rng.choice(10 * n, n, replace=False)),
    "shuffled ids": lambda n, rng: 1000 + rng.permutation(n),
    "names": lambda n, rng: np.array([f"id-{v:06d}" for v in rng.choice(10**6, n, replace=False)]),
}
"""Kinds of columns, and of arrays in a file."""

OTHERS: Mapping[str, Draw] = {
    "running numbers": lambda n, rng: np.arange(n),
    "draw numbers": lambda n, rng: np.arange(1000),
    "a grid": lambda n, rng: np.linspace(0, 1, n),
    "draws": lambda n, rng: rng.normal(size=1000),
    "sorted draws": lambda n, rng: np.sort(rng.normal(size=n)),
    "a walk": lambda n, rng: np.cumsum(rng.normal(size=n)),
    "counts": lambda n, rng: rng.poisson(3, n),
    "step counts": lambda n, rng: 2 ** rng.integers(2, 6, 1000) - 1,
    "chain numbers": lambda n, rng: np.repeat(np.arange(4), -(-n // 4))[:n],
    "a matrix": lambda n, rng: rng.normal(size=(n, 3)),
}
"""What else a file has."""

CHANGES: Mapping[str, Draw] = {
    "in order": lambda x, rng: x,
    "in another order": lambda x, rng: rng.permutation(x),
    "rounded to 2 digits": lambda x, rng: np.round(x, 2),
    "with noise of 0.05 sd": lambda x, rng: x + 0.05 * x.std() * rng.normal(size=len(x)),
}  # type: ignore[assignment]

INTRODUCTION = """# False alarms of matches with private columns

Made by `python -m benchmarks.files.false_alarms`. Every audit compares the arrays of a file with {columns} private
columns: {kinds}. The arrays were made independently of the columns: {kinds} in the same numbers, and {others}. An audit
counts as false if any array matches any column. The bound that is asked for is one false match in 1,000 audits.
"""


def audited(size: int, number: int) -> dict[str, Any]:
    """The kinds of arrays that match by chance in one audit, and which copies are found."""
    rng = np.random.default_rng([size, number])
    names = [*KINDS][: len(KINDS)]
    columns = {f"{names[k % len(names)]} {k}": KINDS[names[k % len(names)]](size, rng) for k in range(COLUMNS)}
    arrays = {kind: draw(size, rng) for kind, draw in {**KINDS, **OTHERS}.items()}
    named = Matching(columns, len(arrays))
    false = [kind for kind, values in arrays.items() if named(values)]
    copies = {}
    for k, kind in enumerate(names):
        column = columns[f"{kind} {k}"]
        for change, altered in CHANGES.items():
            real = kind == "reals"
            if (change.startswith("in") or real) and not (change == "in another order" and kind == "sorted ids"):
                found = named(altered(column, rng))
                copies[f"{kind}, {change}"] = found is not None and found.startswith(f"'{kind} {k}'")
    return {"false": false, "copies": copies}


def block(size: int, first: int) -> dict[str, Any]:
    began, audits = time.process_time(), [audited(size, first + k) for k in range(_BLOCK)]
    copies = Counter(name for one in audits for name, found in one["copies"].items() if found)
    return {
        "size": size,
        "first": first,
        "false": sum(bool(one["false"]) for one in audits),
        "kinds": dict(Counter(kind for one in audits for kind in one["false"])),
        "found": {name: copies[name] for name in audits[0]["copies"]},
        "seconds": time.process_time() - began,
    }


def page(rows: list[dict[str, Any]]) -> str:
    kinds, others = ", ".join(KINDS), ", ".join(OTHERS)
    lines = [INTRODUCTION.format(columns=COLUMNS, kinds=kinds, others=others)]
    sizes = sorted({row["size"] for row in rows})
    of = {size: [row for row in rows if row["size"] == size] for size in sizes}
    listed = []
    for size, some in [*of.items(), ("all", rows)]:
        alarms = Counter()
        for row in some:
            alarms.update(row["kinds"])
        hits = [True] * sum(row["false"] for row in some)
        hits += [False] * (len(some) * _BLOCK - len(hits))
        listed.append([size, ", ".join(f"{k} {v}" for k, v in alarms.items()), sum(hits), *share(hits)])
    lines.append(table(["N", "arrays that match", "false", "audits", "share", "95 % interval"], listed, words=2))
    lines += ["", "## Copies that are found", ""]
    names = [*rows[0]["found"]] if rows else []
    found = [
        [name, *(f"{sum(r['found'][name] for r in some) / (len(some) * _BLOCK):.0%}" for some in of.values())]
        for name in names
    ]
    lines.append(table(["copy", *(f"N = {size}" for size in sizes)], found))
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    given = STUDY.given(STUDY.parser(__doc__, audits=125))
    for first in range(0, given.audits, _BLOCK):
        for size in SIZES:
            if not any((row["size"], row["first"]) == (size, first) for row in STUDY.kept()):
                row = block(size, first)
                STUDY.keep([*STUDY.kept(), row])
                print(size, first, row["false"], row["kinds"], f"{row['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
