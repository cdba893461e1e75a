"""Deleted sentences from n-gram models before and after the deletion, as the page benchmarks/SENTENCES.md.

python -m benchmarks.deletion.sentences --text FILE [--deletions 1000]

The file is plain text, such as the collected plays of Shakespeare.
"""

import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from bayesrecon import deleted_sentence
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import bootstrap, clopper_pearson
from benchmarks.study import Study, table

PUBLISHED = {1: ("", "93.76"), 2: ("62.0", "99.72"), 3: ("97.3", "99.90")}
COUNTS = (1, 2, 3, 5, 11, np.inf)
START, END = "<s>", "</s>"
WHOLE = 20
"""Deletions that are also attacked with the whole tables, of counts and of probabilities."""

INTRODUCTION = """# Deleted sentences between two n-gram models

Made by `python -m benchmarks.deletion.sentences --text FILE`. The counts of all n-grams of a text are published. One
sentence is deleted, drawn uniformly from those with a word, and the counts are published again.
`bayesrecon.deleted_sentence` reconstructs the sentence. Words are runs of letters, digits and apostrophes in lower
case.

* *Line*: every line with a word is a sentence. *Speech*: all lines up to an empty line are a sentence.
* *Markers*: every sentence has n - 1 start markers and an end marker (single words need none).
* *Exact*: the share of deletions, in %, in which the whole sequence of words is right, with 95 % Clopper-Pearson
  intervals.
* *F1*: the F1 score of the multisets of words, `2 |common| / (|a| + |b|)`, in %, with 95 % bootstrap intervals.
* *Silent*: no answer, which counts as not exact and as F1 0. Without markers a sentence of fewer than n words has no
  n-gram.
* *Unique*: only one sequence of words explains the change. *Of these exact* is the share of those that are right.
 *Published*: Gao et al. 2022, appendix D, Penn
Treebank (971,657 words in 42,068 sentences, 23 a sentence), exact / F1; their attack looks at probabilities that fell,
and not at counts, which is why its F1 for words alone is not 100.
"""
HEAD = ("sentence", "n", "markers", "deletions", "silent", "exact", "95 %", "F1", "95 %", "unique", "of these exact")
HEAD += ("95 %", "published")
CALIBRATION = """## Whether it is right as often as stated

Where k sequences of words explain the change equally well one of them is drawn, which is then right with probability
1 / k. All cells of the table above with n = 2 and 3, by k; where there are several, {draws} more draws are made of each
deletion, every one with a key of its own, as cells share sentences.
"""
REDRAWS = 20


def units(text):
    """`{unit: sentences as tuples of words}`."""

    def words(part):
        return tuple(re.findall(r"[a-z0-9']+", part.lower()))

    parts = {"line": text.splitlines(), "speech": re.split(r"\n\s*\n", text)}
    return {unit: [words(part) for part in found if words(part)] for unit, found in parts.items()}


def grams(words, n, marked):
    padded = (*[START] * (n - 1), *words, END) if marked else words
    return Counter(padded[i : i + n] for i in range(len(padded) - n + 1))


def conditional(counts):
    """Maximum-likelihood probabilities `{prefix: {word: p}}`."""
    table = defaultdict(dict)
    for gram, count in counts.items():
        table[gram[:-1]][gram[-1]] = count
    return {k: {word: c / sum(v.values()) for word, c in v.items()} for k, v in table.items()}


def play(sentences, n, marked, deletions, seed):
    """Of every deletion: k (0 where silent), whether it was exact, and F1; and what whole tables say."""
    rng, keys = np.random.default_rng(seed), np.random.default_rng((seed, n, marked, len(sentences)))
    counts = Counter()
    for words in sentences:
        counts.update(grams(words, n, marked))
    marks = {"start": START, "end": END} if marked else {"start": None, "end": None}
    chosen = rng.choice(len(sentences), deletions, replace=False)
    found, again, agree, derived = [], [], 0, 0
    for i, row in enumerate(chosen):
        truth = sentences[row]
        own = grams(truth, n, marked)
        # Rows of both tables that are equal cancel; the first deletions are attacked with the whole tables, too.
        before = {gram: counts[gram] for gram in own}
        after = {gram: counts[gram] - own[gram] for gram in own}
        try:
            result = deleted_sentence(before, after, key=int(keys.integers(2**62)), **marks)
        except BayesreconError:
            if own:
                raise
            found.append((0, False, 0.0))
            continue
        common = (Counter(result.words) & Counter(truth)).total()
        found.append((result.count, result.words == truth, 2 * common / (len(result.words) + len(truth))))
        if n > 1 and result.count > 1:
            fresh = [int(key) for key in keys.integers(2**62, size=REDRAWS)]
            drawn = [deleted_sentence(before, after, most=1, key=key, **marks).words for key in fresh]
            again.append((min(result.count, 10**9), drawn.count(truth)))
        if i < WHOLE:
            whole = deleted_sentence(counts, counts - own, key=i, **marks)
            agree += (whole.count, whole.listed) == (result.count, result.listed)
            if marked or n == 1:
                other = deleted_sentence(conditional(counts), conditional(counts - own), key=i, **marks)
                derived += (other.count, other.listed) == (result.count, result.listed)
    spoken = sum(k > 0 for k, _, _ in found[:WHOLE])
    about = {"attacked whole": spoken, "same": agree, "derived": spoken if marked or n == 1 else 0}
    shown = [(min(k, 10**9), bool(right), score) for k, right, score in found]
    return {"found": shown, "again": again, **about, "same derived": derived}


