"""A baseline without a Hessian: the public record whose prediction changes most (MaxDiff).

The published baseline (Bertran et al. 2024) is `argmax_i |(x_i, 1)' (theta+ - theta-)|` over public records, with the
norm over outputs. The change of the class probabilities is a second measure. It is small for records that the model
classifies with certainty.
"""

import numpy as np
import scipy.special


def changed_most(before: np.ndarray, after: np.ndarray, *, classes: bool) -> dict[str, int]:
    """Positions of public records, by name of the measure.

    Args:
        before, after: outputs of both models for the public records, `(m, K)`.
        classes: whether outputs are logits of classes. A single output is the logit of two classes.

    Returns:
        `maxdiff`, by the Euclidean norm over outputs, and with classes `maxdiff_probabilities`, by the sum over them.

    >>> import numpy as np
    >>> changed_most(np.array([[9.0], [0.0]]), np.array([[6.0], [1.0]]), classes=True)
    {'maxdiff': 0, 'maxdiff_probabilities': 1}
    """
    found = {"maxdiff": int(np.linalg.norm(before - after, axis=1).argmax())}
    if classes:
        moved = np.abs(_probabilities(before) - _probabilities(after)).sum(axis=1)
        found["maxdiff_probabilities"] = int(moved.argmax())
    return found


def _probabilities(outputs: np.ndarray) -> np.ndarray:
    one = outputs.shape[1] == 1
    return np.asarray(scipy.special.expit(outputs) if one else scipy.special.softmax(outputs, axis=1))
