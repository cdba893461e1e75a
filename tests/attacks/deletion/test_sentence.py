"""Deleted sentences: against all sequences there are, with counts and with probabilities, and what is refused."""

from collections import Counter, defaultdict
from itertools import product

import networkx
import numpy as np
import pytest
import scipy.stats

from bayesrecon import deleted_sentence, load_result
from bayesrecon.attacks.deletion.sentence import counts_of, draw, every, number
from bayesrecon.errors import BayesreconError

TEXT = ["to be or not to be", "all the world is a stage", "be all to the world", "is it not", "it is"]


def padded(words, n, marked=True):
    return (*["<s>"] * (n - 1), *words, "</s>") if marked else tuple(words)


def grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def counts(lines, n, marked=True):
    found = Counter()
    for line in lines:
        found.update(grams(padded(line.split(), n, marked), n))
    return found


def conditional(found):
    table = defaultdict(dict)
    for gram, count in found.items():
        table[gram[:-1]][gram[-1]] = count
    return {k: {w: c / sum(v.values()) for w, c in v.items()} for k, v in table.items()}


def bare(words):
    return tuple(word for word in words if word not in ("<s>", "</s>"))


@pytest.mark.parametrize(("n", "marked"), [(1, False), (2, False), (2, True), (3, False), (3, True)])
def test_every_sequence_is_counted_and_listed(n, marked):
    rng, several = np.random.default_rng(n), 0
    drawn = [rng.choice(list("abc"), size).tolist() for size in (3, 4, 5, 6, 6, 6)]
    for words in [*drawn, list("aabaacaa")]:
        size = len(words)
        own = grams(padded(words, n, marked), n)
        alike = sorted(q for q in product("abc", repeat=size) if grams(padded(q, n, marked), n) == own)
        assert [bare(q) for q in every(own)] == alike
        assert number(own) == len(alike)
        assert bare(draw(own, size)) in alike
        several += len(alike) > 1
    assert several


def test_there_is_a_walk_where_networkx_finds_one():
    rng, found = np.random.default_rng(0), []
    for _ in range(300):
        arrows = Counter(tuple(rng.choice(list("abc"), 2).tolist()) for _ in range(rng.integers(2, 6)))
        graph = networkx.MultiDiGraph()
        graph.add_edges_from((gram[:-1], gram[1:]) for gram in arrows.elements())
        found.append(networkx.has_eulerian_path(graph))
        assert bool(number(arrows)) is found[-1]
    assert 50 < sum(found) < 250


def test_draws_are_uniform():
    own = grams(padded(list("abacabca"), 2), 2)
    listed = list(every(own))
    drawn = Counter(draw(own, key) for key in range(1200))
    assert set(drawn) == set(listed)
    assert scipy.stats.chisquare([drawn[q] for q in listed]).pvalue > 1e-4


def test_long_sentences_are_counted_exactly():
    """Of 30 words that all differ there are 30! orders; a float has too few digits for that."""
    words = [f"w{i}" for i in range(30)]
    found = deleted_sentence(Counter(words), {})
    assert found.count == 265252859812191058636308480000000
    assert sorted(found.words) == sorted(words)
    assert not found.complete


@pytest.mark.parametrize("n", [1, 2, 3])
def test_counts_and_probabilities_tell_the_same(n, tmp_path):
    for gone in range(len(TEXT)):
        rest = [line for i, line in enumerate(TEXT) if i != gone]
        before, after = counts(TEXT, n), counts(rest, n)
        found = deleted_sentence(before, after)
        totals = before.total(), after.total()
        derived = deleted_sentence(conditional(before), conditional(after), totals=totals)
        assert (derived.words, derived.warnings) == (found.words, found.warnings)
        if n > 1:
            free = deleted_sentence(conditional(before), conditional(after))
            assert free.words == found.words
            assert "no common factor" in free.warnings[0]
        assert sorted(found.words) == sorted(TEXT[gone].split())
        assert found.count > 1 or " ".join(found.words) == TEXT[gone]
        assert (found.count > 1) is any("equally well" in line for line in found.warnings)
    again = load_result(found.save(tmp_path / "found.npz"))
    assert (again.words, again.count, again.listed) == (found.words, found.count, found.listed)
    assert "it is" in repr(found) or n == 1


def test_a_sentence_alone_is_right_and_one_of_two_is_right_half_of_the_time():
    rest, line = counts(TEXT, 2), "b a b c b"
    before = counts([*TEXT, line], 2)
    assert deleted_sentence(before, rest, key=1).count == 2
    right = sum(" ".join(deleted_sentence(before, rest, key=key).words) == line for key in range(400))
    assert scipy.stats.binomtest(right, 400).pvalue > 1e-4


