"""Pairs of printed regressions that differ by one record, and what the difference of their totals tells."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from bayesrecon.attacks.differences.gram import Gram, Number, gram_of
from bayesrecon.attacks.differences.one_record import Between
from bayesrecon.attacks.differences.search import search
from benchmarks.study import Study, share, table

DIGITS = 6
TABLES = 12  # of an audit of unrelated tables
NAMED = 0.1 * 1.96  # half width in standard deviations, as for findings of high severity

KINDS = {
    "nested": "one record less",
    "corrected": "one less, and a value of another corrected by 0.5 sd",
    "slightly corrected": "one less, and a value of another corrected by 0.001 sd",
    "exchanged": "one less, and another record exchanged",
    "as many": "one record exchanged, and nothing else",
    "as many, corrected": "one record exchanged, and a value of another corrected by 0.5 sd",
    "as many, slightly corrected": "one record exchanged, and a value of another corrected by 0.001 sd",
    "value": "a value of one record corrected by 0.5 sd, and nothing else",
    "two exchanged": "two records exchanged, and nothing else",
}
FEWER = {
    "as many": 0.4,
    "as many, corrected": 0.4,
    "as many, slightly corrected": 0.04,
    "value": 0.04,
    "two exchanged": 0.4,
}  # shares of the pairs
INTRODUCTION = f"""# What the difference of two printed regressions gives away

Made by `python -m benchmarks.tables.differences`. Least-squares fits of 50 to 500 simulated records are printed to
{DIGITS} significant digits, with n and their correlations to {DIGITS} decimals. Means of covariates are up to five
standard deviations from zero. *Named*: of all pairs, those for which a person is stated. *First interval*: "if the
tables differ by one record and nothing else", holds all values of the missing person, of those that are named. *Second
interval*: "if a value was corrected as well, or another record exchanged". A field whose totals do not agree is left
out: a large correction of a value of another record hides that field alone, and the person is named by the rest. If
another record was exchanged, all totals disagree, and hardly anybody is named: only by a single field that agrees by
chance, and the second interval then holds what such a chance leaves.

