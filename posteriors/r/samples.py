"""Draws in a file of R: those of the packages coda, posterior and rstan, anywhere in an object."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.draws import MAX_DIMENSIONS
from bayesrecon.posteriors.r.places import Place, PlaceWalk
from bayesrecon.posteriors.r.r_objects import RObjects
from bayesrecon.posteriors.r.rstanarm import program_of
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
    """

    where: str
    columns: Columns
    statistics: Columns = field(default_factory=dict)
    warmup: Columns = field(default_factory=dict)
    program: SavedProgram | None = None
    nodes: frozenset[int] = frozenset()


def samples_of(walk: PlaceWalk) -> ObjectDraws | None:
    """The draws at the place with the least depth, the first of several; None if there are none.

    Raises:
        BayesreconError: chains differ in length or in the names of their parameters.
    """
    objects = walk.objects
    for place in walk:
        for name in objects.classes(place.node) if place.kind in ("list", "object", "double", "integer") else ():
            if name in _READERS:
                draws = _READERS[name](objects, place.node)
                if draws is not None:
                    samples = ObjectDraws(place.where, *draws)
                    return _with_program(objects, place.parent, samples)
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
    program = SavedProgram(code[0], _renamed(objects, simulation), _sizes(objects, node)) if code else None
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


def _sizes(objects: RObjects, node: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all variables of the program, which a `stanfit` stores."""
    return _shapes(objects, objects.element(node, "@par_dims"))


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
