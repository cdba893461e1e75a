"""Draws in a file of R: those of the packages coda, posterior and rstan, anywhere in an object."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.draws import MAX_DIMENSIONS, sign_of
from bayesrecon.posteriors.r.parts import labels_of, one_number, response_of, unknown_weights, vector_of
from bayesrecon.posteriors.r.r_objects import Place, PlaceWalk, RObjects
from bayesrecon.posteriors.r.rstanarm_means import MEANS, means_of
from bayesrecon.untrusted.names import MAX_NAMES

LOG_DENSITY = "lp__"
_COUNTERS = {".chain", ".iteration", ".draw"}  # columns of a table of draws that number them


Columns = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ObjectDraws:
    """Draws of an object.

    Attributes:
        where: the object's place.
        columns: `{name: (chains, draws)}`, with R's names.
        statistics: statistics of the sampler, `{name: (chains, draws)}`.
        warmup: draws of the warm-up, `{name: (chains, draws)}`.
        program: the Stan program; None if there is none.
        nodes: the nodes of the object that were read.
        sign: what says that these are draws and not records; empty if nothing does.
    """

    where: str
    columns: Columns
    statistics: Columns = field(default_factory=dict)
    warmup: Columns = field(default_factory=dict)
    program: SavedProgram | None = None
    nodes: frozenset[int] = frozenset()
    sign: str = ""


def samples_of(walk: PlaceWalk, unsigned: bool = False) -> ObjectDraws | None:
    """The draws at the place with the least depth, the first of several; None if there are none.

    Objects without a class are draws if their names say so, as `rstan::extract(fit)` and `as.matrix(fit)`.

    Args:
        walk: the objects of the file.
        unsigned: whether the first list of vectors, or matrix, is taken for draws if nothing says what it is.
    """
    objects = walk.objects
    for place in walk:
        for name in objects.classes(place.node) if place.kind in ("list", "object", "double", "integer") else ():
            if name in _READERS:
                draws = _READERS[name](objects, place.node)
                if draws is not None:
                    samples = ObjectDraws(place.where, *draws, sign=name)
                    return _with_program(objects, place.parent, samples)
    for place in walk:
        if place.kind in ("list", "double") and not set(objects.classes(place.node)) - _PLAIN:
            sign = _sign(objects, place)
            if sign or (unsigned and place.parent is None):
                draws = _matrices(objects, [place.node]) if place.kind == "double" else _arrays(objects, place.node)
                if draws is not None:
                    return ObjectDraws(place.where, *draws, sign=sign)
    return None


def _with_program(objects: RObjects, above: Place | None, samples: ObjectDraws) -> ObjectDraws:
    """The samples, with a program that is completed from the enclosing object of brms or rstanarm.

    An object of brms says whether the draws are those of the prior. A program of rstanarm is one of many models, whose
    constants are in the object.
    """
    if above is None or samples.program is None:
        return samples
    if "stanreg" in objects.classes(above.node):
        return replace(samples, program=program_of(objects, above.node, samples.program.names))
    if "brmsfit" not in objects.classes(above.node):
        return samples
    if objects.texts(objects.element(above.node, "prior", "@sample_prior")) != ["only"]:
        return samples
    return replace(samples, program=replace(samples.program, constants={"prior_only": 1}))


SampleFields = tuple[Columns, Columns, Columns, SavedProgram | None, frozenset[int]] | None
"""Fields of `ObjectDraws` after `where`, in order; None if the object has no draws."""


_PLAIN = {"data.frame", "tbl_df", "tbl", "matrix", "array"}


def _sign(objects: RObjects, place: Place) -> str:
    """What says that the rows of a matrix, of a data frame or of arrays in a list are draws; empty if nothing does."""
    elements = objects.elements(place.node) if place.kind == "list" else []
    names = [name for name, _ in elements] or [*objects.axis_names(place.node), [], []][1]
    for node in [child for _, child in elements] or [place.node]:
        if "iterations" in objects.names(objects.attributes(node).get("dimnames", 0)):
            return "iterations"
    return sign_of(names)


def _arrays(objects: RObjects, node: int) -> SampleFields:
    """Arrays whose first axis has the draws, as `rstan::extract` returns them."""
    elements = objects.elements(node)
    kinds = {objects.kind(child) for _, child in elements}
    lengths = {objects.shape(child)[0] for _, child in elements}
    unnamed = len({name for name, _ in elements} - {""}) < len(elements)
    if len(lengths) != 1 or 0 in lengths or unnamed or kinds - {"double", "integer"}:
        return None
    columns: Columns = {}
    for name, child in elements:
        values = np.asarray(objects.array(child), float)
        indices = [*np.ndindex(values.shape[1:][::-1])]  # R counts the first index fastest
        flat = values.reshape(len(values), len(indices), order="F")
        for k, index in enumerate(indices):
            full = f"{name}[{','.join(str(i + 1) for i in index[::-1])}]" if index else name
            columns[full] = flat[None, :, k]
    return columns, {}, {}, None, frozenset(child for _, child in elements)


def _matrices(objects: RObjects, nodes: list[int]) -> SampleFields:
    """Chains that are matrices with one row per draw."""
    chains = []
    for node in nodes:
        values = np.asarray(objects.array(node), float)
        values = values.reshape(len(values), -1)
        names = [*objects.axis_names(node), [], []][1] or [f"var{k + 1}" for k in range(values.shape[1])]
        if len(names) != values.shape[1]:
            raise BayesreconError("the number of names differs from the number of columns")
        chains.append(dict(zip(names, values.T, strict=True)))
    return (_stacked(chains), {}, {}, None, frozenset(nodes)) if chains else None


def _coda_list(objects: RObjects, node: int) -> SampleFields:
    return _matrices(objects, [child for _, child in objects.elements(node)])


def _coda(objects: RObjects, node: int) -> SampleFields:
    return _matrices(objects, [node])


def _array(objects: RObjects, node: int) -> SampleFields:
    values = np.asarray(objects.array(node), float)
    if values.ndim != 3:
        return None
    names = [*objects.axis_names(node), [], [], []][2]
    if len(names) != values.shape[2]:
        raise BayesreconError("the number of names differs from the number of columns")
    return {name: values[:, :, k].T for k, name in enumerate(names)}, {}, {}, None, frozenset([node])


def _matrix(objects: RObjects, node: int) -> SampleFields:
    result = _matrices(objects, [node])
    chains = objects.numbers(objects.attributes(node).get("nchains", 0))
    count = int(chains[0]) if len(chains) and np.isfinite(chains[0]) else 1
    if result is None or count < 2:
        return result
    columns = {name: v.reshape(count, -1) for name, v in result[0].items() if v.size % count == 0}
    return (columns, *result[1:]) if len(columns) == len(result[0]) else result


def _table(objects: RObjects, node: int) -> SampleFields:
    columns = {name: np.asarray(objects.numbers(child), float) for name, child in objects.elements(node)}
    unusual = {name for name in _COUNTERS & set(columns) if not _is_counter(columns, name)}
    used = frozenset(child for name, child in objects.elements(node) if name not in unusual)
    chain = columns.get(".chain")
    draws = {name: v for name, v in columns.items() if name not in _COUNTERS and v.ndim == 1 and len(v)}
    if chain is None or not draws:
        return (_stacked([draws]), {}, {}, None, used) if draws else None
    chains = [{name: v[chain == c] for name, v in draws.items()} for c in np.unique(chain[np.isfinite(chain)])]
    return _stacked(chains), {}, {}, None, used


def _is_counter(columns: Columns, name: str) -> bool:
    """Whether a column of a table of draws only numbers the chains, their iterations or the draws."""
    values, chain = np.ravel(columns[name]), np.ravel(columns.get(".chain", np.zeros(0)))
    if name == ".draw":
        return np.array_equal(values, np.arange(1, len(values) + 1))
    steps = np.diff(chain)
    if not len(chain) or chain[0] != 1 or not np.all((steps == 0) | (steps == 1)):
        return False
    if name == ".chain":
        return True
    begins = np.maximum.accumulate(np.where(np.append(True, steps == 1), np.arange(len(chain)), 0))
    return np.array_equal(values, np.arange(len(chain)) - begins + 1)


def _lists(objects: RObjects, node: int) -> SampleFields:
    chains, used = [], []
    for _, chain in objects.elements(node):
        elements = objects.elements(chain)
        used += [child for _, child in elements]
        chains.append({name: np.asarray(objects.numbers(child), float) for name, child in elements})
    return (_stacked(chains), {}, {}, None, frozenset(used)) if chains and chains[0] else None


def _variables(objects: RObjects, node: int) -> SampleFields:
    """A list of random variables, each an array whose first axis has the draws, chain after chain."""
    columns: Columns = {}
    used = []
    for name, child in objects.elements(node):
        inner = objects.attributes(child)
        values = np.asarray(objects.array(inner.get("draws", 0)), float)
        count = objects.numbers(inner.get("nchains", 0))
        chains = int(count[0]) if len(count) and np.isfinite(count[0]) and count[0] >= 1 else 1
        if not len(values) or len(values) % chains:
            continue
        used.append(inner["draws"])
        flat = values.reshape(len(values), -1, order="F")
        shape = values.shape[1:]
        for k in range(flat.shape[1]):
            index = np.unravel_index(k, shape, order="F") if shape else ()
            full = f"{name}[{','.join(str(i + 1) for i in index)}]" if flat.shape[1] > 1 else name
            columns[full] = flat[:, k].reshape(chains, -1)
    return (columns, {}, {}, None, frozenset(used)) if columns else None


def _stan(objects: RObjects, node: int) -> SampleFields:
    """A `stanfit`: chains as lists of vectors, which begin with the warm-up if it was saved."""
    simulation = objects.element(node, "@sim")
    samples = objects.element(simulation, "samples")
    before = np.ravel(objects.numbers(objects.element(simulation, "warmup2"))).astype(float)
    chains, statistics, warmup, used = [], [], [], []
    for c, (_, chain) in enumerate(objects.elements(samples)):
        skip = int(before[c]) if c < len(before) and np.isfinite(before[c]) and before[c] >= 0 else 0
        elements = objects.elements(chain)
        inner = objects.elements(objects.attributes(chain).get("sampler_params", 0))
        used += [child for _, child in (*elements, *inner)]
        values = {name: np.asarray(objects.numbers(child), float) for name, child in elements}
        chains.append({name: v[skip:] for name, v in values.items()})
        warmup.append({name: v[:skip] for name, v in values.items()})
        sampler = {name: np.asarray(objects.numbers(child), float) for name, child in inner}
        statistics.append({name: v[skip:] for name, v in sampler.items() if len(v) > skip})
    if not chains or not chains[0]:
        return None
    code = objects.texts(objects.element(node, "@stanmodel", "@model_code"))
    early = _stacked(warmup) if all(len(v) for chain in warmup for v in chain.values()) else {}
    shapes = _shapes(objects, objects.element(node, "@par_dims")) if code else {}
    program = SavedProgram(code[0], _renamed(objects, simulation), shapes) if code else None
    return _stacked(chains), _stacked(statistics), early, program, frozenset(used)


def _renamed(objects: RObjects, simulation: int) -> dict[str, str]:
    """Entries of the program's variables by the names that brms gave them, `{"b_age": "b[1]"}`."""
    names = objects.texts(objects.element(simulation, "fnames_oi"))
    variables = objects.texts(objects.element(simulation, "pars_oi"))
    shapes = _shapes(objects, objects.element(simulation, "dims_oi"))
    if not names or sum(_entries(shapes.get(name, ())) for name in variables) != len(names):
        return {}
    program_names: list[str] = []
    for name in variables:
        shape = shapes.get(name, ())
        for k in range(_entries(shape)):
            index = np.unravel_index(k, shape, order="F") if shape else ()
            program_names.append(f"{name}[{','.join(str(i + 1) for i in index)}]" if shape else name)
    return {new: old for new, old in zip(names, program_names, strict=True) if new != old}


