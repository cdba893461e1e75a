"""The deleted sentence between two n-gram models (Gao et al. 2022, appendix D)."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from math import factorial, prod

import numpy as np
import scipy.sparse

from bayesrecon.errors import BayesreconError
from bayesrecon.results.deletion import DeletedSentence

_LONGEST = 2000  # n-grams between the models, beyond which counting walks takes minutes


def deleted_sentence(
    before: Mapping[object, object],
    after: Mapping[object, object],
    *,
    start: str | None = "<s>",
    end: str | None = "</s>",
    totals: tuple[int, int] | None = None,
    most: int = 10,
    key: int = 0,
) -> DeletedSentence:
    """Reconstruct the sentence that was deleted between two n-gram models.

    The difference of the two tables of counts holds the n-grams of the deleted sentence. The sentence is a walk that
    uses each of these n-grams (see `walks`). If there are k such walks, all of them have the same likelihood under both
    models, and one is drawn at random. The result is then correct with probability 1 / k, whatever the text is. Single
    words (n = 1) say nothing about the order of the words.

    Probabilities are first converted to counts. This assumes that the models are maximum likelihood estimates from
    whole sentences with n - 1 start markers and one end marker, and that the probabilities have full double precision.
    Without `totals` it also assumes that the counts have no common factor; the result's `warnings` say so. With n = 1
    and few words a common factor is likely, so fewer than 20 words are refused.

    Args:
        before, after: the two models. Each is `{n-gram: count}`, with n-grams as tuples of words (or plain words for n
            = 1), or `{prefix: {word: probability}}`.
        start, end: the markers, which are not part of the sentence; None if the models have none. Without markers a
            sentence shorter than n words leaves no trace, and two sentences that overlap are read as one.
        totals: number of n-grams that were counted before and after the deletion, if known. It fixes the scale of
            counts that are computed from probabilities.
        most: largest number of candidate sentences to list.
        key: seed of the random draw.

    Raises:
        BayesreconError: the models differ in n, a count increases, the models differ by no sentence or by more than
            one, or no counts give these probabilities.

    >>> from collections import Counter
    >>> from itertools import pairwise
    >>> def counts(*lines):
    ...     return Counter(pair for line in lines for pair in pairwise(["<s>", *line.split(), "</s>"]))
    >>> found = deleted_sentence(counts("call me", "call my doctor now"), counts("call me"))
    >>> " ".join(found.words), found.count
    ('call my doctor now', 1)
    """
    if most < 1:
        raise BayesreconError(f"most={most}: expected 1 or more")
    if totals is not None and len(totals) != 2:
        raise BayesreconError(f"totals={totals!r}: expected two, before and after the deletion")
    sums = totals or (None, None)
    first, second = counts_of(before, start, end, sums[0]), counts_of(after, start, end, sums[1])
    length = len(next(iter(first or second), ()))
    other = len(next(iter(second or first), ()))
    if length != other:
        raise BayesreconError(f"before has n-grams of {length} words and after of {other}: give models of one length")
    grown = next(iter(second - first), None)
    if grown is not None:
        raise BayesreconError(
            f"{' '.join(grown)!r} has a larger count after the deletion: the models differ by more than a deletion"
        )
    arrows = first - second
    if length == 1:
        arrows = Counter({gram: times for gram, times in arrows.items() if gram[0] not in (start, end)})
    if not arrows:
        raise BayesreconError("no count differs: nothing was deleted, or it was shorter than the n-grams")
    if arrows.total() > _LONGEST:
        raise BayesreconError(f"{arrows.total()} n-grams differ between the models: expected those of one sentence")
    count = number(arrows)
    if not count:
        raise BayesreconError(
            "no single sentence has these counts: several were deleted, or counts are pruned, rounded or noisy"
        )
    words = _plain(draw(arrows, key), start, end)
    listed = tuple(_plain(one, start, end) for one in islice(every(arrows), most))
    warnings = []
    if totals is None and (are_probabilities(before) or are_probabilities(after)):
        warnings.append("counts were derived from probabilities, assuming no common factor in either model")
    if count > 1:
        warnings.append(f"{count} sequences of words explain the change equally well; one of them was drawn")
    if length == 1:
        warnings.append("counts of words do not determine their order")
    return DeletedSentence(words, count, listed, length, tuple(warnings))


def _plain(words: tuple[str, ...], start: str | None, end: str | None) -> tuple[str, ...]:
    """Without the markers."""
    first, last = 0, len(words)
    while first < last and words[first] == start:
        first += 1
    while last > first and words[last - 1] == end:
        last -= 1
    if {start, end} & set(words[first:last]):
        raise BayesreconError("markers lie inside the deleted text: expected the deletion of one sentence")
    return words[first:last]


# The counts behind a published n-gram model.
#
# Maximum-likelihood probabilities `p(w | v) = c(v w) / c(v)` of sentences with markers at both ends are a Markov chain
# that starts at the start markers and is absorbed by the end marker. The expected number of visits to v is `c(v)`
# divided by the number of sentences. So the joint counts are known up to one factor. Without a total, it is the
# smallest factor that makes all counts whole numbers. Single words (n = 1) have no such chain, so a wrong factor cannot
# be detected.

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


# Eulerian walks of n-grams: how many sequences of words have given n-gram counts, and draws from them.
#
# An n-gram is an arrow from its first n-1 words to its last n-1. Sequences with given counts are the walks that take
# every arrow as often as its count. From one node to a node e there are
#
#     t d_e! Prod_(v != e) (d_v - 1)!      (van Aardenne-Ehrenfest and de Bruijn 1951, Tutte and Smith 1941: "BEST")
#
# walks, where t is the number of spanning trees directed to e, and d_v the number of arrows that leave v. The last
# exits from all nodes but e form such a tree, and the other exits can have any order. Copies of an n-gram are
# indistinguishable, so the number is divided by the factorials of the counts.

Words = tuple[str, ...]


def number(arrows: Counter[Words]) -> int:
    """The number of word sequences that take every arrow as often as its count; 0 if there is none.

    >>> number(Counter({("a", "b"): 2, ("b", "a"): 2, ("b", "b"): 1, ("a", "c"): 1}))
    2
    """
    begin = _starts(arrows)
    if not begin or not _connected(arrows, begin[0]):
        return 0
    leave, end = _leaving(arrows), _end(arrows, begin[0])
    count = _trees(arrows, leave, end) * factorial(leave[end])
    count *= prod(factorial(times - 1) for node, times in leave.items() if node != end)
    count //= prod(map(factorial, arrows.values()))
    # A walk that returns can begin at every node: as often as arrows leave it.
    return count if len(begin) == 1 else count * arrows.total() // leave[begin[0]]


def draw(arrows: Counter[Words], key: int) -> Words:
    """A random word sequence, uniform over all of them. There must be at least one.

    The tree of last exits is drawn by Wilson's algorithm (1996), and the other exits are shuffled.
    """
    rng = random.Random(key)
    begin = _starts(arrows)
    start = begin[0] if len(begin) == 1 else rng.choice([gram[:-1] for gram in arrows.elements()])
    end = _end(arrows, start)
    exits: dict[Words, list[Words]] = {}
    for gram in arrows.elements():
        exits.setdefault(gram[:-1], []).append(gram)
    last_exit: dict[Words, Words] = {}
    rooted = {end}
    for node in exits:
        current = node
        while current not in rooted:
            last_exit[current] = rng.choice(exits[current])
            current = last_exit[current][1:]
        current = node
        while current not in rooted:
            rooted.add(current)
            current = last_exit[current][1:]
    for node, grams in exits.items():
        if node != end:
            grams.remove(last_exit[node])
        rng.shuffle(grams)
        if node != end:
            grams.append(last_exit[node])
    words, node = start, start
    turn = {node: iter(grams) for node, grams in exits.items()}
    for _ in range(arrows.total()):
        gram = next(turn[node])
        words, node = (*words, gram[-1]), gram[1:]
    return words


def every(arrows: Counter[Words]) -> Iterator[Words]:
    """All word sequences, in lexicographic order. Dead ends are avoided (Fleury 1883)."""
    for start in _starts(arrows):
        waiting = [(start, start, arrows)] if _connected(arrows, start) else []
        while waiting:
            words, node, remaining = waiting.pop()
            if not remaining:
                yield words
            grams = sorted((gram for gram in remaining if gram[:-1] == node), reverse=True)
            for gram in grams:
                after_gram = +(remaining - Counter([gram]))
                if len(grams) == 1 or _connected(after_gram, gram[1:]):
                    waiting.append(((*words, gram[-1]), gram[1:], after_gram))


def _leaving(arrows: Counter[Words]) -> Counter[Words]:
    found: Counter[Words] = Counter()
    for gram, times in arrows.items():
        found[gram[:-1]] += times
    return found


def _surplus(arrows: Counter[Words]) -> dict[Words, int]:
    """The number of arrows that leave a node minus those that reach it, for nodes where it is not 0."""
    surplus_of: Counter[Words] = Counter()
    for gram, times in arrows.items():
        surplus_of[gram[:-1]] += times
        surplus_of[gram[1:]] -= times
    return {node: surplus for node, surplus in surplus_of.items() if surplus}


def _starts(arrows: Counter[Words]) -> list[Words]:
    """Nodes at which a walk over all arrows can begin: one, or all if the walk is closed; none if there is no walk."""
    uneven = _surplus(arrows)
    if not uneven:
        return sorted({gram[:-1] for gram in arrows})
    return [node for node, surplus in uneven.items() if surplus == 1] if sorted(uneven.values()) == [-1, 1] else []


def _end(arrows: Counter[Words], start: Words) -> Words:
    return next((node for node, surplus in _surplus(arrows).items() if surplus < 0), start)


def _connected(arrows: Counter[Words], start: Words) -> bool:
    """Whether every arrow can be reached from a node."""
    onwards: dict[Words, list[Words]] = {}
    for gram in arrows:
        onwards.setdefault(gram[:-1], []).append(gram[1:])
    seen, waiting = {start}, [start]
    while waiting:
        fresh = set(onwards.get(waiting.pop(), ())) - seen
        seen |= fresh
        waiting += fresh
    return onwards.keys() <= seen


def _trees(arrows: Counter[Words], leave: Counter[Words], end: Words) -> int:
    """Spanning trees towards a node, by Kirchhoff's theorem; nodes with one exit are passed through first."""
    only = {gram[:-1]: gram[1:] for gram in arrows if leave[gram[:-1]] == 1 and gram[:-1] != end}
    place = {node: i for i, node in enumerate(node for node in leave if node not in only and node != end)}
    laplacian = [[0] * len(place) for _ in place]
    for gram, times in arrows.items():
        if gram[:-1] in place:
            i, target = place[gram[:-1]], gram[1:]
            while target in only:
                target = only[target]
            laplacian[i][i] += times
            if target in place:
                laplacian[i][place[target]] -= times
    return _determinant(laplacian)


def _determinant(matrix: list[list[int]]) -> int:
    """The exact determinant of integers (Bareiss 1968); 1 without rows. Laplacians of connected graphs have no zero
    pivot."""
    last = 1
    for k, pivot in enumerate(matrix):
        for row in matrix[k + 1 :]:
            row[k + 1 :] = [
                (a * pivot[k] - row[k] * b) // last for a, b in zip(row[k + 1 :], pivot[k + 1 :], strict=True)
            ]
        last = pivot[k]
    return last
