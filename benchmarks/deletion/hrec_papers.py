"""What Bertran et al. (2024) print, beside our rows: cells of benchmarks/PAPERS.md."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from bayesrecon.evaluate import clopper_pearson
from benchmarks.deletion.page import PUBLISHED
from benchmarks.deletion.page import STUDY as TABLES
from benchmarks.paper_cells import HREC, Cell, percent
from benchmarks.quoted import rows_of

MODELS = ("softmax", "ridge over 4096 random Fourier features", "softmax over 4096 random Fourier features")
ACCURACY = {"MNIST": (91.6, 96.2, 96.4), "Fashion-MNIST": (84.5, 87.3, 88.4), "CIFAR-10": (39.5, 48.7, 50.4)}
R2 = {"ridge, NY": "0.276", "ridge, CA": "0.301", "ridge, TX": "0.309"}
SURVEY = "ACS income 2018"
OTHERS = {
    "Section 3.1: one step in place of retraining": "HREC_MORE.md", "Section 3.2: any differentiable loss":
    "NETWORK_DELETION.md", "Section 3.3: embeddings": "HREC_MORE.md", "Number of public records": "HREC_MORE.md",
    "Remedies": "HREC_MORE.md", "Appendix B: Updates-Leak is weaker": "HREC_MORE.md",
    "Appendix C.2: even better without a penalty": "DELETION.md",
}  # fmt: skip
_cell = partial(Cell, HREC)


def missing(data: str) -> dict[str, str]:
    """Why there is no row: Fashion-MNIST is to be had, and takes hours."""
    if data == "Fashion-MNIST":
        return {"unlike": "not measured yet: `python -m benchmarks.deletion.mnist --set fashion`"}
    return {"lacks": data}


def sizes(section: dict[str, Any]) -> list[int]:
    """How many images are private and public."""
    return [int(count) for count in re.findall(r"(\d+) (?:private|public)", section["notes"][0])]


def few(section: dict[str, Any]) -> str:
    """Of how many images a row is, where these are not the 30,000 of the paper."""
    private = sizes(section)[0]
    return "" if private == 30_000 else f"{private:,} images to train on in place of 30,000"


def targets(held: dict[str, Any]) -> Iterator[Cell]:
    """Table 1: how good the models are that were attacked."""
    for data, published in ACCURACY.items():
        for model, value in zip(MODELS, published, strict=True):
            cell, section = f"{data}, {model}: accuracy, %", held.get(f"{data}, {model}")
            if section is None:
                yield _cell("Table 1", cell, str(value), **missing(data))
            else:
                public = sizes(section)[1]
                stated = clopper_pearson(round(section["facts"]["accuracy"] * public), public)
                yield _cell("Table 1", cell, str(value), unlike=few(section), **percent(stated))
    for cell, value in R2.items():
        yield _cell("Table 1", f"ACS income, {cell}: r2", value, lacks=SURVEY)


def figures(held: dict[str, Any]) -> Iterator[Cell]:
    """Figures 3 and 4: cosines of deleted and reconstructed records, published as curves."""
    for data in ACCURACY:
        for model in MODELS:
            cell, section = f"{data}, {model}: median cosine", held.get(f"{data}, {model}")
            if section is None:
                yield _cell("Figure 3", cell, "curve", **missing(data))
                continue
            (row,) = (r for r in section["rows"] if r["method"] == PUBLISHED)
            ours, ends = round(row["median"], 4), [round(end, 4) for end in row["interval"]]
            unlike = "; ".join(filter(None, ["a curve without figures", few(section)]))
            yield _cell("Figure 3", cell, "curve", ours, ends, unlike=unlike)
    for model in ("ridge", "logistic", "squared-hinge SVM"):
        for words in ("", " over random Fourier features"):
            yield _cell("Figure 4", f"ACS income, {model}{words}, NY, CA, TX", "curves", lacks=SURVEY)


def membership() -> Iterator[Cell]:
    """Appendix A: membership inference."""
    for key, row in rows_of("variants").items():
        if key.startswith("lira"):
            ours, *ends = (round(v, 3) for v in row["area"])
            unlike = "said in words; other data, with the published attack and split"
            cell = f"{key.rpartition(' | ')[2]}: ROC area of LiRA, 0.5 is guessing"
            yield _cell("Appendix A", cell, "close to guessing", ours, ends, unlike=unlike)


def cells() -> list[Cell]:
    held = TABLES.kept()
    words = [_cell(piece, "", unlike=f"said in words or curves; other data; {page}") for piece, page in OTHERS.items()]
    return [*targets(held), *figures(held), *membership(), *words]
