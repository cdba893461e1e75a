"""The page benchmarks/DELETION.md, made of the rows that the programs measured (kept in benchmarks/deletion.json)."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "deletion.json", HERE / "DELETION.md"

INTRODUCTION = """# What two trained models give away of the record between them

Made by `python benchmarks/hrec.py` and `python benchmarks/mnist.py`. A model is trained on half of the records and
again, exactly, without one of them; the attack sees both parameters and the other half of the records. *Median* is that
of the cosine similarity between the deleted and the reconstructed record, with its 95 % bootstrap interval; *scale* the
median of `|log(|x_hat| / |x|)|`; *above both* the share of deletions in which the attack does better than the better of
both baselines, and *label* that of labels inferred rightly, with 95 % Clopper-Pearson intervals. Improvements are
those of `bayesrecon.Improvements`, each added to the published method alone and left out of all of them alone. Seconds
were measured on machines that others used, too.
"""

NEED_DATA = {
    "MNIST": "benchmarks/mnist.py --mnist DIR",
    "Fashion-MNIST": "benchmarks/mnist.py --fashion DIR",
    "CIFAR-10": "benchmarks/mnist.py --cifar DIR",
    "ACS income": "benchmarks/hrec.py survey --acs DIR",
}
"""Data sets that a folder has to be named for, and who runs them."""

HEADINGS = ("method", "deletions", "median cosine", "95 %", "10 % quantile", "scale", "above both", "label")


def keep(title: str, notes: list[str], rows: list[dict]) -> None:
    """Replace one section, in the order in which sections first came."""
    held = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    held[title] = {"notes": notes, "rows": rows}
    ROWS.write_text(json.dumps(held, indent=1) + "\n")
    write()


def write() -> None:
    """The page of all sections that were measured."""
    PAGE.write_text(page(json.loads(ROWS.read_text()) if ROWS.exists() else {}))


def page(held: dict[str, dict]) -> str:
    lines = [INTRODUCTION]
    for title, section in held.items():
        lines += [f"## {title}", "", *section["notes"], ""]
        lines += ["| " + " | ".join(HEADINGS) + " |", "| --- |" + " ---: |" * (len(HEADINGS) - 1)]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in section["rows"]] + [""]
    missing = [data for data in NEED_DATA if not any(title.startswith(data) for title in held)]
    if missing:
        lines += ["## Not run: no data", "", *(f"* {data}: `python {NEED_DATA[data]}`" for data in missing), ""]
    return "\n".join(lines)


def cells(row: dict) -> list[str]:
    low, high = row["interval"]
    line = [row["method"], f"{row['deletions']}", f"{row['median']:.4f}", f"{low:.4f} to {high:.4f}"]
    line += [f"{row['tenth']:.3f}", f"{row['scale']:.3f}"]
    for name in ("above", "label"):
        line.append("{:.1%} ({:.1%} to {:.1%})".format(*row[name]) if name in row else "")
    return line
