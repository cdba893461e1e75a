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
    """A table of two-valued rows with the gains in log probability of flipping them, `(N,)`."""

    def __init__(
        self, precision: Blocks, scale: float, solution: np.ndarray, candidates: np.ndarray, log_prior: np.ndarray
    ) -> None:
        self.precision, self.scale = precision, scale
        self.solution, self.candidates = solution, candidates
        self.prior = log_prior[:, 1] - log_prior[:, 0]
        self.places = precision.places()
        self.passed = np.zeros(len(solution), bool)  # the rows of a path

    def at(self, chosen: Int[np.ndarray, " N"]) -> None:
        """Begin at the table with `chosen (N,)` values, zero or one."""
        self.chosen = chosen.copy()
        value = np.take_along_axis(self.candidates, chosen[:, None], axis=1)[:, 0]
        sign = 1 - 2 * chosen
        self.move = sign * (self.candidates[:, 1] - self.candidates[:, 0])
        cost = 0.5 * self.scale * self.precision.diagonals().sum(axis=0) * self.move**2
        self.gains = self.move * (self.scale * (self.precision @ (self.solution - value))) + sign * self.prior - cost

    def flip(self, row: int) -> np.ndarray:
        """Flips a row; the rows that feel it."""
        back, move, felt = -self.gains[row], self.scale * self.move[row], []
        for rows, values in self.precision.column(row, self.places):
            self.gains[rows] -= move * self.move[rows] * values
            felt.append(rows)
        self.gains[row], self.move[row], self.chosen[row] = back, -self.move[row], 1 - self.chosen[row]
        return np.concatenate(felt)

    def paths(self, row: int) -> list[tuple[float, list[int]]]:
        """The best gains on ways of flips that begin with a row, each followed by one that shares a coordinate with
        the last, and their rows; the table is left as it was."""
        first = float(self.gains[row])
        near = self.flip(row)
        near = near[near != row]
        result = [(first, [row])]
        for second in near[np.argsort(-self.gains[near])[:_BRANCHES]]:
            step, done = int(second), [row]
            total, best = first, (-np.inf, [row])
            while True:
                total += float(self.gains[step])
                done.append(step)
                if total > best[0]:
                    best = total, list(done)
                if len(done) == _DEPTH:
                    break
                near = self.flip(step)
                self.passed[done] = True
                gain = np.where(self.passed[near], -np.inf, self.gains[near])
                self.passed[done] = False
                step = int(near[gain.argmax()])
            result.append(best)
            for flipped in done[1:-1]:
                self.flip(flipped)
        self.flip(row)
        return result


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
        for row in np.argsort(-table.gains):
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


def with_rival_tables(table: Table, probability: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """Probabilities `(N, 2)`, lowered to what rival tables leave. Where the best table has another value of a row
    neither has more than a half, and the table's comes first if the other passed for certain."""
    chosen, rows = probability.argmax(axis=1), np.arange(len(probability))
    best, odds = odds_against(table, chosen)
    certainty = probability[rows, chosen]
    other = best != chosen
    value = np.where(other & (certainty > _CERTAIN), best, chosen)
    # Just above a half, so that the value is still the more probable one.
    stated = np.maximum(np.minimum(certainty, np.where(other, 0.0, 1 / (1 + odds))), 0.5 + 1e-9)
    result = np.empty_like(probability)
    result[rows, value], result[rows, 1 - value] = stated, 1 - stated
    return result
