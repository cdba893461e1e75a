"""What speaks against a reconstructed record, in words."""

from collections.abc import Sequence

from bayesrecon.pairs import Deletion

# Public records from which the estimate is not called poor, where no probability is stated; excess from which one
# record alone is not believed; probability of a label or sign from which it is not doubted.
_FEW, _TOO_LARGE, _SURE = 20, 3.0, 0.9


def notes_of(pair: Deletion) -> tuple[str, ...]:
    """What was noticed while reading both releases."""
    return tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes)))


def doubts_about(
    probability: float | None,
    *,
    what: str,
    effective: float,
    absent: Sequence[int] = (),
    excess: float | None = None,
    spanned: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """What speaks against a reconstruction, one line each.

    Args:
        probability: that `what`, the label or the sign, is right; None where it cannot be stated.
        effective: public records that the estimate rests on.
        absent: labels that no public record has.
        excess: length of the slope over the largest one of a public record.
        spanned: public records, and directions that no penalty bends.

    >>> doubts_about(0.7, what="sign", effective=100.0)
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
        lines.append(f"the estimate rests on about {effective:.0f} public records; more of them would make it better")
    if spanned is not None and spanned[0] < spanned[1]:
        lines.append(
            f"the public Hessian is singular: {spanned[0]} records for {spanned[1]} directions; what is shown lies in "
            "the span of the public records"
        )
    if excess is not None and excess > _TOO_LARGE:
        lines.append(
            f"the parameters moved {excess:.0f} times as far as any public record would move them: noise was added to "
            "them, training stopped short of the optimum, or more than one record was deleted; retrain to a gradient "
            "of 1e-8, else take the record for a mean of what was deleted"
        )
    return tuple(lines)