def _shapes(objects: RObjects, node: int) -> dict[str, tuple[int, ...]]:
    result = {}
    for name, child in objects.elements(node):
        values = np.ravel(objects.numbers(child)).astype(float)
        if name and len(values) <= MAX_DIMENSIONS and np.all((values >= 0) & (values < 2**31)):
            result[name] = tuple(int(v) for v in values)
    return result


def _entries(shape: tuple[int, ...]) -> int:
    return min(math.prod(shape), MAX_NAMES + 1)


def _stacked(chains: Sequence[Mapping[str, np.ndarray]]) -> Columns:
    """Draws `(chains, draws)` of every parameter."""
    names = list(chains[0])
    if any(list(chain) != names for chain in chains):
        raise BayesreconError("chains differ in the names of their parameters")
    lengths = {v.shape for chain in chains for v in chain.values()}
    if len(lengths) > 1 or any(len(shape) != 1 for shape in lengths):
        raise BayesreconError("chains differ in length")
    return {name: np.stack([chain[name] for chain in chains]) for name in names}


_READERS = {
    "mcmc.list": _coda_list,
    "mcmc": _coda,
    "draws_array": _array,
    "draws_matrix": _matrix,
    "draws_df": _table,
    "draws_list": _lists,
    "draws_rvars": _variables,
    "stanfit": _stan,
}


# Stan programs of fits of rstanarm, and the means of their covariates.
#
# The Stan programs of rstanarm include files of that package and cover all of its models. The object of a fit states
# its family, its link and the scales of its priors. With covariates x of mean m, the model is
#
#     y_i ~ family(link^-1(alpha + x_i' beta), aux),   alpha + m' beta ~ prior,   beta_k ~ N(location_k, scale_k^2),
#
# (rstanarm, `stan_glm.fit`): the prior is on the intercept for centred covariates.

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
    """Family and link."""
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
    """Statements of the priors."""
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
