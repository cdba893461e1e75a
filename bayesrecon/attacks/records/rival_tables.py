"""Rival tables of two-valued rows: other tables that are about as likely as the decoded one.

If two persons swap their answers to two items, all sums stay the same. Each of these four rows is then certain given
the other three. Expectation propagation revises one row at a time, so it states probabilities near one both for such a
table and for its rival. The search here flips rows one after another, the most likely first (Kernighan and Lin 1970).
The probability of the best rival is then subtracted from the rows in which it differs.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesrecon.attacks.records.blocks import Blocks

_DEPTH, _BRANCHES = 4, 3  # consecutive flips (a swap has four), and alternatives for the second one
_SWEEPS = 3  # largest number of sweeps over all rows
_BETTER = 1e-6  # smallest gain of a better table: less is rounding
_CERTAIN = 0.9  # probability above which a value counts as certain


class BinaryTable:
    """A table of two-valued rows with the gains in log probability of flipping them, `(N,)`."""

    def __init__(
        self, precision: Blocks, scale: float, solution: np.ndarray, candidates: np.ndarray, log_prior: np.ndarray
    ) -> None:
        self.precision, self.scale = precision, scale
        self.solution, self.candidates = solution, candidates
        self.prior = log_prior[:, 1] - log_prior[:, 0]
        self.places = precision.places()
        self.visited = np.zeros(len(solution), bool)  # rows of the current path

    def start(self, chosen: Int[np.ndarray, " N"]) -> None:
        """Start from a table with `chosen (N,)` values, zero or one."""
        self.chosen = chosen.copy()
        value = np.take_along_axis(self.candidates, chosen[:, None], axis=1)[:, 0]
        sign = 1 - 2 * chosen
        self.move = sign * (self.candidates[:, 1] - self.candidates[:, 0])
        cost = 0.5 * self.scale * self.precision.diagonals().sum(axis=0) * self.move**2
        self.gains = self.move * (self.scale * (self.precision @ (self.solution - value))) + sign * self.prior - cost

    def flip(self, row: int) -> np.ndarray:
        """Flip a row. Returns the rows whose gains change."""
        gain, move, changed = -self.gains[row], self.scale * self.move[row], []
        for rows, values in self.precision.column(row, self.places):
            self.gains[rows] -= move * self.move[rows] * values
            changed.append(rows)
        self.gains[row], self.move[row], self.chosen[row] = gain, -self.move[row], 1 - self.chosen[row]
        return np.concatenate(changed)

    def paths(self, row: int) -> list[tuple[float, list[int]]]:
        """Best gains on paths of flips that start with a row, and the rows of each path. The table does not change.

        Consecutive rows of a path share a coordinate.
        """
        first_gain = float(self.gains[row])
        neighbours = self.flip(row)
        neighbours = neighbours[neighbours != row]
        result = [(first_gain, [row])]
        for second in neighbours[np.argsort(-self.gains[neighbours])[:_BRANCHES]]:
            step, path = int(second), [row]
            total, best = first_gain, (-np.inf, [row])
            while True:
                total += float(self.gains[step])
                path.append(step)
                if total > best[0]:
                    best = total, list(path)
                if len(path) == _DEPTH:
                    break
                neighbours = self.flip(step)
                self.visited[path] = True
                gain = np.where(self.visited[neighbours], -np.inf, self.gains[neighbours])
                self.visited[path] = False
                step = int(neighbours[gain.argmax()])
            result.append(best)
            for flipped in path[1:-1]:
                self.flip(flipped)
        self.flip(row)
        return result


def odds_against(table: BinaryTable, chosen: Int[np.ndarray, " N"]) -> tuple[np.ndarray, np.ndarray]:
    """The best table found, `(N,)`, and for each row the odds (at most one) of the best table with another value.

    Args:
        chosen: `(N,)` the first table, zero or one.
    """
    table.start(chosen)
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


def with_rival_tables(table: BinaryTable, probability: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """Probabilities `(N, 2)`, lowered by the probabilities of rival tables.

    If the best table has another value of a row, both values get one half. The value of the best table comes first if
    the decoded one counted as certain.
    """
    chosen, rows = probability.argmax(axis=1), np.arange(len(probability))
    best, odds = odds_against(table, chosen)
    certainty = probability[rows, chosen]
    differs = best != chosen
    value = np.where(differs & (certainty > _CERTAIN), best, chosen)
    # Just above a half, so that the value is still the more probable one.
    stated = np.maximum(np.minimum(certainty, np.where(differs, 0.0, 1 / (1 + odds))), 0.5 + 1e-9)
    result = np.empty_like(probability)
    result[rows, value], result[rows, 1 - value] = stated, 1 - stated
    return result