Tables of as many records may differ by one record that was exchanged. Then both records follow, under the condition
that all others are the same; the rows are about the one of the first table. Its second interval covers a value of
another record that was corrected; a second exchange leaves everything open. The last rows are the null: {TABLES} tables
of other people of the same population, whose numbers of records are 200 to 204 or 100 to 104, or all the same, are
compared in all pairs and triples; *named* counts audits that state anybody.
"""


def printed(values: np.ndarray) -> list[Number]:
    """Numbers with so many significant digits, and half the unit of the last."""
    texts = [f"{v:.{DIGITS - 1}e}" for v in values]
    return [(float(text), 0.5 * 10.0 ** (int(text.partition("e")[2]) - DIGITS + 1)) for text in texts]


def fitted(records: np.ndarray, name: str, without: str = "") -> Gram | None:
    """The Gram matrix behind the table of records `(n, K)`, whose last column is the response.

    Args:
        without: what is not printed, "n" or "correlations". The signs of means are then known.
    """
    n, p = records.shape
    z, y = np.column_stack([np.ones(n), records[:, :-1]]), records[:, -1]
    inverse = np.linalg.inv(z.T @ z)
    b = np.linalg.lstsq(z, y, rcond=None)[0]
    s = np.sqrt(((y - z @ b) ** 2).sum() / (n - p))
    size = np.sqrt(np.diag(inverse))
    related = (inverse / np.outer(size, size))[np.tril_indices(p, -1)]
    fields = [*(f"x{k}" for k in range(1, p)), "y"]
    correlations = [(round(r, DIGITS), 0.5 * 10.0**-DIGITS) for r in related]
    (scale,) = printed(np.array([s]))
    sign = float(np.sign(records[:, 0].mean()))
    related, count = None if without == "correlations" else correlations, None if without == "n" else n
    return gram_of(name, fields, printed(b), printed(s * size), scale, related, count, sign)


def population(rng: np.random.Generator, covariates: int) -> Any:
    """A function that draws records of one population."""
    mix = np.eye(covariates) + 0.4 * rng.normal(size=(covariates, covariates))
    sd, mean = 10 ** rng.uniform(-1, 2, covariates + 1), rng.uniform(-5, 5, covariates + 1)
    slope = rng.normal(size=covariates)

    def draw(n: int) -> np.ndarray:
        x = rng.normal(size=(n, covariates)) @ mix.T
        return sd * (mean + np.column_stack([x, x @ slope + rng.normal(size=n)]))

    return draw


def pair(rng: np.random.Generator, kind: str, covariates: int, without: str) -> tuple[np.ndarray, list[Gram | None]]:
    """The missing record, and both tables."""
    n = int(rng.integers(50, 501))
    every = population(rng, covariates)(n + 1 + (kind == "two exchanged"))
    whole, rest = every[:n], every[1:n].copy()
    if kind.startswith("as many"):
        rest = every[1:].copy()
    elif kind == "two exchanged":
        rest = every[2:]
    elif kind == "value":
        rest = whole.copy()
    if kind == "exchanged":
        rest[0] = every[n]
    elif kind == "value" or "corrected" in kind:
        k = rng.integers(covariates + 1)
        rest[0, k] += rng.choice([-1, 1]) * (1e-3 if "slightly" in kind else 0.5) * whole[:, k].std()
    return whole[0], [fitted(whole, "whole", without), fitted(rest, "rest", without)]


def measured(kind: str, covariates: int, pairs: int, without: str = "") -> dict[str, Any]:
    """One row."""
    rng, began, named, first, second = np.random.default_rng(covariates), time.process_time(), 0, [], []
    for _ in range(pairs):
        true, (whole, rest) = pair(rng, kind, covariates, without)
        result = search([] if whole is None or rest is None else [[whole], [rest]])
        of_whole = (found for found in result.found if found.whole == "whole")
        for found in filter(is_named, of_whole):
            named += 1
            values = true[[whole.fields.index(f) for f in found.fields]]
            first.append(bool((np.abs(values - found.estimate) <= found.half).all()))
            second.append(bool(((found.lower <= values) & (values <= found.upper)).all()))
    spent = time.process_time() - began
    row = {"kind": kind, "covariates": covariates, "without": without, "pairs": pairs, "named": named}
    return row | {"first": sum(first), "second": sum(second), "seconds": spent / pairs}


def is_named(found: Between) -> bool:
    return found.count == 1 and bool((found.half < NAMED * found.sd).any())


def unrelated(covariates: int, audits: int, kind: str = "unrelated") -> dict[str, Any]:
    """The null: audits of tables of different people; of as many where the `kind` is "unrelated, as many"."""
    rng, began, named, compared, as_many = np.random.default_rng(covariates), time.process_time(), 0, 0, 0
    for _ in range(audits):
        draw = population(rng, covariates)
        sizes = np.concatenate([rng.integers(200, 205, 4), rng.integers(100, 105, TABLES - 4)])
        sizes = sizes if kind == "unrelated" else np.full(TABLES, sizes[0])
        grams = [fitted(draw(int(n)), str(i)) for i, n in enumerate(sizes)]
        result = search([[gram] for gram in grams if gram is not None])
        named += bool(result.found)
        compared += result.pairs + result.triples + result.as_many
        as_many += result.as_many
    row = {"kind": kind, "covariates": covariates, "without": "", "pairs": audits, "named": named}
    counts = {"compared": compared / audits, "as_many": as_many / audits}
    return row | counts | {"seconds": (time.process_time() - began) / audits}


def rows(pairs: int, audits: int) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """What tells each row from others, and the function that measures it."""
    of: list[tuple[str, int, str]] = [(kind, covariates, "") for kind in KINDS for covariates in (1, 4)]
    of += [("nested", 1, "n"), ("nested", 4, "n"), ("nested", 1, "correlations")]
    for kind, covariates, without in of:
        count = round(pairs * FEWER.get(kind, 1.0))
        key = {"kind": kind, "covariates": covariates, "without": without, "pairs": count}
        yield key, partial(measured, **key)
    for kind, covariates in product(("unrelated", "unrelated, as many"), (1, 4)):
        key = {"kind": kind, "covariates": covariates, "without": "", "pairs": audits}
        yield key, partial(unrelated, covariates, audits, kind)


def line(row: dict[str, Any]) -> list[str]:
    def part(hits: int, of: int) -> str:
        _, rate, range_ = share([True] * hits + [False] * (of - hits))
        return f"{rate} ({range_})" if of else "–"

    if row["kind"].startswith("unrelated"):
        of = "unrelated tables" + " of as many records" * ("as many" in row["kind"])
        without = "" if "as_many" in row else ", without those of as many records"
        name = f"null: {TABLES} {of}, {row['compared']:.0f} comparisons{without}"
        intervals = ["–", "–"]
    else:
        name = KINDS[row["kind"]] + (f", without {row['without']}" if row["without"] else "")
        intervals = [part(row[name_], row["named"]) for name_ in ("first", "second")]
    named = part(row["named"], row["pairs"])
    return [name, str(row["covariates"]), str(row["pairs"]), named, *intervals, f"{1000 * row['seconds']:.0f} ms"]


def page(kept: Sequence[dict[str, Any]]) -> str:
    head = ["tables", "covariates", "pairs or audits", "named", "first interval holds", "second interval holds", "CPU"]
    return "\n".join([INTRODUCTION, table(head, [line(row) for row in kept]), ""])


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    parser = STUDY.parser(__doc__, pairs=2500, audits=400)
    given = STUDY.given(parser)
    kept, done = STUDY.kept(), list[dict[str, Any]]()
    for key, measure in rows(given.pairs, given.audits):
        done.append(next((row for row in kept if key.items() <= row.items()), None) or measure())
        STUDY.keep(done)
        print(*line(done[-1]), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
