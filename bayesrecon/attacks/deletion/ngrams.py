"""The counts behind a published n-gram model.

Maximum-likelihood probabilities `p(w | v) = c(v w) / c(v)` of sentences with markers at both ends are a Markov chain
that starts at the start markers and is absorbed by the end marker. The expected number of visits to v is `c(v)` divided
by the number of sentences. So the joint counts are known up to one factor. Without a total, it is the smallest factor
that makes all counts whole numbers. Single words (n = 1) have no such chain, so a wrong factor cannot be detected.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import scipy.sparse

from bayesrecon.errors import BayesreconError

_FEWEST = 20  # words alone, of which even random counts have a common factor once in a million times
_RAREST = 20  # times that the rarest n-gram may have occurred
_WHOLE, _SAME = 1e-3, 1e-9  # off a whole number; relatively off a probability as published, which is rounding
_STEPS, _LEFT = 20_000, 1e-18  # of the chain; mass that is still in it at the last one


def are_probabilities(model: object) -> bool:
    """Whether a model is `{prefix: {word: probability}}`."""
    return isinstance(model, Mapping) and bool(model) and all(isinstance(v, Mapping) for v in model.values())


def counts_of(model: object, start: str | None, end: str | None, total: int | None = None) -> Counter[tuple[str, ...]]:
    """Counts of n-grams, as published or derived from conditional probabilities.

    Args:
        model: `{n-gram: count}` or `{prefix: {word: probability}}`. An n-gram or a prefix is a tuple of words, or a
            word if it is a single one.
        start, end: start and end markers of sentences. Both are needed to derive counts for n > 1.
        total: total of all counts; None for the smallest possible one.

    Raises:
        BayesreconError: the model is no such mapping, counts are not whole numbers, no counts have these probabilities
            or this total, or there are too few words.

    >>> model = {"<s>": {"yes": 0.75, "no": 0.25}, "yes": {"</s>": 1.0}, "no": {"</s>": 1.0}}
    >>> counts_of(model, "<s>", "</s>")["<s>", "yes"]
    3
    """
    if not isinstance(model, Mapping):
        raise BayesreconError("an n-gram model is a mapping {n-gram: count} or {prefix: {word: probability}}")
    table = {(key,) if isinstance(key, str) else key: value for key, value in model.items()}
    if not all(isinstance(key, tuple) and all(isinstance(word, str) for word in key) for key in table):
        raise BayesreconError("n-grams and prefixes are tuples of words")
    if len({len(key) for key in table}) > 1:
        raise BayesreconError("the model's n-grams are of different lengths; give those of one length")
    if are_probabilities(table):
        return _derived(table, start, end, total)
    if () in table:
        raise BayesreconError("an n-gram of no words: expected {n-gram: count}")
    counts = _whole(table)
    if total is not None and counts.total() != total:
        raise BayesreconError(f"the counts add up to {counts.total()}, and not to the total {total}")
    return counts


def _whole(table: Mapping[tuple[str, ...], int]) -> Counter[tuple[str, ...]]:
    counts: Counter[tuple[str, ...]] = Counter()
    for gram, count in table.items():
        try:
            counts[gram] = int(count)
        except (TypeError, ValueError, OverflowError):
            counts[gram] = -1
        if counts[gram] < 0 or counts[gram] != count:
            raise BayesreconError(f"the count of {' '.join(gram)!r} is {count!r}: expected a whole number, 0 or more")
    return +counts


def _derived(
    table: Mapping[tuple[str, ...], Mapping[str, float]], start: str | None, end: str | None, total: int | None
) -> Counter[tuple[str, ...]]:
    grams, shares = [], []
    for prefix, probabilities in table.items():
        values = np.array(list(probabilities.values()), float)
        if not len(values) or not (values >= 0).all() or abs(values.sum() - 1) > _SAME * max(len(values), 10):
            raise BayesreconError(
                f"the probabilities after {' '.join(prefix)!r} do not add up to 1: counts cannot be derived from "
                "truncated, smoothed or rounded probabilities; give counts"
            )
        grams += [(*prefix, word) for word in probabilities]
        shares += list(values)
    share = np.array(shares)
    if total is None and () in table and (share > 0).sum() < _FEWEST:
        raise BayesreconError(
            f"probabilities of fewer than {_FEWEST} words alone do not determine their counts; give counts, or totals="
        )
    visits = _visits(list(table), grams, share, start, end)
    positions = {prefix: i for i, prefix in enumerate(table)}
    prefix_of = np.array([positions[gram[:-1]] for gram in grams])
    joint = visits[prefix_of] * share
    positive = joint > 0
    smallest = joint[positive].min()
    scales = [total / joint.sum()] if total is not None else [times / smallest for times in range(1, _RAREST + 1)]
    for scale in scales:
        counts = joint * scale
        rounded = np.rint(counts)
        if np.abs(counts - rounded).max() < _WHOLE:
            sums = np.zeros(len(table))
            np.add.at(sums, prefix_of, rounded)
            if np.allclose(rounded / np.maximum(sums[prefix_of], 1), share, rtol=_SAME, atol=0):
                return Counter({gram: int(c) for gram, c in zip(grams, rounded, strict=True) if c})
    if total is not None:
        raise BayesreconError(f"no counts with the total {total} have these probabilities; give counts")
    raise BayesreconError(
        "no whole numbers have these probabilities: they are rounded or smoothed, or no n-gram is rare; give counts"
    )


def _visits(
    prefixes: list[tuple[str, ...]], grams: list[tuple[str, ...]], share: np.ndarray, start: str | None, end: str | None
) -> np.ndarray:
    """Expected number of visits of each prefix in a sentence."""
    if prefixes == [()]:
        return np.ones(1)
    positions = {prefix: i for i, prefix in enumerate(prefixes)}
    first = positions.get((start,) * len(prefixes[0])) if start is not None and end is not None else None
    if first is None:
        raise BayesreconError(
            "counts can be derived from conditional probabilities only if sentences begin with "
            f"{len(prefixes[0])} start markers and end with an end marker; give counts, or start= and end="
        )
    rows, columns, values = [], [], []
    for gram, p in zip(grams, share, strict=True):
        if gram[-1] == end:
            continue
        if gram[1:] not in positions:
            raise BayesreconError(f"the model does not say what follows {' '.join(gram[1:])!r}; give counts")
        rows.append(positions[gram[1:]])
        columns.append(positions[gram[:-1]])
        values.append(p)
    step = scipy.sparse.csr_array((values, (rows, columns)), shape=(len(prefixes),) * 2)
    current = np.zeros(len(prefixes))
    current[first] = 1.0
    visits = current.copy()
    for _ in range(_STEPS):
        current = step @ current
        visits += current
        if current.sum() < _LEFT:
            return visits
    raise BayesreconError("the model's sentences do not end: give counts")
