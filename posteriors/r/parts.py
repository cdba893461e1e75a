"""Parts of R's fits that say what estimates are of: the family, weights and offsets, the response, numbers."""

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, field_name, last_step
from bayesrecon.posteriors.r.code import code_of
from bayesrecon.posteriors.r.r_objects import Objects

INTERCEPT = "(Intercept)"
REGRESSIONS = {("binomial", "logit"): "logit", ("poisson", "log"): "poisson", ("gaussian", "identity"): "ols"}
_DEFAULT_PRECISION = 0.01  # standard errors, if the deviance is missing: for 10,000 rows it is about their number


def family_of(objects: Objects, node: int) -> tuple[str, str]:
    """Which regression it is, and why it is not read where it is another one."""
    family = objects.element(node, "family")
    name, link = (" ".join(objects.texts(objects.element(family, part))[:1]) for part in ("family", "link"))
    kind = REGRESSIONS.get((name, link), "")
    if kind:
        return kind, ""
    return (
        "",
        f"a fit of family {name[:30]} with link {link[:30]} is not supported" if name else "its family is missing",
    )


def unknown_weights(objects: Objects, node: int, where: str = "call") -> str:
    """Whether nobody can tell if a fit has weights or an offset: its call says so."""
    call = objects.element(node, where)
    if objects.kind(call) != "call":
        return "whether it has weights or an offset is not in it: there is no call"
    given = {name for name, _ in objects.elements(call)}
    text = code_of(objects, call).text
    odd = [name for name in ("weights", "offset") if name in given]
    odd += [name for name in ("cbind(", "offset(") if name in text]
    return (WEIGHTED if odd[0] == "weights" else f"the fit has {odd[0].rstrip('(')}") if odd else ""


def response_of(objects: Objects, node: int) -> str:
    for name in ("terms", "formula"):
        formula = objects.element(node, name)
        elements = objects.elements(formula) if objects.kind(formula) == "call" else []
        if len(elements) == 3:
            return field_name(code_of(objects, elements[1][1]).text[:40])
    return "y"


def left_of(objects: Objects, node: int, name: str) -> np.ndarray:
    values = np.ravel(objects.numbers(objects.element(node, name))).astype(float)
    return values if np.isfinite(values).all() else values[:0]


def one_number(objects: Objects, node: int, name: str) -> float | None:
    values = np.ravel(objects.numbers(objects.element(node, name))).astype(float)
    return float(values[0]) if len(values) == 1 and np.isfinite(values[0]) else None


def last_step_of(objects: Objects, node: int, usual: float) -> float:
    """Length of the last step in standard errors: R ends where the deviance falls by less than `epsilon` times itself.

    Args:
        usual: `epsilon` where the object does not say it.
    """
    epsilon, deviance = epsilon_of(objects, node, usual), one_number(objects, node, "deviance")
    return _DEFAULT_PRECISION if deviance is None else last_step(epsilon * (abs(deviance) + 0.1), deviance)


def epsilon_of(objects: Objects, node: int, usual: float) -> float:
    """The tolerance of a fit, as its `control` says it."""
    stored = vector_of(objects, node, "control", "epsilon")
    return float(stored[0]) if len(stored) == 1 and 0 < stored[0] < 1 else usual


def vector_of(objects: Objects, node: int, *path: str) -> np.ndarray:
    """Numbers at the end of a path of names; none if there are none."""
    return np.ravel(objects.numbers(objects.element(node, *path))).astype(float)


def labels_of(names: list[str]) -> tuple[str, ...]:
    """Names of coefficients as those of fields."""
    return tuple("const" if name == INTERCEPT else field_name(name) for name in names)
