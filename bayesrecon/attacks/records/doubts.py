"""Other tables of two-valued rows that are about as likely as the decoded one.

Two persons who swap their answers to two items leave all sums as they were: four rows, each certain given the other
three. Expectation propagation revises rows one at a time and states probabilities next to one for such a table and for
its rival. Here rows are flipped one after another, the likeliest first (the search in depth of Kernighan and Lin 1970),
and what the best of these tables has of the probability is taken from the rows that it flips.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesrecon.attacks.records.blocks import Blocks

_DEPTH, _BRANCHES = 4, 3  # flips in a row, and choices of the second: a swap has four
_SWEEPS = 3  # over all rows, while they find better tables
_BETTER = 1e-6  # gain of one: less is rounding
_CERTAIN = 0.9  # probability from which a value passed for certain


class Table:
    """A table of two-valued rows with the gains in log probability of flipping them."""

    def __init__(
        self, precision: Blocks, scale: float, solution: np.ndarray, candidates: np.ndarray, log_prior: np.ndarray
    ) -> None:
        self.precision, self.scale = precision, scale
        self.step = candidates[:, 1] - candidates[:, 0]
        self.prior = log_prior[:, 1] - log_prior[:, 0]
        self.cost = 0.5 * scale * precision.diagonals().sum(axis=0) * self.step**2
        self.solution, self.candidates = solution, candidates
        self.places = precision.places()

    def at(self, chosen: Int[np.ndarray, " N"]) -> None:
        """Begin at the table with `chosen (N,)` values, zero or one."""
        self.chosen = chosen.copy()
        value = np.take_along_axis(self.candidates, chosen[:, None], axis=1)[:, 0]
        self.pull = self.scale * (self.precision @ (self.solution - value))

    def gains(self, rows: np.ndarray) -> np.ndarray:
        sign = 1 - 2 * self.chosen[rows]
        return sign * (self.step[rows] * self.pull[rows] + self.prior[rows]) - self.cost[rows]

    def flip(self, row: int) -> np.ndarray:
        """Flips a row; the rows that feel it."""
        move = self.scale * (1 - 2 * self.chosen[row]) * self.step[row]
        felt = []
        for rows, values in self.precision.column(row, self.places):
            self.pull[rows] -= move * values
            felt.append(rows)
        self.chosen[row] = 1 - self.chosen[row]
        return np.concatenate(felt)

    def paths(self, row: int) -> list[tuple[float, list[int]]]:
        """The best gains on ways of flips that begin with a row, each followed by one that shares a coordinate with
        the last, and their rows; the table is left as it was."""
        first = float(self.gains(np.array([row]))[0])
        near = self.flip(row)
        near = near[near != row]
        found = [(first, [row])]
        for second in near[np.argsort(-self.gains(near))[:_BRANCHES]]:
            total, best, done, step = first, (-np.inf, [row]), [row], int(second)
            for _ in range(_DEPTH - 1):
                total += float(self.gains(np.array([step]))[0])
                near = self.flip(step)
                done.append(step)
                if total > best[0]:
                    best = total, list(done)
                gain = self.gains(near)
                gain[np.isin(near, done)] = -np.inf
                step = int(near[gain.argmax()])
            found.append(best)
            for flipped in done[1:]:
                self.flip(flipped)
        self.flip(row)
        return found


def odds_against(table: Table, chosen: Int[np.ndarray, " N"]) -> tuple[np.ndarray, np.ndarray]:
    """The best table that is found, `(N,)`, and by row the odds, at most one, of the best one with another value.

    Args:
        chosen: `(N,)` zero or one, where to begin.
    """
    table.at(chosen)
    log_odds = np.zeros(len(chosen))
    for _ in range(_SWEEPS):
        better = False
        log_odds[:] = -np.inf
        for row in np.argsort(-table.gains(np.arange(len(chosen)))):
            paths = table.paths(int(row))
            gain, path = max(paths)
            if gain > _BETTER:
                better = True
                for flipped in path:
                    table.flip(flipped)
            for gain, path in paths:
                log_odds[path] = np.maximum(log_odds[path], min(gain, 0.0))
        if not better:
            break
    return table.chosen, np.exp(log_odds)


def doubted(table: Table, probability: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """Probabilities `(N, 2)`, lowered to what rival tables leave. Where the best table has another value of a row
    neither has more than a half, and the table's comes first if the other passed for certain."""
    chosen, rows = probability.argmax(axis=1), np.arange(len(probability))
    best, odds = odds_against(table, chosen)
    certainty = probability[rows, chosen]
    other = best != chosen
    value = np.where(other & (certainty > _CERTAIN), best, chosen)
    # Just above a half, so that the value is still the more probable one.
    stated = np.maximum(np.minimum(certainty, np.where(other, 0.0, 1 / (1 + odds))), 0.5 + 1e-9)
    found = np.empty_like(probability)
    found[rows, value], found[rows, 1 - value] = stated, 1 - stated
    return found
