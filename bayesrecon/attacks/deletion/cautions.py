"""Reasons to doubt a reconstructed record, as messages."""

from collections.abc import Sequence

from bayesrecon.pairs import Deletion

_FEW = 20  # an estimate without a probability from fewer public records gets a message
_TOO_LARGE = 3.0  # a larger excess is not explained by a single record
_SURE = 0.9  # probability of a label or sign above which it is not doubted


def notes_of(pair: Deletion) -> tuple[str, ...]:
    """Notes from reading both releases."""
    return tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes)))


def cautions_about(
    probability: float | None,
    *,
    what: str,
    effective: float,
    absent: Sequence[int] = (),
    excess: float | None = None,
    spanned: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """Reasons to doubt a reconstruction, one line each.

    Args:
        probability: probability that the label or the sign is right; None if it is unknown.
        what: "label" or "sign".
        effective: effective number of public records behind the estimate.
        absent: labels without public records.
        excess: norm of the slope, relative to the largest one of a public record.
        spanned: number of public records, and number of directions without a penalty.

    >>> cautions_about(0.7, what="sign", effective=100.0)
    ('the sign is right with probability 0.70: a record on the other side of the mean explains the change, too',)
    """
    lines = []
    if probability is not None and probability < _SURE:
        other = (
            "another label explains the change, too"
            if what == "label"
            else "a record on the other side of the mean explains the change, too"
        )
        lines.append(f"the {what} is right with probability {probability:.2f}: {other}")
    if absent:
        lines.append(
            f"no public record has label {', '.join(map(str, absent))}: the probability of the label is unknown; "
            "supply records of every label"
        )
    if probability is None and effective < _FEW:
        lines.append(f"about {effective:.0f} public records contribute to the estimate; supply more of them")
    if spanned is not None and spanned[0] < spanned[1]:
        lines.append(
            f"the public Hessian is singular: {spanned[0]} records for {spanned[1]} directions; the result lies in "
            "the span of the public records"
        )
    if excess is not None and excess > _TOO_LARGE:
        lines.append(
            f"the parameters moved {excess:.0f} times as far as any public record would move them: noise was added to "
            "them, training stopped short of the optimum, or more than one record was deleted; retrain to a gradient "
            "of 1e-8, or read the record as a mean of the deleted ones"
        )
    return tuple(lines)
