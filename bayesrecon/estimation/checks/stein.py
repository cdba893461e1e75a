"""Do the draws and the model belong together?

For draws of the posterior with score s and mean m, Stein's identity gives `E[s] = 0`,
`E[(theta - m)_i s_j] = -[i = j]` and `E[(theta - m)_i^2 s_i] = 0`. With the score of the solved measure
these are tested over the draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.estimation.checks.check import Check, CheckInput
from bayesrecon.estimation.checks.normality import READ, normal
from bayesrecon.estimation.fields import Fields
from bayesrecon.estimation.scored import Moved, ScoredDraws, Unseen, allowed, confirmed
from bayesrecon.estimation.standard import Rows, Standard

# False alarms per release, half a percent in all. Of single identities, by their family:
_SCORE, _MOMENTS = 1.2e-3, 1e-4
_FEWEST = 500  # draws, from which fields are tested: with a hundred, three good releases in a hundred fail
_SMALLEST_SIZE = 0.05  # violations of one identity below this are not worth a failure however significant
_PAIRED = 40  # coordinates up to which all pairs are tested
_RECHECKED = 64  # violations of an identity that are looked at again, the largest first
_SEARCHED = "Or did the search miss the data, so that the check passes with another key= or a narrower domain=?"
_NUMBERS = 2**22  # of the series of identities that are looked at together


def check_identities(inputs: CheckInput) -> tuple[str, ...]:
    """Test the Stein identities; one line for each family of them that fails."""
    draws, fit_halves = inputs.draws, cache(inputs.halves)
    t, s, sd = draws.standardised()

    def in_units(h: Rows, j: np.ndarray) -> Rows:
        return Rows(lambda at: h[at] * sd[j], h.shape)

    def errors(h: Rows, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        return inputs.moved(in_units(h, j), j, into)

    def unseen(h: Rows, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        return inputs.unseen(in_units(h, j), j, into)

    messages = [
        f"draws and model disagree: {what} should be 0 and is off for {which}; is the prior right, and are these "
        "converged draws of this very model?"
        for what, which in (
            *_coordinate_identities(inputs.names, draws, t, s, errors, unseen, fit_halves),
            *_field_identities(draws, t, s, errors, unseen, fit_halves, inputs.finite),
        )
    ]
    if messages and not inputs.finite:
        messages[-1] += f" {_SEARCHED}"
    if messages and normal(draws):
        messages[-1] = f"{messages[-1]} {READ}"
    return tuple(messages)


def _coordinate_identities(
    names: tuple[str, ...],
    draws: ScoredDraws,
    t: Standard,
    s: Standard,
    moved: Moved,
    unseen: Unseen,
    halves: Callable[[], Sequence[ScoredDraws]],
) -> list[tuple[str, str]]:
    """Tests of `E[h score_j + d_j h] = 0` for powers h of single coordinates."""
    found = []
    for label, power in _powers(t, s).items():
        level, i, j = power.level, power.i, power.j
        size, z = power.judged(s, draws)
        threshold = -NormalDist().inv_cdf(level / len(z) / 2)
        violated = np.flatnonzero((z > threshold) & (np.abs(size) > _SMALLEST_SIZE))
        if violated.size:
            violated = violated[np.argsort(-z[violated])][:_RECHECKED]
            series = power.values(s, violated) + moved(power.rows(i[violated]), j[violated], np.arange(len(violated)))
            z[violated] = _significance(series, size[violated], draws.weights, draws.chain)
            violated = violated[z[violated] > threshold]
        if violated.size:
            hidden = unseen(power.rows(i[violated]), j[violated], np.arange(len(violated)))
            z[violated] = allowed(size[violated], z[violated], hidden)
            violated = violated[z[violated] > threshold]
        if violated.size and (parts := halves()):
            half_sizes = np.mean([_power_means(half, label)[violated] for half in parts], axis=0)
            z[violated] = confirmed(size[violated], z[violated], half_sizes)
            violated = violated[z[violated] > threshold]
        if violated.size:
            order = violated[np.argsort(-z[violated])][:3]
            which = ", ".join(
                f"{names[j[k]]}{'' if i[k] == j[k] else ' with ' + names[i[k]]} by {size[k]:+.2g} (z {z[k]:.0f})"
                for k in order
            )
            more = f" and {violated.size - len(order)} more" if violated.size > len(order) else ""
            found.append((label, which + more))
    return found


@dataclass(frozen=True)
class _Power:
    """Identities `E[t_i^k score_j + rest] = 0` of one kind for pairs i, j.

    Attributes:
        level: rate of false alarms.
        k: the power.
        t: `(T, d)` standardised draws.
        rest: function of positions of pairs that returns the rest, `(T, P)` or broadcast to it.
        i, j: `(P,)` coordinates.
    """

    level: float
    k: int
    t: Standard
    rest: Callable[[np.ndarray], Any]
    i: np.ndarray
    j: np.ndarray

    def values(self, s: Standard, at: np.ndarray) -> Float[np.ndarray, "T P"]:
        """Values at the draws for some of the pairs, `(T, P)`."""
        score = s.columns(self.j[at])
        h = self.t.columns(self.i[at]) ** self.k if self.k else 1.0
        return np.asarray(h * score + self.rest(at))

    def rows(self, i: np.ndarray) -> Rows:
        """The powers of some coordinates, `(T, len(i))`."""
        return Rows(lambda at: self.t[at][:, i] ** self.k, (len(self.t), len(i)))

    def blocks(self, draws: int) -> list[np.ndarray]:
        """The pairs in blocks that fit into memory."""
        return np.array_split(np.arange(len(self.i)), -(-len(self.i) * draws // _NUMBERS))

    def sizes(self, s: Standard, weights: np.ndarray) -> Float[np.ndarray, " P"]:
        """Means over the draws, `(P,)`."""
        return np.concatenate([weights @ self.values(s, at) for at in self.blocks(len(s))])

    def judged(self, s: Standard, draws: ScoredDraws) -> tuple[np.ndarray, np.ndarray]:
        """Means over the draws and their number of standard errors, `(P,)` each."""
        sizes, z = [], []
        for at in self.blocks(len(s)):
            values = self.values(s, at)
            sizes.append(draws.weights @ values)
            z.append(_significance(values, sizes[-1], draws.weights, draws.chain))
        return np.concatenate(sizes), np.concatenate(z)


def _powers(t: Standard, s: Standard) -> dict[str, _Power]:
    """Identities by name."""
    every = np.arange(s.shape[1])
    rows, columns = (every, every) if t.shape[1] > _PAIRED else map(np.ravel, np.indices((t.shape[1], len(every))))
    # The mean is estimated too: its sampling error enters linearly and is carried by -t.
    return {
        "E[score]": _Power(_SCORE, 0, t, lambda at: 0.0, every, every),
        "E[(theta - mean) score] + 1": _Power(_MOMENTS, 1, t, lambda at: (rows == columns)[at], rows, columns),
        "E[(theta - mean)^2 score]": _Power(_MOMENTS, 2, t, lambda at: 2 * t.columns(every[at]), every, every),
    }


def _power_means(draws: ScoredDraws, label: str) -> np.ndarray:
    t, s, _ = draws.standardised()
    return _powers(t, s)[label].sizes(s, draws.weights)


def _field_identities(
    draws: ScoredDraws,
    t: Standard,
    s: Standard,
    moved: Moved,
    unseen: Unseen,
    halves: Callable[[], Sequence[ScoredDraws]],
    finite: bool,
) -> list[tuple[str, str]]:
    """Tests of `E[<h, score> + div h] = 0` for fields h, which sum up small deviations of many coordinates."""
    if np.sum(draws.weights**2) * _FEWEST > 1:
        return []
    j, fields = np.arange(s.shape[1]), Fields.of(t, s)
    count = len(Fields.labels)
    h = Rows(lambda at: np.concatenate([h for h, _ in fields.at(at)], axis=1), (len(t), count * len(j)))
    every, into = np.tile(j, count), np.repeat(range(count), len(j))
    errors = moved(h, every, into)
    sums = fields.sums()
    sizes = fields.sizes(sums, draws.weights)
    half_sizes: list[float] = []
    found = []
    for k, (label, levels) in enumerate(Fields.labels.items()):
        size, values = sizes[k], sums[:, k, None]
        level = levels[int(size < 0)]
        threshold = -NormalDist().inv_cdf(level) if level else np.inf
        corrected = values + errors[:, k, None]
        z = min(
            _significance(series, np.array([size]), draws.weights, draws.chain)[0]
            for series in ((corrected,) if finite else (corrected, values))
        )
        if z > threshold:
            columns = np.flatnonzero(into == k)
            columns_of_field = Rows(lambda at, columns=columns: h[at][:, columns], (len(t), len(columns)))
            z = float(allowed(size, z, unseen(columns_of_field, every[columns], np.zeros(len(columns), int))[0]))
        if z <= threshold:
            continue
        if parts := halves():
            half_sizes = half_sizes or np.mean([_field_means(half) for half in parts], axis=0).tolist()
            z = confirmed(size, z, half_sizes[k])
        if z > threshold:
            found.append((f"E[<h, score> + div h], where h is {label},", f"all coordinates together (z {z:.1f})"))
    return found


def _field_means(draws: ScoredDraws) -> list[float]:
    t, s, _ = draws.standardised()
    fields = Fields.of(t, s)
    return fields.sizes(fields.sums(), draws.weights)


def _significance(series: np.ndarray, size: np.ndarray, weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """`size (P,)` in standard errors of the mean of `series (T, P)`."""
    ess = effective_sample_size(series, chain) / (len(weights) * np.sum(weights**2))
    error = np.sqrt(weights @ (series - weights @ series) ** 2 / ess)
    return np.divide(np.abs(size), error, out=np.zeros_like(size), where=error > 0)


CHECK = Check(40, check_identities)
