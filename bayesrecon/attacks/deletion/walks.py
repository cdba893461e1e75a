"""Eulerian walks of n-grams: how many sequences of words have given n-gram counts, and draws from them.

An n-gram is an arrow from its first n-1 words to its last n-1. Sequences with given counts are the walks that take
every arrow as often as its count. From one node to a node e there are

    t d_e! Prod_(v != e) (d_v - 1)!      (van Aardenne-Ehrenfest and de Bruijn 1951, Tutte and Smith 1941: "BEST")

walks, where t is the number of spanning trees directed to e, and d_v the number of arrows that leave v. The last exits
from all nodes but e form such a tree, and the other exits can have any order. Copies of an n-gram are
indistinguishable, so the number is divided by the factorials of the counts.
"""

import random
from collections import Counter
from collections.abc import Iterator
from math import factorial, prod

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
