"""What is played besides the published cells: white boxes, membership attacks, and reconstruction."""

from typing import Any

import numpy as np

from bayesrecon.datasets.packaged import boston, warfarin
from bayesrecon.games import (
    DeletedLabel,
    Exm,
    Game,
    KnownInstance,
    LeastSquares,
    Neighbours,
    Outlying,
    ReconstructionGame,
    Reduction,
    WhiteBox,
    Yeom,
    load,
    play,
    table,
)
from bayesrecon.games.adversary import named_adversary
from bayesrecon.games.data import Records
from bayesrecon.games.named import DATA
from bayesrecon.games.view import Oracles, View

OPEN = ("diabetes-linear", "diabetes-ridge", "iris-logistic", "wine-logistic", "cancer-logistic")
PICKED = ("diabetes-linear", "diabetes-lasso", "iris-logistic", "wine-logistic", "cancer-logistic", "wine-svm")
SIDE = ("diabetes-ridge", "cancer-logistic")
WHITE, BESIDE, FOURTH, LABELS, KNOWN = "white box", "membership", "Table 4", "deleted label", "known instance"
CHOSEN, WARFARIN = "chosen challenges", "warfarin-ridge"
HOUSES = {"diabetes": 30.0, "Boston": 17.5}
"""Tables of known instances, with the published constant."""


def _rows(result: Any) -> list[dict[str, Any]]:
    rows = [{"name": r.adversary, "stated": [r.stated.estimate, r.stated.lower, r.stated.upper]} for r in result.rows]
    return [{**row, "rounds": len(result.numbers)} for row in rows]


def _white(name: str, others: bool) -> Any:
    def run(workers: int | None) -> Any:
        game = load(
            name,
            adversaries=(WhiteBox(), Exm()),
            others=others,
            distinct=True,
            **({} if others else {"auxiliary": None}),
        )
        return _rows(play(game, 1000, seed=21, workers=workers))

    return run


def _membership(name: str) -> Any:
    def run(workers: int | None) -> Any:
        names = ("lira-alone", "lira", "lira-offline", "yeom", "exm", "ins", "white-box")
        players = tuple(named_adversary(one) for one in names)
        return _rows(play(load(name, adversaries=players, share=0.5, distinct=True), 200, seed=22, workers=workers))

    return run


def _yeom(name: str) -> Any:
    def run(workers: int | None) -> Any:
        players = (Reduction(Yeom(), "labels"), Exm() if "cancer" in name else Exm("absolute"))
        if name != WARFARIN:
            return _rows(play(load(name, adversaries=players, share=0.5), 1000, seed=23, workers=workers))
        doses = warfarin()
        data = table(doses.x, doses.y, classification=False, standardised=True, share=0.5, name=doses.name)
        return _rows(play(Game(data, LeastSquares(1.0), players, auxiliary=None), 1000, seed=23, workers=workers))

    return run


def _labels(data: str, learner: str) -> Any:
    def run(workers: int | None) -> Any:
        chosen = Neighbours(5) if learner == "k-NN" else load(f"{data}-logistic").learner
        players = [DeletedLabel(q) for q in ("public", "normal", "box")]
        game = ReconstructionGame(DATA[data].make().shared(0.5), chosen, players)  # type: ignore[attr-defined]
        result = play(game, 1000, seed=24, workers=workers)
        rows = [(r.reconstructor, r.right, r.silent) for r in result.rows]
        return [{"name": n, "stated": [p.estimate, p.lower, p.upper], "silent": s, "rounds": 1000} for n, p, s in rows]

    return run


def _chosen(name: str) -> Any:
    def run(workers: int | None) -> Any:
        rows = []
        for words, choose in (("a random pair", None), ("the largest leverage", Outlying())):
            found = _rows(play(load(name, choose=choose), 1000, seed=26, workers=workers))
            rows += [{**row, "name": f"{row['name']} | {words}"} for row in found]
        return rows

    return run


