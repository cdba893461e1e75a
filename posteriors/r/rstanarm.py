"""Stan programs of fits of rstanarm, and the means of their covariates.

The Stan programs of rstanarm include files of that package and cover all of its models. The object of a fit states its
family, its link and the scales of its priors. With covariates x of mean m, the model is

    y_i ~ family(link^-1(alpha + x_i' beta), aux),   alpha + m' beta ~ prior,   beta_k ~ N(location_k, scale_k^2),

(rstanarm, `stan_glm.fit`): the prior is on the intercept for centred covariates.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.r.parts import labels_of, one_number, response_of, unknown_weights, vector_of
from bayesrecon.posteriors.r.r_objects import RObjects
from bayesrecon.posteriors.r.rstanarm_means import MEANS, means_of

LIKELIHOODS = {
    ("gaussian", "identity"): "normal_lpdf({y} | eta, aux)",
    ("gaussian", "log"): "normal_lpdf({y} | exp(eta), aux)",
    ("binomial", "logit"): "bernoulli_logit_lpmf({y} | eta)",
    ("binomial", "probit"): "bernoulli_lpmf({y} | Phi(eta))",
    ("poisson", "log"): "poisson_log_lpmf({y} | eta)",
    ("neg_binomial_2", "log"): "neg_binomial_2_log_lpmf({y} | eta, aux)",
    ("Gamma", "log"): "gamma_lpdf({y} | aux, aux ./ exp(eta))",
}
_UNREAD = "are not supported by this version"
_TRIALS = "binomial_logit_lpmf({y} | trials, eta)"
_DECLARED = {"gaussian": "vector[N] {y}", "Gamma": "vector<lower=0>[N] {y}"}
_COUNTED = {"binomial": "array[N] int<lower=0, upper=1> {y}"}
_FUNCTIONS = {"stan_glm", "stan_glm.nb", "stan_lmer", "stan_glmer", "stan_glmer.nb"}
_EFFECT = re.compile(r"b\[\(Intercept\) ([\w.]+):")
_FIELD = re.compile(r"[A-Za-z]\w*(?<!__)")
_TAKEN = {
    "N", "alpha", "beta", "aux", "eta", "b", "z_b", "tau",
    "trials", MEANS, "data", "model", "parameters", "transformed", "generated",
    "quantities", "functions", "real", "int", "vector", "row_vector", "matrix", "array", "for", "in", "while", "if",
    "else", "return", "break", "continue", "void", "lower", "upper", "offset", "multiplier", "target", "normal", "exp",
    "log", "sum", "mean", "sd", "var", "complex", "tuple", "reject", "print", "profile", "struct", "typedef", "true",
    "false", "repeat", "until", "then", "auto", "bool", "char", "class", "const", "default", "do", "double", "enum",
    "float", "long", "new", "private", "public", "short", "signed", "static", "switch", "this", "union", "unsigned",
}  # fmt: skip
"""Keywords of Stan and names of the program, which fields must not have."""


@dataclass(frozen=True)
class RandomIntercepts:
    """Random intercepts `scale tau z`, with tau from a gamma distribution.

    Attributes:
        name: name of the field.
        levels: number of levels, including one for new data.
        scale: scale of the effects.
        times_aux: whether the effects are also multiplied by the auxiliary parameter.
        shape: shape parameter of the gamma distribution.
    """

    name: str
    levels: int
    scale: float
    times_aux: bool
    shape: float

    @property
    def spread(self) -> str:
        return f"{self.scale!r} * tau" + " * aux" * self.times_aux


@dataclass(frozen=True)
class ProgramParts:
    """The parts that a program is generated from.

    Attributes:
        family: family and link.
        trials: whether the response is a number of successes and one of failures.
        response, columns: names in the program.
        intercept: whether there is an intercept.
        group: the random intercepts, if any.
        lowest: lower bound of the auxiliary parameter.
    """

    family: tuple[str, str]
    trials: bool
    response: str
    columns: tuple[str, ...]
    intercept: bool
    group: RandomIntercepts | None
    lowest: float


def program_of(objects: RObjects, node: int, names: Mapping[str, str]) -> SavedProgram:
    """The Stan program of a `stanreg` object with the means of its covariates, or the reason why there is none.

    Args:
        objects: the file.
        node: the object.
        names: `{name of a draw in R: entry of a parameter of the program}`.
    """
    fit = objects.element(node, "stanfit")
    slopes = [name for name, entry in names.items() if entry.startswith("beta[")]
    intercept = "alpha[1]" in names.values()
    means = means_of(objects, fit, len(slopes)) if slopes and intercept else None
    known = {} if means is None else {MEANS: means}
    try:
        if not slopes and not intercept:
            raise BayesreconError("its parameters have no names")
        family = _family(objects, node, len(slopes))
        if slopes and intercept and means is None:
            raise BayesreconError(f"the chains do not determine the means of {len(slopes)} columns")
        group = _group(objects, node, names)
        fields = record_fields([_response(objects, node), *labels_of(slopes), *([group.name] if group else [])])
        group = replace(group, name=fields[-1]) if group else None
        columns, lowest = tuple(fields[1 : len(slopes) + 1]), _lowest(objects, node)
        design = ProgramParts(family, _has_trials(objects, fit), fields[0], columns, intercept, group, lowest)
        text = program_text(design, [*_priors(objects, node, intercept, len(slopes), "aux" in LIKELIHOODS[family])])
    except BayesreconError as error:
        return SavedProgram("", names, constants=known, refused=str(error))
    adds = partial(_effects, group.scale, group.times_aux) if group else None
    return SavedProgram(text, names, constants=known, adds=adds)


def _group(objects: RObjects, node: int, names: Mapping[str, str]) -> RandomIntercepts | None:
    """The random intercepts, or None if there are none."""
    effects = [name for name, entry in names.items() if entry.startswith("b[")]
    if not effects and not objects.element(node, "prior.info", "prior_covariance"):
        return None
    result = {match[1] if (match := _EFFECT.match(name)) else "" for name in effects}
    if len(result) != 1 or "" in result or list(names.values()).count("theta_L[1]") != 1:
        raise BayesreconError(f"fits with effects other than one random intercept {_UNREAD}")
    prior = objects.element(node, "prior.info", "prior_covariance")
    shape, scale = (one_number(objects, prior, name) for name in ("shape", "scale"))
    if _text(objects, prior, "dist") != "decov" or not shape or not scale or min(shape, scale) <= 0:
        raise BayesreconError(f"fits with another prior of the effects than decov {_UNREAD}")
    scaled = _text(objects, objects.element(node, "stanfit"), "@model_name") == "continuous"
    return RandomIntercepts(next(iter(result)), len(effects), scale, scaled, shape)


def _family(objects: RObjects, node: int, slopes: int) -> tuple[str, str]:
    """Family and link.

    Raises:
        BayesreconError: the fit is not supported.
    """
    family = (
        _text(objects, objects.element(node, "family"), "family"),
        _text(objects, objects.element(node, "family"), "link"),
    )
    function, algorithm = (_text(objects, node, part) for part in ("stan_function", "algorithm"))
    if function not in _FUNCTIONS:
        raise BayesreconError(f"fits of {function[:30] or 'an unknown function'} {_UNREAD}")
    if algorithm != "sampling":
        raise BayesreconError(f"its draws come from an approximation ({algorithm[:20]})")
    if not family[0]:
        raise BayesreconError("its family is missing")
    if family not in LIKELIHOODS:
        raise BayesreconError(f"fits of family {family[0][:30]} with link {family[1][:30]} {_UNREAD}")
    call, fit = objects.element(node, "call"), objects.element(node, "stanfit")
    arguments = {name for name, _ in objects.elements(call)} if objects.kind(call) == "call" else set()
    unsupported = [name for name in ("QR", "prior_PD") if name in arguments]
    if unsupported:
        raise BayesreconError(f"fits with {unsupported[0]} {_UNREAD}")
    if _has_trials(objects, fit) and family != ("binomial", "logit"):
        raise BayesreconError(f"trials with link {family[1]} {_UNREAD}")
    if (why := unknown_weights(objects, node)) and "cbind" not in why:
        raise BayesreconError(why)
    sizes = [len(vector_of(objects, start, "beta")) for _, start in objects.elements(objects.element(fit, "@inits"))]
    if any(size != slopes for size in sizes):
        raise BayesreconError("its coefficients are not those of its program")
    return family


def _has_trials(objects: RObjects, fit: int) -> bool:
    """Whether the response is a number of successes and one of failures, which has a separate program."""
    return _text(objects, fit, "@model_name") == "binomial"


def _response(objects: RObjects, node: int) -> str:
    """The name of the response, which is that of the successes if there are failures too."""
    name = response_of(objects, node)
    return name.removeprefix("cbind_").split("__")[0] if name.startswith("cbind_") else name


def _priors(objects: RObjects, node: int, intercept: bool, slopes: int, auxiliary: bool) -> Iterator[str]:
    """Statements of the priors.

    Raises:
        BayesreconError: a prior is not supported.
    """
    info = objects.element(node, "prior.info")
    if intercept:
        centred = "alpha[1]" + (f" + dot_product({MEANS}, beta)" if slopes else "")
        yield from _prior(objects, objects.element(info, "prior_intercept"), [centred], "intercept")
    if slopes:
        columns = [f"beta[{k + 1}]" for k in range(slopes)]
        yield from _prior(objects, objects.element(info, "prior"), columns, "slopes")
    if not auxiliary:
        return
    aux = objects.element(info, "prior_aux")
    rate = _scales(objects, aux)
    if _text(objects, aux, "dist") == "exponential" and len(rate) == 1:
        yield f"target += exponential_lpdf(aux | 1 / {float(rate[0])!r});"
    else:
        yield from _prior(objects, aux, ["aux"], "auxiliary parameter")


def _prior(objects: RObjects, prior: int, coefficients: list[str], description: str) -> Iterator[str]:
    if not prior:
        raise BayesreconError(f"the prior of the {description} is missing")
    if _is_flat(objects, prior):
        return
    distribution = _text(objects, prior, "dist")
    location, scale, degrees = (
        vector_of(objects, prior, "location"),
        _scales(objects, prior),
        vector_of(objects, prior, "df"),
    )
    if distribution not in ("normal", *(() if description == "slopes" else ("student_t", "cauchy"))):
        raise BayesreconError(f"priors of the {description} that are {distribution[:30] or 'without a name'} {_UNREAD}")
    nu = np.ones(1) if distribution == "cauchy" else degrees if distribution == "student_t" else np.full(1, np.inf)
    try:
        location, scale, nu = (np.broadcast_to(v, len(coefficients)) for v in (location, scale, nu))
    except ValueError:
        raise BayesreconError(f"the prior of the {description} has another size") from None
    if not (np.isfinite(location).all() and np.isfinite(scale).all() and np.all(scale > 0) and np.all(nu > 0)):
        raise BayesreconError(f"the prior of the {description} has no scale, or no degrees of freedom")
    for coefficient, at, width, n in zip(coefficients, location.tolist(), scale.tolist(), nu.tolist(), strict=True):
        numbers = f"{at!r}, {width!r}"
        yield (
            f"target += normal_lpdf({coefficient} | {numbers});"
            if distribution == "normal"
            else (f"target += student_t_lpdf({coefficient} | {n!r}, {numbers});")
        )


def _is_flat(objects: RObjects, prior: int) -> bool:
    """Whether the prior is flat (`prior = NULL`), so that its distribution is missing."""
    values = vector_of(objects, prior, "dist")
    return len(values) == 1 and bool(np.isnan(values[0]))


def _lowest(objects: RObjects, node: int) -> float:
    """Lower bound of the auxiliary parameter, which is `location + scale u` with a positive u in rstanarm."""
    aux = objects.element(node, "prior.info", "prior_aux")
    if not aux or _text(objects, aux, "dist") not in ("normal", "student_t", "cauchy"):
        return 0.0
    return one_number(objects, aux, "location") or 0.0


def _scales(objects: RObjects, prior: int) -> np.ndarray:
    """Scales of a prior after adjustment if stored, or else the requested ones; 1 / rate for an exponential prior."""
    used, requested = (vector_of(objects, prior, name) for name in ("adjusted_scale", "scale"))
    rate = one_number(objects, prior, "rate")
    return used if len(used) else requested if len(requested) else np.full(1, 1 / rate) if rate else np.zeros(0)


def record_fields(names: list[str]) -> list[str]:
    """Valid names of fields in a program, with the response first."""
    fields: list[str] = []
    for k, name in enumerate(names):
        valid = _FIELD.fullmatch(name) and name not in _TAKEN and name not in fields
        fields.append(name if valid else (f"x{k}" if k else "y"))
    return fields if len(set(fields)) == len(fields) else [f"x{k}" if k else "y" for k in range(len(names))]


def program_text(design: ProgramParts, priors: list[str]) -> str:
    """The Stan program of a design, with statements of the priors."""
    counted = "array[N] int<lower=0> {y}"
    declared = counted if design.trials else {**_DECLARED, **_COUNTED}.get(design.family[0], counted)
    likelihood, slopes = (_TRIALS if design.trials else LIKELIHOODS[design.family]), len(design.columns)
    terms = (["rep_vector(alpha[1], N)"] if design.intercept else []) + [
        f"beta[{k + 1}] * {name}" for k, name in enumerate(design.columns)
    ]
    lines = {
        "data": ["int<lower=0> N;", declared.format(y=design.response) + ";"]
        + ["array[N] int<lower=0> trials;"] * design.trials
        + [f"vector[N] {name};" for name in design.columns]
        + [f"vector[{slopes}] {MEANS};"] * bool(slopes and design.intercept),
        "parameters": ["array[1] real alpha;"] * design.intercept
        + [f"vector[{slopes}] beta;"] * bool(slopes)
        + [f"real<lower={design.lowest!r}> aux;"] * ("aux" in likelihood),
    }
    if (group := design.group) is not None:
        terms.append(f"b[{group.name}]")
        priors = [*priors, "target += normal_lpdf(z_b | 0, 1);", f"target += gamma_lpdf(tau | {group.shape!r}, 1);"]
        lines["data"].append(f"array[N] int<lower=1, upper={group.levels}> {group.name};")
        lines["parameters"] += [f"vector[{group.levels}] z_b;", "real<lower=0> tau;"]
        lines["transformed parameters"] = [f"vector[{group.levels}] b = {group.spread} * z_b;"]
    eta = f"vector[N] eta = {' + '.join(terms)};"
    lines["model"] = [eta, *priors, f"target += {likelihood.format(y=design.response)};"]
    return "\n".join(f"{name} {{\n  " + "\n  ".join(statements) + "\n}" for name, statements in lines.items())


def _effects(scale: float, times_aux: bool, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of z and tau from those of the effects and of `theta_L`, the variance of the effects."""
    spread = np.sqrt(draws["theta_L"])
    unit = scale * (draws["aux"] if times_aux else 1.0)
    return {"z_b": draws["b"] / spread, "tau": spread[..., 0] / unit}


def _text(objects: RObjects, node: int, name: str) -> str:
    return " ".join(objects.texts(objects.element(node, name))[:1])
