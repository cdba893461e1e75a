"""What HRec is asked, and what it answers: the improvements in use, and a reconstructed record."""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Improvements:
    """What is added to the published method; each can be left out to see what it is worth.

    Attributes:
        regulariser: the penalty's curvature, and the size of the private data, are accounted for.
        path: the Hessian is averaged between the two parameters (exact to fourth order) instead of taken at one.
        shrinkage: public records count as if they had been trained on, and as many of them as can speak (see
            `trained_on`; for least squares the Hessian is scaled by `1 - df / n`).
        rows: the slope is the leading direction of all outputs' rows about the mean public record, and the record is
            read off all of them, instead of the intercepts' largest and its row alone.
        scale: a record's distance from the mean is that of public records as far as the intercept leaves it open.
        prior: every feature stays in the range that public records have.
    """

    regulariser: bool = True
    path: bool = True
    shrinkage: bool = True
    rows: bool = True
    scale: bool = True
    prior: bool = True

    @classmethod
    def none(cls) -> "Improvements":
        """The published method."""
        return cls(**{f.name: False for f in fields(cls)})


@dataclass(frozen=True, eq=False)
class Deleted:
    """A reconstructed record.

    Attributes:
        x: `(p,)` features.
        label: inferred, None for a squared loss.
        slope: `(K,)`, the loss's slope at the record.
        gradient: `(K, q)`, the estimate of its gradient.
        kappa: `(m, K)`, what each public record contributes to it.
        public_records: how many public records the estimate effectively rests on, `(sum w)^2 / sum w^2` with
            `w = |kappa|^2`.
        label_margin: difference of the two largest slopes over the largest, None without labels.
        excess: length of the slope over the largest one of a public record; None where that is not known. Far above one
            the parameters changed by more than one record.
    """

    x: Float[np.ndarray, " p"]
    label: int | None
    slope: Float[np.ndarray, " K"]
    gradient: Float[np.ndarray, "K q"]
    kappa: np.ndarray
    public_records: float
    label_margin: float | None
    excess: float | None = None