def percent(low, high):
    return f"{100 * low:.1f} to {100 * high:.1f}"


def row_of(unit, n, marked, cell):
    k, right, score = (np.array(column) for column in zip(*cell["found"], strict=True))
    exact = clopper_pearson(int(right.sum()), len(right))
    mean = bootstrap(score, np.mean)
    alone = k == 1
    row = [unit, n, ("yes" if marked else "no") if n > 1 else "", len(k), int((k == 0).sum())]
    row += [f"{100 * exact.estimate:.1f}", percent(exact.lower, exact.upper)]
    row += [f"{100 * mean.estimate:.2f}", f"{100 * mean.lower:.2f} to {100 * mean.upper:.2f}", int(alone.sum())]
    if alone.any():
        sure = clopper_pearson(int(right[alone].sum()), int(alone.sum()))
    row += [f"{100 * sure.estimate:.1f}", percent(sure.lower, sure.upper)] if alone.any() else ["", ""]
    return [*row, " / ".join(filter(None, PUBLISHED[n]))]


def calibration(cells):
    alone = [(k, right, 1) for cell in cells for k, right, _ in cell["found"] if k == 1]
    several = [(k, right, REDRAWS) for cell in cells for k, right in cell["again"]]
    k, right, draws = np.array(alone + several, float).T
    rows = []
    for low, high in pairwise(COUNTS):
        own = (k >= low) & (k < high)
        if own.any():
            rate, lower, upper = clopper_pearson(int(right[own].sum()), int(draws[own].sum()))
            name = f"{low}" if high == low + 1 else f"{low} to {high - 1}" if np.isfinite(high) else f"{low} and more"
            row = [name, own.sum(), int(draws[own].sum()), f"{(1 / k[own]).mean():.3f}", f"{rate:.3f}"]
            rows.append([*row, f"{lower:.3f} to {upper:.3f}"])
    return table(("k", "deletions", "draws", "stated", "right", "95 %"), rows)


def page(kept):
    lines, rows, ordered = [INTRODUCTION], [], []
    for unit, about in kept["units"].items():
        numbers = f"{about['sentences']:,} sentences, {about['words']:,} words, {about['distinct']:,} distinct"
        lines.append(f"* {unit}: {numbers}.")
    for cell in kept["cells"]:
        rows.append(row_of(cell["unit"], cell["n"], cell["marked"], cell))
        ordered += [cell] if cell["n"] > 1 else []
    whole, same = (sum(cell[name] for cell in kept["cells"]) for name in ("attacked whole", "same"))
    derived, alike = (sum(cell[name] for cell in kept["cells"]) for name in ("derived", "same derived"))
    checked = (
        f"Rows of the tables that do not change cancel, and are left out here; with whole tables {same} of {whole} "
        f"deletions gave the same, and with conditional probabilities instead of counts {alike} of {derived}."
    )
    lines += ["", table(HEAD, rows), "", checked, "", CALIBRATION.format(draws=REDRAWS), calibration(ordered), ""]
    return "\n".join(lines)


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__, deletions=1000, seed=7)
    parser.add_argument("--text", type=Path, required=True)
    given = STUDY.given(parser)
    kept = {"units": {}, "cells": []}
    for unit, sentences in units(given.text.read_text(encoding="utf-8")).items():
        every = [word for words in sentences for word in words]
        kept["units"][unit] = {"sentences": len(sentences), "words": len(every), "distinct": len(set(every))}
        for n, marked in ((1, False), (2, True), (2, False), (3, True), (3, False)):
            cell = play(sentences, n, marked, given.deletions, given.seed)
            kept["cells"].append({"unit": unit, "n": n, "marked": marked, **cell})
            print(*row_of(unit, n, marked, cell), sep=" | ", flush=True)
    STUDY.keep(kept)


if __name__ == "__main__":
    main()
