"""What is played besides the published cells: white boxes, membership attacks, and reconstruction."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from bayesrecon.datasets.packaged import boston, warfarin
from bayesrecon.games import (
    Game,
    LeastSquares,
    LossChange,
    LossThreshold,
    Neighbours,
    Outlying,
    Reduction,
    WhiteBox,
    load,
    play,
)
from bayesrecon.games import table as table_of
from bayesrecon.games.adversary import Oracles, View, named_adversary
from bayesrecon.games.data import Records
from bayesrecon.games.inference import ReconstructionGame
from bayesrecon.games.named_games import DATA
from bayesrecon.games.reconstructor import DeletedLabel, KnownInstance
from benchmarks.study import table

OPEN = ("diabetes-linear", "diabetes-ridge", "iris-logistic", "wine-logistic", "cancer-logistic")
PICKED = ("diabetes-linear", "diabetes-lasso", "iris-logistic", "wine-logistic", "cancer-logistic", "wine-svm")
SIDE = ("diabetes-ridge", "cancer-logistic")
WHITE, BESIDE, FOURTH, LABELS, KNOWN = "white box", "membership", "Table 4", "deleted label", "known instance"
CHOSEN, WARFARIN = "chosen challenges", "warfarin-ridge"
WITH = ("others known", "public tenth")
CHOICES = ("a random pair", "the largest leverage")
HOUSES = {"diabetes": 30.0, "Boston": 17.5}
"""Tables of known instances, with the published constant."""


def _rows(result: Any) -> list[dict[str, Any]]:
    count = len(result.numbers)
    return [{"name": r.adversary, "stated": astuple(r.success), "rounds": count} for r in result.rows]


def _white(name: str, others: bool, workers: int | None) -> Any:
    more = {} if others else {"auxiliary": None}
    game = load(name, adversaries=(WhiteBox(), LossChange()), others=others, distinct=True, **more)
    return _rows(play(game, 1000, seed=21, workers=workers))


def _membership(name: str, workers: int | None) -> Any:
    names = ("lira-alone", "lira", "lira-offline", "yeom", "exm", "ins", "white-box")
    players = tuple(named_adversary(one) for one in names)
    return _rows(play(load(name, adversaries=players, share=0.5, distinct=True), 200, seed=22, workers=workers))


def _yeom(name: str, workers: int | None) -> Any:
    players = (Reduction(LossThreshold(), "labels"), LossChange() if "cancer" in name else LossChange("absolute"))
    if name != WARFARIN:
        return _rows(play(load(name, adversaries=players, share=0.5), 1000, seed=23, workers=workers))
    doses = warfarin()
    data = table_of(doses.x, doses.y, classification=False, standardised=True, share=0.5, name=doses.name)
    return _rows(play(Game(data, LeastSquares(1.0), players, auxiliary=None), 1000, seed=23, workers=workers))


def _labels(data: str, learner: str, workers: int | None) -> Any:
    chosen = Neighbours(5) if learner == "k-NN" else load(f"{data}-logistic").learner
    players = [DeletedLabel(q) for q in ("public", "normal", "box")]
    game = ReconstructionGame(DATA[data].make().shared(0.5), chosen, players)  # type: ignore[attr-defined]
    result = play(game, 1000, seed=24, workers=workers)
    about = {"rounds": 1000}
    rows = result.rows
    return [{"name": r.reconstructor, "stated": astuple(r.correct), "silent": r.unanswered} | about for r in rows]


def _chosen(name: str, workers: int | None) -> Any:
    rows = []
    for words, choose in zip(CHOICES, (None, Outlying()), strict=True):
        found = _rows(play(load(name, choose=choose), 1000, seed=26, workers=workers))
        rows += [{**row, "name": f"{row['name']} | {words}"} for row in found]
    return rows


def whole_table(name: str = "diabetes", *, older: bool = False) -> dict[str, float]:
    """All leave-one-outs of a table: squared errors of h, h' and the published reconstruction.

    Before scikit-learn 0.20 one town of Boston had another crime rate.
    """
    found: Any = DATA["diabetes"].make() if name == "diabetes" else boston()
    constant, x = HOUSES[name], np.asarray(found.x, float)
    if older:
        x[445, 0] = 0.6718
    records, learner = Records(x, found.y), LeastSquares()
    h = learner.fit(records, 0, 0)
    moved, left = np.empty(len(records.y)), np.empty(len(records.y))
    published = np.empty(len(records.y))
    for i, (x, y) in enumerate(zip(records.x, records.y, strict=True)):
        after = learner.without(h, records, np.array([i]), 0, 0)
        moved[i], left[i] = (h(x[None]) - after(x[None]))[0], y - after(x[None])[0]
        rest = ("values", None, None, None, learner, len(records.y), np.random.default_rng(0))
        view = View(Oracles(h, after), x[None], None, 0, *rest)
        (guess,) = KnownInstance(constant).guesses(view)
        assert guess is not None
        published[i] = y - guess.y
    residual = records.y - h(records.x)
    best = float(residual @ moved / (moved @ moved))
    words = f"lambda {constant:g}"
    errors = {"h": residual, "h'": left, words: published, f"the best constant, {best:.2f}": residual - best * moved}
    return {name: float(np.mean(value**2)) for name, value in errors.items()}


def _public(workers: int | None) -> Any:
    data, players = DATA["diabetes"].make().shared(0.5), (KnownInstance(), KnownInstance(30.0))  # type: ignore[attr-defined]
    rows = play(ReconstructionGame(data, LeastSquares(), players, known=True), 1000, seed=25, workers=workers).rows
    return [{"name": r.reconstructor, "left": astuple(r.relative_error), "rounds": 1000} for r in rows]


MORE: dict[str, Any] = {f"{KNOWN} | whole table": lambda workers: whole_table(), f"{KNOWN} | public half": _public}
MORE |= {f"{KNOWN} | whole table, Boston": lambda workers: whole_table("Boston")}
MORE |= {f"{KNOWN} | whole table, Boston, older": lambda workers: whole_table("Boston", older=True)}
MORE |= {f"{WHITE} | {name} | {k}": partial(_white, name, k == "others known") for name in OPEN for k in WITH}
MORE |= {f"{CHOSEN} | {name}": partial(_chosen, name) for name in PICKED}
MORE |= {f"{BESIDE} | {name}": partial(_membership, name) for name in SIDE}
MORE |= {f"{FOURTH} | {name}": partial(_yeom, name) for name in ("diabetes-linear", "cancer-logistic", WARFARIN)}
PUBLISHED = {("iris", "logistic"): 92.9, ("wine", "logistic"): 97.3, ("cancer", "logistic"): 86.6}
PUBLISHED |= {("iris", "k-NN"): 93.7, ("wine", "k-NN"): 90.1, ("cancer", "k-NN"): 77.8}
MORE |= {f"{LABELS} | {data} | {learner}": partial(_labels, data, learner) for data, learner in PUBLISHED}


def _said(values: list[float]) -> str:
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * v for v in values))


def _section(title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return f"## {title}\n\n{text}\n\n{table(head, rows, words=len(head))}"


def _asked(kept: dict[str, Any], title: str, start: Sequence[str], columns: int) -> Iterator[list[str]]:
    """Rows of one task: who plays, in how many rounds, and what comes out; or that it was not run."""
    for row in kept.get(title, []):
        more = [str(row["silent"])] if "silent" in row else []
        yield [*start, row["name"].rpartition("queries from ")[2], str(row["rounds"]), _said(row["stated"]), *more]
    if title not in kept:
        yield [*start, "", "not run", *[""] * columns]


def _whole(title: str, kept: dict[str, Any], task: str, form: str) -> str:
    if task not in kept:
        return ""
    lines = "\n".join(f"| {name} | {value:{form}} |" for name, value in kept[task].items())
    return f"{title}\n\n| | |\n| --- | --- |\n{lines}\n\n"


def more_page(kept: dict[str, Any]) -> str:
    white, chosen, beside, labels = [], [], [], []
    for name, how in product(OPEN, WITH):
        rows = kept.get(f"{WHITE} | {name} | {how}")
        told = [str(rows[0]["rounds"]), *(_said(r["stated"]) for r in rows)] if rows else ["not run", "", ""]
        white.append([name, how, *told])
    for name in PICKED:
        told = {row["name"]: _said(row["stated"]) for row in kept.get(f"{CHOSEN} | {name}", [])}
        for player in dict.fromkeys(title.partition(" | ")[0] for title in told):
            chosen.append([name, player, *(told[f"{player} | {words}"] for words in CHOICES)])
        chosen += [] if told else [[name, "", "not run", ""]]
    for title in (*(f"{BESIDE} | {n}" for n in SIDE), *(n for n in MORE if n.startswith(FOURTH))):
        beside += _asked(kept, title, [title.partition(" | ")[2]], 1)
    for (data, learner), published in PUBLISHED.items():
        labels += _asked(kept, f"{LABELS} | {data} | {learner}", [data, learner, str(published)], 2)
    known = _whole(DIABETES, kept, f"{KNOWN} | whole table", ",.2f")
    known += _whole(BOSTON, kept, f"{KNOWN} | whole table, Boston", ".3f")
    known += _whole(OLDER, kept, f"{KNOWN} | whole table, Boston, older", ".3f")
    if half := kept.get(f"{KNOWN} | public half"):
        known += "Half private, half public; squared error left, in % of that of the better of h and h':\n\n"
        known += table(("", "rounds", "left"), [[r["name"], r["rounds"], _said(r["left"])] for r in half], words=3)
    parts = [
        _section("White box", OPENED, ("game", "Hessian of", "rounds", "white box", "Del-Inf-Exm"), white),
        _section("Challenges that the adversary chooses", CHOOSING, ("game", "adversary", *CHOICES), chosen),
        _section("Membership attacks and deletion inference on the same models", MEMBERS, PLAYED, beside),
        TABLE_4,
        _section("Reconstruction: the deleted label", SILENCE, LABEL_HEAD, labels),
        f"## Reconstruction: the response of a known instance\n\n{known}",
    ]
    return "\n\n".join(parts) + "\n"


OPENED = "Parameters in place of answers (`WhiteBox`), beside Del-Inf-Exm in the same rounds."
CHOOSING = """\
Both records are chosen from the private ones before the coin; beside a random pair, 1,000 rounds each. The
chosen pair is nearly the same in every round, so that its figures are about these records alone."""
MEMBERS = """Half of the table is private, the other half the adversary's; LiRA has 64 shadow models a challenge.

![LiRA beside deletion inference](games-lira.png)"""
PLAYED = ("game", "adversary", "rounds", "success")
TABLE_4 = """\
Table 4 (published: Yeom's reduction / Del-Inf-Exm, Eyedata 64.8 / 97.5, IWPC 68.8 / 96.0): `warfarin-ridge`
is IWPC with the absolute loss; its published model is not at hand, and Eyedata is not."""
SILENCE = "Half private, half public; silence (no answer changed) is not right."
LABEL_HEAD = ("data", "learner", "published", "queries", "rounds", "right", "silent")
DIABETES = """Diabetes, least squares, all 442 leave-one-outs of the whole table (published: h 2,859.7, h' 3,001.7,
lambda 30 829.8, which is near the best constant's). Mean squared error:"""
BOSTON = "Boston, the same for 506 towns (published: h 21.897, h' 23.728, lambda 17.5 7.149)."
OLDER = (
    "The same with the table of scikit-learn before 0.20, in which the crime rate of one town is 0.6718, not 10.6718:"
)
