"""Option and result of HRec: the improvements in use, and a reconstructed record."""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Improvements:
    """Improvements on the published method. Each can be turned off to measure its effect.

    Attributes:
        regulariser: the penalty's curvature and the number of private records are taken into account.
        path: the Hessian is averaged between the two parameters (exact to fourth order) instead of taken at one.
        shrinkage: public records contribute like training records, at the temperature that fits their
            labels best (see `trained_on`; for least squares the Hessian is scaled by `1 - df / n`).
        rows: the slope is the leading direction of all outputs' rows about the mean public record, and all rows
            determine the record. Otherwise only the row with the largest intercept does.
        scale: where the intercept does not determine a record's distance from the mean, it is that of public records.
        prior: every feature is limited to the range of the public records.
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
        label: the inferred label; None for a squared loss.
        slope: `(K,)`, the loss's slope at the record.
        gradient: `(K, q)`, the estimate of its gradient.
        kappa: `(m, K)`, contribution of each public record to that estimate.
        public_records: effective number of public records behind the estimate, `(sum w)^2 / sum w^2` with
            `w = |kappa|^2`.
        label_margin: difference of the two largest slopes, relative to the largest; None without labels.
        excess: length of the slope, relative to the largest slope of a public record; None if that is unknown. If it is
            far above one, more than one record was deleted.
        noise: error of the gradient's features about the mean public record, relative to these; None without an
            intercept.
    """

    x: Float[np.ndarray, " p"]
    label: int | None
    slope: Float[np.ndarray, " K"]
    gradient: Float[np.ndarray, "K q"]
    kappa: np.ndarray
    public_records: float
    label_margin: float | None
    excess: float | None = None
    noise: float | None = None