def whole_table(name: str = "diabetes") -> dict[str, float]:
    """All leave-one-outs of a table: squared errors of h, h' and the published reconstruction."""
    found: Any = DATA["diabetes"].make() if name == "diabetes" else boston()
    constant = HOUSES[name]
    records, learner = Records(np.asarray(found.x, float), found.y), LeastSquares()
    h = learner.fit(records, 0, 0)
    moved, left = np.empty(len(records.y)), np.empty(len(records.y))
    published = np.empty(len(records.y))
    for i, (x, y) in enumerate(zip(records.x, records.y, strict=True)):
        after = learner.without(h, records, np.array([i]), 0, 0)
        moved[i], left[i] = (h(x[None]) - after(x[None]))[0], y - after(x[None])[0]
        view = View(
            Oracles(h, after),
            x[None],
            None,
            0,
            "values",
            None,
            None,
            None,
            learner,
            len(records.y),
            np.random.default_rng(0),
        )
        (guess,) = KnownInstance(constant).guesses(view)
        assert guess is not None
        published[i] = y - guess.y
    residual = records.y - h(records.x)
    best = float(residual @ moved / (moved @ moved))
    words = f"lambda {constant:g}"
    errors = {"h": residual, "h'": left, words: published, f"the best constant, {best:.2f}": residual - best * moved}
    return {name: float(np.mean(value**2)) for name, value in errors.items()}


def _public(workers: int | None) -> Any:
    game = ReconstructionGame(
        DATA["diabetes"].make().shared(0.5),
        LeastSquares(),
        (KnownInstance(), KnownInstance(30.0)),
        known=True,  # type: ignore[attr-defined]
    )
    result = play(game, 1000, seed=25, workers=workers)
    return [
        {"name": r.reconstructor, "left": [r.left.estimate, r.left.lower, r.left.upper], "rounds": 1000}
        for r in result.rows
    ]


MORE: dict[str, Any] = {f"{KNOWN} | whole table": lambda workers: whole_table(), f"{KNOWN} | public half": _public}
MORE |= {f"{KNOWN} | whole table, Boston": lambda workers: whole_table("Boston")}
MORE |= {
    f"{WHITE} | {name} | {how}": _white(name, how == "others known")
    for name in OPEN
    for how in ("others known", "public tenth")
}
MORE |= {f"{CHOSEN} | {name}": _chosen(name) for name in PICKED}
MORE |= {f"{BESIDE} | {name}": _membership(name) for name in SIDE}
MORE |= {f"{FOURTH} | {name}": _yeom(name) for name in ("diabetes-linear", "cancer-logistic", WARFARIN)}
MORE |= {
    f"{LABELS} | {data} | {learner}": _labels(data, learner)
    for data in ("iris", "wine", "cancer")
    for learner in ("logistic", "k-NN")
}

PUBLISHED = {("iris", "logistic"): 92.9, ("wine", "logistic"): 97.3, ("cancer", "logistic"): 86.6}
PUBLISHED |= {("iris", "k-NN"): 93.7, ("wine", "k-NN"): 90.1, ("cancer", "k-NN"): 77.8}


def _said(values: list[float]) -> str:
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * v for v in values))


