"""What Gao et al. (2022) and its workshop version print, beside our games: cells of benchmarks/PAPERS.md."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.evaluate import bootstrap, clopper_pearson
from benchmarks.deletion.sentences import STUDY as SENTENCES
from benchmarks.draws.theorems import STUDY as THEOREMS
from benchmarks.games.compliance import STUDY as COMPLIANCE
from benchmarks.games.game_cells import Cell as Played
from benchmarks.games.game_cells import cells as played_cells
from benchmarks.games.game_more import PUBLISHED as LABELS
from benchmarks.games.games import COLUMNS, key
from benchmarks.games.games import STUDY as GAMES
from benchmarks.games.instances import STUDY as INSTANCES
from benchmarks.paper_cells import DELETION, UNKNOWN, Cell, by_chance, percent, state

GAMES_PUBLISHED = 1000
"""Rounds of a published cell."""

READINGS = {
    "as stated": "", "ties as wins": "ties counted as wins, not decided by a coin", "absolute loss":
    "the absolute loss in place of the squared one of the text", "standardised and converged":
    "columns standardised once and training to convergence",
}  # fmt: skip
LEARNERS = {
    "SVM, decision values": "decision values in place of calibrated probabilities", "forest, one seed":
    "one seed for both trainings", "logistic, liblinear, standardised":
    "one-against-the-rest liblinear on standardised columns", "forest of 100 trees": "100 trees in place of 10",
    "MLP, one seed": "one seed for both trainings",
    "SVM, Platt, one seed": "libsvm's own probabilities, one seed for both trainings",
}  # fmt: skip
INVERTED = {
    "diabetes": ("whole table", ("2859.7", "3001.7", "829.8")),
    "Boston": ("whole table, Boston", ("21.897", "23.728", "7.149")),
}
OLDER = "the table of scikit-learn before 0.20, in which the crime rate of one town is another"
NEIGHBOURS = {"iris": ("34", "0.32"), "wine": ("6.7", "0.75")}
QUERIES = {
    "0.9, box": "90 % private", "0.5, box": "half of the records private", "0.5, normal":
    "half of the records private and queries from a normal distribution",
}  # fmt: skip
STANDS = {
    "Figures 1 and 2": ("direct attacks above both reductions", "digits and MNIST in place of CIFAR-10 and CIFAR-100; "
                        "on the pages VARIANTS.md and GAMES.md"),
    "Section 3.3: Shokri's rate": ("74 (small network), 88 (VGG-19)", "digits in place of CIFAR-10; on the page "
                                   "VARIANTS.md"),
}  # fmt: skip
WORDS = {
    "Section 3: variants": "labels alone, additions, several deletions, chosen challenges",
    "Appendix G.2": "memorisation score",
    "Appendix G.5": "adaptive environment, strong compliance, approximate deletion",
}  # fmt: skip
_cell = partial(Cell, DELETION)


def games(kept: dict[str, Any]) -> Iterator[Cell]:
    """Every printed figure beside the games as the text states them; other readings are for the reasons."""
    readings: dict[tuple[str, str, str], list[Played]] = {}
    for cell in played_cells():
        if cell.published is not None:
            learner = cell.learner if cell.learner == "SVM, classes" else cell.learner.split(", ")[0]
            learner = learner.removesuffix(" of 100 trees")
            readings.setdefault((cell.section, cell.data, learner), []).append(cell)
    for (section, data, learner), several in readings.items():
        piece = "Workshop table" if section.startswith("Workshop") else section.partition(":")[0]
        for name, printed in zip(("Exm", "Ins"), several[0].published or (), strict=True):
            found = {
                " and ".join(filter(None, [LEARNERS.get(cell.learner, ""), READINGS[column]])): kept[key(cell)][column][
                    name
                ]
                for cell in several
                for column in COLUMNS
                if name in kept[key(cell)].get(column, {})
            }
            yield of_readings(_cell(piece, f"{data}, {learner}, {name}", f"{printed:.1f}"), found)


def of_readings(cell: Cell, found: dict[str, Sequence[float]]) -> Cell:
    """A cell with ours from the first reading of the text, and what the others say of a difference."""
    (stated, *_), printed = found.values(), float(cell.printed)
    cell = cell._replace(**percent(stated))
    if state(cell) == "agrees":
        return cell
    if chance := by_chance(stated, printed, GAMES_PUBLISHED):
        return cell._replace(why=chance)
    others = dict(list(found.items())[1:])
    told = {
        words: "{}, {:.1f} ({:.1f} to {:.1f})".format(words, *(100 * v for v in others[words][:3])) for words in others
    }
    for words, one in others.items():
        if state(cell._replace(**percent(one))) == "agrees":
            return cell._replace(why=f"another reading reaches it: {told[words]}")
    for words, one in others.items():
        if by_chance(one, printed, GAMES_PUBLISHED):
            return cell._replace(why=f"another reading reaches it but for sampling errors: {told[words]}")
    return cell._replace(why=UNKNOWN + ("; ".join(told.values()) or "nothing else"))


def reconstructions(kept: dict[str, Any]) -> Iterator[Cell]:
    for (data, learner), printed in LABELS.items():
        rates = {
            r["name"].partition("queries from ")[2]: r["stated"] for r in kept[f"deleted label | {data} | {learner}"]
        }
        found = {
            f"queries from {where}": rates[where] for where in ("the box", "a normal distribution", "public records")
        }
        yield of_readings(_cell("Table 5: deleted label", f"{data}, {learner}", f"{printed:.1f}"), found)
    for data, (table, figures) in INVERTED.items():
        values = kept[f"known instance | {table}"]
        older = kept.get(f"known instance | {table}, older", {})
        best = next(name for name in values if name.startswith("the best"))
        for (name, ours), printed in zip(values.items(), figures, strict=False):
            cell = _cell("Table 6: known instance", f"{data}, {name}", printed, round(ours, 3))
            if state(cell) == "differs":
                before = round(older[name], 3) if name in older else None
                if before is not None and state(cell._replace(ours=before)) == "agrees":
                    cell = cell._replace(why=f"{OLDER}: {before:g}")
                else:
                    tried = f"{best}, {values[best]:.3f}" + (f"; {OLDER}, {before:g}" if before is not None else "")
                    cell = cell._replace(why=UNKNOWN + tried)
            yield cell


def beside_membership(kept: dict[str, Any]) -> Iterator[Cell]:
    piece, unlike = "Table 4: against Yeom's", "ridge regression; the published model is not at hand"
    for row, printed in zip(kept["Table 4 | warfarin-ridge"], ("68.83", "95.98"), strict=True):
        yield _cell(piece, f"IWPC, {row['name']}", printed, unlike=unlike, **percent(row["stated"]))
    for name, printed in (("Yeom, labels", "64.80"), ("Del-Inf-Exm", "97.54")):
        yield _cell(piece, f"Eyedata, {name}", printed, lacks="Eyedata")
    for piece, (claim, unlike) in STANDS.items():
        yield _cell(piece, "", claim, unlike=unlike)
    for piece, what in WORDS.items():
        yield _cell(piece, what, unlike="mentioned without a figure; ours is on the page VARIANTS.md")


def compliance(kept: dict[str, Any]) -> Iterator[Cell]:
    for name, found in kept.items():
        if "|" in name and isinstance(found, dict):
            cell, most = f"{name.replace(' | ', ', ')}: likelihood ratio", f"at most {100 * found['bound']:.1f}"
            yield _cell("Theorem 5.2: compliance", cell, most, **percent(found["rows"]["likelihood ratio"]))


def theorems(kept: dict[str, Any]) -> Iterator[Cell]:
    for row in (row for name, row in kept.items() if name.startswith("4.2")):
        cell, least = f"{row['data']}, {row['name']}: success of the adversary, %", row["rho"][0] - row["delta"][0]
        yield _cell("Theorem 4.2", cell, f"at least {100 * least:.1f}", **percent(row["success"]))
    held, cell = clopper_pearson(kept["3.3"]["held"], kept["3.3"]["of"]), "deletions from diabetes that obey it, %"
    yield _cell("Lemma 3.3", cell, "100", **percent(held))
    wrong = clopper_pearson(kept["4.4"]["wrong"], kept["4.4"]["decided"])
    yield _cell("Lemma 4.4", "coordinates that a majority decides wrongly, %", "0.00", **percent(wrong))


def sentences(kept: dict[str, Any]) -> Iterator[Cell]:
    printed = {1: "F1 93.76", 2: "exact 62.0, F1 99.72", 3: "exact 97.3, F1 99.90"}
    for cell in kept["cells"]:
        right = clopper_pearson(sum(bool(exact) for _, exact, _ in cell["found"]), len(cell["found"]))
        words = f"{cell['n']}-grams, {cell['unit']}, {'with' if cell['marked'] else 'without'} markers: exact"
        unlike = "Shakespeare in place of the Penn Treebank"
        yield _cell("Appendix D: sentences", words, printed[cell["n"]], unlike=unlike, **percent(right))


def instances(kept: dict[str, Any]) -> Iterator[Cell]:
    rows = kept["omniglot"]["rows"]["140"]
    said, unlike = [row for row in rows if row[0]], "5 of the 30 alphabets, the others are not to be had"
    for cell, printed, hits in (
        ("said something, %", "40", [row[0] > 0 for row in rows]),
        ("right label of those, %", "87.5", [row[2][0] for row in said]),
        ("right label without deletion, %", "2.5", [row[1][0] for row in rows]),
    ):
        stated = clopper_pearson(sum(hits), len(hits))
        yield _cell("Section 4.3: Omniglot", cell, printed, unlike=unlike, **percent(stated))
    for data, (fails, near) in NEIGHBOURS.items():
        ways = {words: kept["approximation"][f"{data}, {where}"] for where, words in QUERIES.items()}
        shares = {w: [row[0] is None for row in rows] for w, rows in ways.items()}
        yield _neighbours(f"{data}: fails, %", fails, {w: _rounded(100 * np.array(clopper_pearson(sum(s), len(s))), 1)
                                                       for w, s in shares.items()})  # fmt: skip
        told = [[row[0] for row in rows if row[0] is not None] for rows in ways.values()]
        means = {w: _rounded(bootstrap(values, np.mean), 3) for w, values in zip(ways, told, strict=True)}
        yield _neighbours(f"{data}: distance of the estimate", near, means)


def _rounded(stated: Any, decimals: int) -> list[float]:
    return [round(float(value), decimals) for value in stated]


def _neighbours(name: str, printed: str, found: dict[str, list[float]]) -> Cell:
    """Queries are from the range of the data and 90 % are private, as far as the text says; other ways are tried."""
    ways = [_cell("Workshop: nearest neighbours", name, printed, ours, ends) for ours, *ends in found.values()]
    told = dict(zip(found, (f"{one.ours:g} ({one.interval[0]:g} to {one.interval[1]:g})" for one in ways), strict=True))
    reached = [f"{way}, {told[way]}" for way, one in zip(found, ways, strict=True) if state(one) == "agrees"]
    tried = "; ".join(f"{way}, {said}" for way, said in list(told.items())[1:])
    known = f"another reading reaches it: {reached[0]}" if reached else UNKNOWN + tried
    return ways[0]._replace(why=f"{known}; the scale of the features is not stated")


def cells() -> list[Cell]:
    kept = GAMES.kept()
    found = [*games(kept), *reconstructions(kept), *beside_membership(kept), *compliance(COMPLIANCE.kept())]
    return [*found, *theorems(THEOREMS.kept()), *sentences(SENTENCES.kept()), *instances(INSTANCES.kept())]
