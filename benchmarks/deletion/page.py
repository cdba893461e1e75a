"""The page benchmarks/DELETION.md, made of the rows that the programs measured (kept in benchmarks/deletion.json)."""

from typing import Any

from benchmarks.study import Study, table

PUBLISHED, ALL = "HRec as published", "HRec improved"
MAXDIFF, PROBABILITIES = "MaxDiff: public record", "MaxDiff of probabilities: public record"

INTRODUCTION = """# What two trained models give away of the record between them

Made by `python -m benchmarks.deletion.hrec` and `python -m benchmarks.deletion.mnist`. A model is trained on half of
the records. It is then retrained exactly without one of them. The attack sees both parameter vectors and the other half
of the records.

*Median* is the median cosine similarity between the deleted and the reconstructed record, with its 95 % bootstrap
interval. *Scale* is the median of `|log(|x_hat| / |x|)|`. *Label* is the share of labels that are inferred correctly,
with its 95 % Clopper-Pearson interval. Improvements are those of `attacks.Improvements`. Each one is added alone to
the published method, and left out alone from the full method. *Tuned* penalties are chosen on the private half, among
those for which training converges. Times were measured on shared machines.

*Avg* is the mean public record. *MaxDiff* is the published baseline, the public record with the largest
`|(x, 1)' (theta+ - theta-)|`, the Euclidean norm over outputs. *MaxDiff of probabilities* takes the largest change of
the probabilities instead. *Above both* is the share of deletions in which the attack beats both Avg
and MaxDiff. *Above both, of probabilities* is the same with MaxDiff of probabilities. Either baseline wins on some
records, and which one wins cannot be known without the record. So this comparison is harder than one with a single
baseline.

Models over random Fourier features are attacked through their features. The record is then found by inverting the
embedding (`invert_embedding`). Cosines are those of the records, as in the paper. *Of the features* is the median
cosine of the reconstructed features.

"""

NEED_DATA = {
    "MNIST": "-m benchmarks.deletion.mnist --data DIR",
    "Fashion-MNIST": "-m benchmarks.deletion.mnist --set fashion --data DIR",
    "CIFAR-10": "-m benchmarks.deletion.mnist --set cifar10 --data DIR",
    "ACS income": "-m benchmarks.deletion.hrec survey --acs DIR",
}
"""Data sets that a folder has to be named for, and who runs them."""

COLUMNS = {
    "method": "method", "deletions": "deletions", "median": "median cosine", "interval": "95 %",
    "features": "of the features", "tenth": "10 % quantile", "scale": "scale", "above": "above both",
    "above_probabilities": "above both, of probabilities", "label": "label",
}  # fmt: skip
"""Headings; a section shows those that one of its rows has."""


def keep(title: str, notes: list[str], rows: list[dict], **facts: Any) -> None:
    """Replace one section, in the order in which sections first came; facts are what its notes say, as numbers."""
    held = STUDY.kept()
    held[title] = {"notes": notes, "facts": facts, "rows": rows}
    STUDY.keep(held)


def page(held: dict[str, dict]) -> str:
    lines = [INTRODUCTION + beside(held), ""]
    for title, section in held.items():
        shown = [key for key in COLUMNS if any(key in row for row in section["rows"])]
        rows = [[cell(key, row[key]) if key in row else "" for key in shown] for row in section["rows"]]
        lines += [f"## {title}", "", *section["notes"], "", table([COLUMNS[key] for key in shown], rows), ""]
    missing = [data for data in NEED_DATA if not any(title.startswith(data) for title in held)]
    if missing:
        lines += ["## Not run: no data", "", *(f"* {data}: `python {NEED_DATA[data]}`" for data in missing), ""]
    return "\n".join(lines)


def beside(held: dict[str, dict]) -> str:
    """The two MaxDiffs of every model with probabilities, and what HRec as published and improved is above."""
    head = ("model", "MaxDiff", "of probabilities", "published, above both", "of probabilities")
    rows = []
    for title, section in held.items():
        of = {row["method"]: row for row in section["rows"]}
        if PROBABILITIES in of:
            medians = [f"{of[name]['median']:.3f}" for name in (MAXDIFF, PROBABILITIES)]
            shares = [of[name][key][0] for name in (PUBLISHED, ALL) for key in ("above", "above_probabilities")]
            rows.append([title, *medians, *(f"{one:.1%}" for one in shares)])
    return table([*head, "improved, above both", "of probabilities"], rows)


def cell(key: str, value: Any) -> str:
    if key in ("method", "deletions"):
        return f"{value}"
    if key == "interval":
        return "{:.4f} to {:.4f}".format(*value)
    if isinstance(value, list):
        return "{:.1%} ({:.1%} to {:.1%})".format(*value)
    return f"{value:.4f}" if key in ("median", "features") else f"{value:.3f}"


STUDY = Study(__file__, page, name="deletion")