def test_without_markers_short_sentences_leave_no_trace():
    before, after = counts([*TEXT, "good night"], 3, marked=False), counts(TEXT, 3, marked=False)
    with pytest.raises(BayesreconError, match="shorter than the n-grams"):
        deleted_sentence(before, after, start=None, end=None)
    found = deleted_sentence(counts([*TEXT, "so good night"], 3, marked=False), after, start=None, end=None)
    assert (found.words, found.count) == (("so", "good", "night"), 1)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (counts([*TEXT, "one day", "two days"], 2), counts(TEXT, 2), "no single sentence"),
        (counts([*TEXT, "one day"], 2, False), counts([*TEXT, "or so it is"], 2, False), "count after the deletion"),
        (counts(TEXT, 2), counts(TEXT, 2), "no count differs"),
        (counts(TEXT, 2), counts(TEXT, 3), "of one length"),
        (counts(TEXT, 2) | counts(TEXT, 3), {}, "different lengths"),
        ({}, {}, "no count differs"),
        (["a"], {}, "a mapping"),
        ({"a": 1.5}, {"a": 1}, "expected a whole number"),
        ({"a": -1}, {"a": 1}, "expected a whole number"),
        ({"a": float("nan")}, {"a": 1}, "expected a whole number"),
        ({3: 1}, {3: 0}, "tuples of words"),
        ({("a", "b"): 9000}, {("a", "b"): 1}, "those of one sentence"),
        (conditional(counts(TEXT, 2, False)), conditional(counts(TEXT[1:], 2, False)), "start markers"),
        ({"<s>": {"a": 0.5, "b": 0.4}}, {"<s>": {"a": 1.0}}, "do not add up to 1"),
        ({"<s>": {"a": 1.0}}, {"<s>": {"a": 1.0}}, "does not say what follows"),
        ({"<s>": {"a": 1.0}, "a": {"a": 1.0}}, {"<s>": {"a": 1.0}}, "do not end"),
    ],
)
def test_what_is_refused(before, after, message):
    with pytest.raises(BayesreconError, match=message):
        deleted_sentence(before, after)


def test_no_wrong_scale_passes_for_a_sentence():
    """All small corpora of three sentences: from probabilities the sentence is right, or nothing is said."""
    said, lines = 0, ("a", "a b", "b a a")
    for many in product(range(5), repeat=3):
        corpus = [line for line, times in zip(lines, many, strict=True) for _ in range(times)]
        for gone in set(corpus):
            rest = corpus.copy()
            rest.remove(gone)
            try:
                found = deleted_sentence(conditional(counts(corpus, 2)), conditional(counts(rest, 2)))
            except BayesreconError:
                continue
            said += 1
            assert sorted(found.words) == sorted(gone.split())
            assert found.count > 1 or " ".join(found.words) == gone
    assert said > 150


def test_words_alone_have_a_scale_where_there_are_many_or_the_total_is_known():
    before, after = Counter(a=2, b=4), Counter(a=1, b=1)
    models = [conditional(Counter({(word,): c for word, c in found.items()})) for found in (before, after)]
    with pytest.raises(BayesreconError, match="give counts, or totals="):
        deleted_sentence(*models)
    found = deleted_sentence(*models, totals=(6, 2))
    assert sorted(found.words) == ["a", "b", "b", "b"]
    for totals, message in [((6, 3), "no counts with the total 3"), ((6,), "expected two")]:
        with pytest.raises(BayesreconError, match=message):
            deleted_sentence(*models, totals=totals)
    with pytest.raises(BayesreconError, match="and not to the total 7"):
        deleted_sentence(before, after, totals=(7, 2))
    text = Counter({f"w{i}": i for i in range(1, 25)})
    own = Counter(["w3", "w3", "w9"])
    wide = [conditional(Counter({(w,): c for w, c in found.items()})) for found in (text, text - own)]
    assert sorted(deleted_sentence(*wide).words) == ["w3", "w3", "w9"]


def test_rounded_probabilities_are_refused():
    table = conditional(counts([f"{line} {word}" for line in TEXT for word in "abcdefg"], 2))
    cut = {k: {w: round(p, 3) for w, p in v.items()} for k, v in table.items()}
    fixed = {k: {w: p / sum(v.values()) for w, p in v.items()} for k, v in cut.items()}
    assert counts_of(table, "<s>", "</s>")
    with pytest.raises(BayesreconError, match="rounded or smoothed"):
        counts_of(fixed, "<s>", "</s>")
