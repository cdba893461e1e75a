"""Success against learners that promise epsilon, beside what epsilon allows, as the page benchmarks/COMPLIANCE.md.

python -m benchmarks.games.compliance [--workers 2] [--again]           # --again plays points anew that are kept
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from bayesrecon.games import Game, Law, Likelihood, LossChange, OutputChange, load, play
from bayesrecon.games.data import Records
from bayesrecon.games.private import ObjectivePerturbation, OutputPerturbation, PosteriorDraw, minimiser
from benchmarks.games.compliance_page import FIGURE, draw, page
from benchmarks.study import HERE, Study
from benchmarks.tasks import add_missing

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ROUNDS, SEED, DRAWS = 1000, 30, 400_000
PLAYERS = (LossChange(), OutputChange(), Likelihood())
SIZE, PENALTY = 2000, 0.01
LEAN = 0.45  # of the canaries towards the majority: where the minimiser moves most
ASIDE = np.array([[LEAN, (1 - LEAN**2) ** 0.5], [LEAN, -((1 - LEAN**2) ** 0.5)]]), np.array([0, 0])
OPPOSED = np.array([[1.0], [1.0]]), np.array([1, 0])


def unanimous(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tile([1.0, 0.0], (n, 1)), np.ones(n, int)


def silent(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((n, 1)), np.ones(n, int)


MAJORITY = Law("unanimous records", unanimous, classes=2, size=SIZE - 2, outside=0)
SILENCE = Law("silent records", silent, classes=2, size=3, outside=0)
WORST = {
    "output perturbation": (MAJORITY, ASIDE, OutputPerturbation(1.0, 1.0, False, penalty=PENALTY)),
    "objective perturbation": (MAJORITY, ASIDE, ObjectivePerturbation(1.0, 1.0, False, penalty=PENALTY)),
    "posterior draw": (SILENCE, OPPOSED, PosteriorDraw(1.0, 1.0, False, dimensions=1, points=2)),
}
CANCER = {"output perturbation": OutputPerturbation(), "objective perturbation": ObjectivePerturbation()}
CANCER |= {"posterior draw": PosteriorDraw(dimensions=2, points=21)}


@dataclass(frozen=True)
class TooLittle(OutputPerturbation):
    """A tenth of the noise."""

    def sensitivity(self, count: int) -> float:
        return super().sensitivity(count) / 10


def games(epsilon: float) -> dict[str, Game]:
    """All games of one epsilon, `{data | mechanism: game}`."""
    found = {}
    for name, (law, canaries, learner) in WORST.items():
        learner = replace(learner, epsilon=epsilon)
        found[f"worst case | {name}"] = Game(law, learner, PLAYERS, canaries=canaries, others=True, name=name)
    table = load("cancer-private-output").data
    for name, learner in CANCER.items():
        learner = replace(learner, epsilon=epsilon)
        found[f"breast cancer | {name}"] = Game(table, learner, PLAYERS, others=True, name=name)
    return found


def played(name: str, game: Game, workers: int | None) -> dict[str, Any]:
    result = play(game, ROUNDS, seed=SEED, workers=workers)
    best = result.best
    return {
        "rounds": ROUNDS,
        "rows": {r.adversary: [r.success.estimate, r.success.lower, r.success.upper, r.ties] for r in result.rows},
        "best": [best.adversary, best.simultaneous.lower, best.simultaneous_epsilon], "bound": result.bound,
        "flagged": list(result.failures), "possible": possible(name, game), "limit": limit(name, game),
    }  # fmt: skip


def possible(name: str, game: Game) -> float | None:
    """The success of the likelihood ratio, computed: where S is the same in all rounds, and the density simple."""
    if not name.startswith("worst case") or "objective" in name:
        return None
    learner, (private, _) = game.learner, game.data.draw(np.random.default_rng(0))
    x, y = game.canaries
    both = [Records(np.vstack([private.x, x[[i]]]), np.append(private.y, y[i])) for i in (0, 1)]
    if isinstance(learner, PosteriorDraw):
        return float(np.maximum(*(np.exp(learner.posterior(one)[1]) for one in both)).sum() / 2)
    ends = [minimiser(learner.signed(one), learner.penalty, 0.0, learner.tolerance) for one in both]
    return shifted(np.linalg.norm(ends[0] - ends[1]) / learner.sensitivity(SIZE - 1), 2, learner.epsilon)


def limit(name: str, game: Game) -> float | None:
    """The largest success that the mechanism admits in this many dimensions, whatever the data are."""
    if "posterior" in name:
        return float(expit(game.learner.epsilon / 2))
    width = 2 if name.startswith("worst case") else 31
    return shifted(1.0, width, game.learner.epsilon) if "output" in name else None


def shifted(share: float, width: int, epsilon: float) -> float:
    """The success of the likelihood ratio between noise and noise moved by a share of the sensitivity: the mean of the
    larger posterior probability, over draws of the noise."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(DRAWS, width))
    noise = rng.gamma(width, size=(DRAWS, 1)) * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    moved = noise.copy()
    moved[:, 0] += share * epsilon
    return float(expit(np.abs(np.linalg.norm(moved, axis=1) - np.linalg.norm(noise, axis=1))).mean())


def broken(workers: int | None) -> dict[str, Any]:
    """After how many rounds a tenth of the noise is flagged, at epsilon 1."""
    game = Game(MAJORITY, TooLittle(1.0, 1.0, False, penalty=PENALTY), PLAYERS, canaries=ASIDE, others=True)
    whole = play(game, 200, seed=SEED, workers=workers)
    found = {}
    for n in (10, 20, 30, 50, 100, 200):
        part = game.result(whole.outcomes[:n], numbers=whole.numbers[:n], seed=SEED)
        best = part.best
        found[str(n)] = [best.adversary, best.success.estimate, best.simultaneous.lower, bool(part.failures)]
    return found


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--again", action="store_true")
    given = STUDY.given(parser)
    tasks = {f"{k} | {e:g}": partial(played, k, g, given.workers) for e in EPSILONS for k, g in games(e).items()}
    tasks["broken"] = partial(broken, given.workers)
    draw(add_missing(STUDY, tasks, ("",) if given.again else ()), HERE / FIGURE)


if __name__ == "__main__":
    main()