def more_page(kept: dict[str, Any]) -> str:
    """The sections after the published cells."""
    lines = [
        "## White box",
        "",
        "Parameters in place of answers (`WhiteBox`), beside Del-Inf-Exm in the same rounds.",
        "",
    ]
    lines += ["| game | Hessian of | rounds | white box | Del-Inf-Exm |", "|" + " --- |" * 5]
    for name in OPEN:
        for how in ("others known", "public tenth"):
            rows = kept.get(f"{WHITE} | {name} | {how}")
            told = [str(rows[0]["rounds"]), *(_said(r["stated"]) for r in rows)] if rows else ["not run", "", ""]
            lines.append("| " + " | ".join([name, how, *told]) + " |")
    lines += [
        "",
        "## Challenges that the adversary chooses",
        "",
        "Both records are chosen from the private ones before the coin; beside a random pair, 1,000 rounds each. The",
        "chosen pair is nearly the same in every round, so that its figures are about these records alone.",
        "",
        "| game | adversary | a random pair | the largest leverage |",
        "|" + " --- |" * 4,
    ]
    for name in PICKED:
        rows = kept.get(f"{CHOSEN} | {name}")
        told = {row["name"]: _said(row["stated"]) for row in rows or []}
        for player in dict.fromkeys(title.partition(" | ")[0] for title in told):
            pair = [told[f"{player} | {words}"] for words in ("a random pair", "the largest leverage")]
            lines.append("| " + " | ".join([name, player, *pair]) + " |")
        lines += [] if rows else [f"| {name} | | not run | |"]
    lines += ["", "## Membership attacks and deletion inference on the same models", ""]
    lines += [
        "Half of the table is private, the other half the adversary's; LiRA has 64 shadow models a challenge.",
        "",
    ]
    lines += [
        "![LiRA beside deletion inference](games-lira.png)",
        "",
        "| game | adversary | rounds | success |",
        "|" + " --- |" * 4,
    ]
    for title in (*(f"{BESIDE} | {n}" for n in SIDE), *(n for n in MORE if n.startswith(FOURTH))):
        rows = kept.get(title)
        lines += [
            f"| {title.partition(' | ')[2]} | {r['name']} | {r['rounds']} | {_said(r['stated'])} |" for r in rows or []
        ]
        lines += [] if rows else [f"| {title.partition(' | ')[2]} | | not run | |"]
    lines += [
        "",
        "Table 4 (published: Yeom's reduction / Del-Inf-Exm, Eyedata 64.8 / 97.5, IWPC 68.8 / 96.0): `warfarin-ridge`",
    ]
    lines += ["is IWPC with the absolute loss; its published model is not at hand, and Eyedata is not.", ""]
    lines += [
        "## Reconstruction: the deleted label",
        "",
        "Half private, half public; silence (no answer changed) is not right.",
        "",
    ]
    lines += ["| data | learner | published | queries | rounds | right | silent |", "|" + " --- |" * 7]
    for (data, learner), published in PUBLISHED.items():
        rows = kept.get(f"{LABELS} | {data} | {learner}")
        start = f"| {data} | {learner} | {published} | "
        lines += [
            f"{start}{r['name'].partition('from ')[2]} | {r['rounds']} | {_said(r['stated'])} | {r['silent']} |"
            for r in rows or []
        ]
        lines += [] if rows else [f"{start} | not run | | |"]
    lines += ["", "## Reconstruction: the response of a known instance", ""]
    whole, half = kept.get(f"{KNOWN} | whole table"), kept.get(f"{KNOWN} | public half")
    if whole:
        lines += [
            "Diabetes, least squares, all 442 leave-one-outs of the whole table (published: h 2,859.7, h' 3,001.7,"
        ]
        lines += [
            "lambda 30 829.8, which is near the best constant's). Mean squared error:",
            "",
            "| | |",
            "| --- | --- |",
        ]
        lines += [f"| {name} | {value:,.2f} |" for name, value in whole.items()] + [""]
    if houses := kept.get(f"{KNOWN} | whole table, Boston"):
        lines += ["Boston, the same for 506 towns (published: h 21.897, h' 23.728, lambda 17.5 7.149).", ""]
        lines += ["| | |", "| --- | --- |", *(f"| {name} | {value:.3f} |" for name, value in houses.items()), ""]
    if half:
        lines += [
            "Half private, half public; squared error left, in % of that of the better of h and h':",
            "",
            "| | rounds | left |",
        ]
        lines += ["| --- | --- | --- |", *(f"| {r['name']} | {r['rounds']} | {_said(r['left'])} |" for r in half)]
    return "\n".join(lines) + "\n"
