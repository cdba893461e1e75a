"""Parts of R's fits: the family, weights and offsets, the response, numbers and names of coefficients."""

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, Estimates, field_name, last_step
from bayesrecon.posteriors.r.r_objects import Place, RObjects, code_of

INTERCEPT = "(Intercept)"
REGRESSIONS = {("binomial", "logit"): "logit", ("poisson", "log"): "poisson", ("gaussian", "identity"): "ols"}
_DEFAULT_PRECISION = 0.01  # standard errors, if the deviance is missing: for 10,000 rows it is about their number


def not_attacked(place: Place, description: str, why: str) -> Estimates:
    """A fit that is not attacked, with the reason."""
    return Estimates(place.where, description, (place.where,), unsupported=why)


def family_of(objects: RObjects, node: int) -> tuple[str, str]:
    """The estimator of a fit, and an empty text; or an empty text, and the reason why the fit is not supported."""
    family = objects.element(node, "family")
    name, link = (" ".join(objects.texts(objects.element(family, part))[:1]) for part in ("family", "link"))
    kind = REGRESSIONS.get((name, link), "")
    if kind:
        return kind, ""
    return (
        "",
        f"a fit of family {name[:30]} with link {link[:30]} is not supported" if name else "its family is missing",
    )


def unknown_weights(objects: RObjects, node: int, where: str = "call") -> str:
    """The reason why weights or an offset of a fit are unknown; empty if its call shows that it has none."""
    call = objects.element(node, where)
    if objects.kind(call) != "call":
        return "whether it has weights or an offset is not in it: there is no call"
    arguments = {name for name, _ in objects.elements(call)}
    text = code_of(objects, call).text
    unknown = [name for name in ("weights", "offset") if name in arguments]
    unknown += [name for name in ("cbind(", "offset(") if name in text]
    if not unknown:
        return ""
    return WEIGHTED if unknown[0] == "weights" else f"the fit has {unknown[0].rstrip('(')}"


def response_of(objects: RObjects, node: int) -> str:
    """Name of the response of a fit; "y" if it is unknown."""
    for name in ("terms", "formula"):
        formula = objects.element(node, name)
        elements = objects.elements(formula) if objects.kind(formula) == "call" else []
        if len(elements) == 3:
            return field_name(code_of(objects, elements[1][1]).text[:40])
    return "y"


def finite_vector_of(objects: RObjects, node: int, name: str) -> np.ndarray:
    """Numbers of an element of a fit; empty if there are none or some are not finite."""
    values = vector_of(objects, node, name)
    return values if np.isfinite(values).all() else values[:0]


def one_number(objects: RObjects, node: int, name: str) -> float | None:
    """A finite number among the elements of a fit; None if there is none of this name."""
    values = vector_of(objects, node, name)
    return float(values[0]) if len(values) == 1 and np.isfinite(values[0]) else None


def last_step_of(objects: RObjects, node: int, usual: float) -> float:
    """Length of the last step in standard errors. R stops if the relative decrease of the deviance is below `epsilon`.

    Args:
        usual: `epsilon` if the object does not store it.
    """
    epsilon, deviance = epsilon_of(objects, node, usual), one_number(objects, node, "deviance")
    return _DEFAULT_PRECISION if deviance is None else last_step(epsilon * (abs(deviance) + 0.1), deviance)


def epsilon_of(objects: RObjects, node: int, usual: float) -> float:
    """The tolerance of a fit in its `control`; `usual` if there is none."""
    stored = vector_of(objects, node, "control", "epsilon")
    return float(stored[0]) if len(stored) == 1 and 0 < stored[0] < 1 else usual


def vector_of(objects: RObjects, node: int, *path: str) -> np.ndarray:
    """The vector of numbers at a path of names; empty if there is none."""
    return np.ravel(objects.numbers(objects.element(node, *path))).astype(float)


def matrix_of(objects: RObjects, node: int, *path: str) -> np.ndarray:
    """The array of numbers at a path of names; empty if there is none."""
    return np.asarray(objects.array(objects.element(node, *path)), float)


def inverse_of(matrix: np.ndarray) -> np.ndarray | None:
    """The inverse; None of a singular matrix."""
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None


def labels_of(names: list[str]) -> tuple[str, ...]:
    """Names of coefficients as names of fields."""
    return tuple("const" if name == INTERCEPT else field_name(name) for name in names)
