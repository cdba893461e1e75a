"""Which pieces of Bertran et al. (2024) the rows of deletions reproduce, for the coverage page.

python -m benchmarks.deletion.hrec_papers

Reads the kept rows of other programs, and measures nothing. Results go to benchmarks/hrec_papers.json.
"""

from functools import partial

import numpy as np

from benchmarks.deletion.hrec_more import STUDY as MORE
from benchmarks.deletion.page import ALL, MAXDIFF, PUBLISHED
from benchmarks.deletion.page import STUDY as TABLES
from benchmarks.paper_tags import HREC, keep_tags, tag
from benchmarks.quoted import rows_of
from benchmarks.study import Study

FEWER = "5,000 images to train on instead of 30,000"
MODELS = ("softmax", "ridge over 4096 random Fourier features", "softmax over 4096 random Fourier features")
ACCURACY = {"MNIST": (91.6, 96.2, 96.4), "Fashion-MNIST": (84.5, 87.3, 88.4), "CIFAR-10": (39.5, 48.7, 50.4)}
R2 = {"ridge, NY": 0.276, "ridge, CA": 0.301, "ridge, TX": 0.309}
SURVEY = ("ridge", "logistic", "squared-hinge SVM")
STANDS = {
    "ridge": "Diabetes, ridge",
    "logistic": "Breast cancer, logistic",
    "squared-hinge SVM": "Breast cancer, squared-hinge SVM",
}
_tag = partial(tag, HREC)


def median(rows, method):
    """Of one method: the median cosine and its interval, as a tag takes them."""
    (row,) = (r for r in rows if r["method"] == method)
    return {"ours": round(row["median"], 4), "interval": row["interval"]}


def targets(held, more):
    """Table 1: how good the models are that were attacked."""
    found = []
    for data, published in ACCURACY.items():
        for model, value in zip(MODELS, published, strict=True):
            section = held.get(f"{data}, {model}")
            ours = round(100 * section["facts"]["accuracy"], 2) if section else None
            told = {"why": FEWER} if section else {"blocked": data}
            found.append(_tag("Table 1", f"{data}, {model}: accuracy, %", ours, published=value, **told))
    for cell, value in R2.items():
        found.append(_tag("Table 1", f"ACS income, {cell}: r2", None, published=value, blocked="ACS income 2018"))
    for row in more.get("targets", ()):
        for name in ("F1", "r2"):
            if name in row:
                found.append(_tag("Table 1", f"{row['model']}: {name} of the target", round(row[name], 3)))
    return found


def figures(held):
    """Figures 3 and 4: cosines of deleted and reconstructed records, published as curves."""
    found = []
    for data in ACCURACY:
        for model in MODELS:
            section = held.get(f"{data}, {model}")
            if section is None:
                found.append(_tag("Figure 3", f"{data}, {model}", None, published="curve", blocked=data))
                continue
            for method in (PUBLISHED, ALL, "Avg: mean public record", MAXDIFF):
                one = median(section["rows"], method)
                found.append(_tag("Figure 3", f"{data}, {model}: {method}", published="curve", why=FEWER, **one))
    for state in ("NY", "CA", "TX"):
        for model in SURVEY:
            for words in ("", " over random Fourier features"):
                cell = f"ACS income, {state}, {model}{words}"
                found.append(_tag("Figure 4", cell, None, published="curve", blocked="ACS income 2018"))
    for model, title in STANDS.items():
        one = median(held[title]["rows"], PUBLISHED)
        found.append(_tag("Figure 4", f"{model}: {title} in its place", blocked="ACS income 2018", **one))
    return found


def appendices(held, more):
    """Without a penalty (C.2), membership inference (A), and what the paper says without a table."""
    found = []
    for title in ("Simulated income, least squares without a penalty", "Diabetes, least squares without a penalty"):
        one = median(held[title]["rows"], PUBLISHED)
        found.append(_tag("Appendix C.2", title, published="better than with a penalty", **one))
    for row in more.get("unpenalised", ()):
        if row["method"] == PUBLISHED:
            ours, ends = round(row["median"], 4), row["interval"]
            why = "classes are separable: without a penalty there is no optimum, so that it goes down to 0.01"
            found.append(_tag("Appendix C.2", row["setting"], ours, interval=ends, why=why))
    for key, rows in rows_of("games").items():
        for row in rows if key.startswith("membership") else ():
            if row["name"].startswith("LiRA"):
                ours, *ends = (round(100 * v, 1) for v in row["stated"])
                cell = f"{key.rpartition(' | ')[2]}: {row['name']}"
                found.append(_tag("Appendix A", cell, ours, published="close to guessing", interval=ends))
    for network, rows in rows_of("network_deletion").items():
        ours = round(float(np.median([r["HRec"] for r in rows])), 4)
        found.append(_tag("Section 3.2", f"any differentiable loss: {network} (parameters | public records)", ours))
    words = {"embedding": "Section 3.3", "private": "Remedies", "public": "Public records", "steps": "Section 3.1"}
    words["updates"] = "Appendix B"
    for part, piece in words.items():
        for row in more.get(part, ()):
            if row["method"] in (PUBLISHED, ALL, "OneStep", "Updates-Leak"):
                ours, ends = round(row["median"], 4), row["interval"]
                found.append(_tag(piece, f"{row['setting']}: {row['method']}", ours, interval=ends))
    for row in more.get("damped", ()):
        if row["method"] == ALL:
            ours, ends = round(row["median"], 4), row["interval"]
            found.append(_tag("Section 3.2", f"Hessian-vector products: {row['setting']}", ours, interval=ends))
    return found


def tags():
    held, more = TABLES.kept(), MORE.kept()
    return [*targets(held, more), *figures(held), *appendices(held, more)]


STUDY = Study(__file__)


if __name__ == "__main__":
    keep_tags(STUDY, tags, __doc__)
