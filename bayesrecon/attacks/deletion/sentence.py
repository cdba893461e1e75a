"""The deleted sentence between two n-gram models (Gao et al. 2022, appendix D)."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from bayesrecon.attacks.deletion.ngrams import are_probabilities, counts_of
from bayesrecon.attacks.deletion.walks import draw, every, number
from bayesrecon.errors import BayesreconError
from bayesrecon.results.sentence import DeletedSentence

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
