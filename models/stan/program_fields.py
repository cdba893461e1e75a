"""The data of a program as fields and constants: what follows which count, and sizes that shapes of parameters tell."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesrecon.domains import BINARY, REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.needs import pruned, tainted_names
from bayesrecon.models.stan.posterior import declarations, value_of
from bayesrecon.models.stan.values import SPECIAL, StanError, number

FEW = 32
"""Integers between two ends, below which each is a level, as of observed sites of NumPyro programs."""

LISTED = 1_000
"""Levels of a field of integers that indexes something; beyond it they are numbers like others."""


@dataclass(frozen=True, eq=False)
class RecordField:
    """A field of the record: where it is declared, and on which axis records follow each other; `follows` is false of
    data that are one record as a whole."""

    node: tree.Declare
    axis: int
    follows: bool = True


def sizes_of(node: tree.Declare) -> tuple[tree.Expression, ...]:
    """Sizes of a variable: of the array around it, then its own."""
    return (*node.type.dims, *node.type.sizes)


def counts(program: tree.Program) -> tuple[str, ...]:
    """Integers in the data that data have as a size, those of most variables first."""
    numbers = {d.name for d in declarations(program.data) if d.type.base == "int" and not sizes_of(d)}
    result: dict[str, int] = {}
    for d in declarations(program.data):
        for k, size in enumerate(sizes_of(d)):
            if isinstance(size, tree.VariableName) and size.name in numbers:
                result[size.name] = result.get(size.name, 0) + (3 if k == 0 else 1)
    return tuple(sorted(result, key=lambda name: -result[name]))


def columns(program: tree.Program, count: str) -> dict[str, RecordField] | None:
    """The data that follow a count, as fields; None if one of them does so in another way than by one axis."""
    result: dict[str, RecordField] = {}
    for d in declarations(program.data):
        uses = [k for k, size in enumerate(sizes_of(d)) if count in tree.names_in(size)]
        if not uses:
            continue
        if len(uses) > 1 or not isinstance(sizes_of(d)[uses[0]], tree.VariableName):
            return None
        result[d.name] = RecordField(d, uses[0])
    return result


def implied_sizes(program: tree.Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int | list[int]]:
    """Integers of the data that the shapes of variables tell: `vector[K - 1] b` of length 3 tells K."""
    defined = {d.name: d.value for d in program.transformed_data if isinstance(d, tree.Declare) and d.value is not None}
    for s in program.transformed_data:
        if isinstance(s, tree.Assign) and isinstance(s.assigned, tree.VariableName):
            defined.setdefault(s.assigned.name, s.value)
    data = {d.name for d in declarations(program.data)}
    result: dict[str, int | list[int]] = {}
    lists: dict[str, dict[int, int]] = {}
    blocks = (program.parameters, program.transformed_parameters, program.generated)
    for d in (d for block in blocks for d in declarations(block)):
        shape = shapes.get(d.name)
        if shape is None:
            continue
        sizes = sizes_of(d)
        if d.type.base in ("cholesky_factor_corr", "corr_matrix", "cov_matrix"):
            sizes = (*sizes, sizes[-1])
        if len(shape) != len(sizes):
            # An array of one element is written without its index by some tools, and with it by others.
            continue
        for size, value in zip(sizes, shape, strict=True):
            if (entry := _entry_of(size)) is not None:
                lists.setdefault(entry[0], {})[entry[1]] = int(value)
                continue
            solved = _solve(size, int(value), defined)
            if solved is None or solved[0] not in data:
                continue
            if result.setdefault(*solved) != solved[1]:
                raise BayesreconError(
                    f"{program.name}: the draws give {solved[0]} as {result[solved[0]]} and as {solved[1]} "
                    f"({d.name} has sizes {shape}); do they belong to this program?"
                )
    return result | _implied_lists(program, lists)


def _entry_of(size: tree.Expression) -> tuple[str, int] | None:
    """The list and the place in it of a size that is an element of one, `knots[2]`."""
    if isinstance(size, tree.Index) and isinstance(size.container, tree.VariableName) and len(size.indices) == 1:
        at = size.indices[0]
        if isinstance(at, tree.Number) and isinstance(at.value, int):
            return size.container.name, at.value
    return None


def _implied_lists(program: tree.Program, lists: Mapping[str, dict[int, int]]) -> dict[str, int | list[int]]:
    """Lists of sizes of which every element is told, and how long they are."""
    result: dict[str, int | list[int]] = {}
    for d in declarations(program.data):
        entries, sizes = lists.get(d.name, {}), sizes_of(d)
        if entries and d.type.base == "int" and len(sizes) == 1 and sorted(entries) == [*range(1, len(entries) + 1)]:
            result[d.name] = [entries[k + 1] for k in range(len(entries))]
            if isinstance(sizes[0], tree.VariableName):
                result[sizes[0].name] = len(entries)
    return result


def _solve(size: tree.Expression, value: int, defined: Mapping[str, tree.Expression]) -> tuple[str, int] | None:
    """The variable that makes an expression of a size equal to a value."""
    for _ in range(20):
        if isinstance(size, tree.VariableName):
            if size.name not in defined:
                return size.name, value
            size = defined[size.name]
        elif isinstance(size, tree.Binary) and size.op in "+-" and isinstance(size.right, tree.Number):
            value = value - int(size.right.value) if size.op == "+" else value + int(size.right.value)
            size = size.left
        elif isinstance(size, tree.Binary) and size.op == "+" and isinstance(size.left, tree.Number):
            value, size = value - int(size.left.value), size.right
        else:
            return None
    return None


class MissingConstantsError(BayesreconError):
    """Data that are no fields have no value."""


def constants_of(
    machine: StanMachine,
    fields: Mapping[str, RecordField],
    numbers: Collection[str | None],
    constants: Mapping[str, npt.ArrayLike],
    implied: Mapping[str, npt.ArrayLike],
) -> Frame:
    """The data that are not fields, from stated constants and from the shapes of parameters."""
    program = machine.program
    frame: Frame = {}
    missing: list[str] = []
    for node in declarations(program.data):
        if node.name in fields or node.name in numbers:
            continue
        value = constants.get(node.name, implied.get(node.name))
        if node.name == "prior_only" and value is None:  # brms' switch for leaving the data out
            value = 0
        if (
            node.name in constants
            and node.name in implied
            and not np.array_equal(constants[node.name], implied[node.name])
        ):
            raise BayesreconError(
                f"{program.name}: {node.name} is given as {constants[node.name]}, and the draws give it as "
                f"{implied[node.name]}; do they belong to this program?"
            )
        if value is None:
            missing.append(node.name)
            continue
        if missing:
            continue
        try:
            frame[node.name] = value_of(node, value, machine.shape_of(node.type, frame, Run()))
        except StanError as error:
            raise machine.placed(error, node) from None
    if missing:
        listed = ", ".join(missing)
        example = ", ".join(f'"{name}": ...' for name in missing[:2])
        raise MissingConstantsError(
            f"{program.name}: neither the record nor the draws determine {listed}: pass constants={{{example}}} "
            "(--constants FILE.json)"
        )
    return frame


def domain_of(machine: StanMachine, node: tree.Declare, frame: Frame, indexed: list[tree.Expression] | None) -> Domain:
    """Domain of a field, from its declared bounds and the sizes of the variables it indexes."""
    indexes = indexed is not None
    bounds = {"lower": -math.inf, "upper": math.inf}
    for name, bound in node.type.bounds:
        if name in bounds:
            try:
                value = machine.value(bound, frame, Run())
            except StanError:
                continue  # a bound that depends on other data
            if value.scalar and value.known:
                bounds[name] = float(value.a)
    low, high = bounds["lower"], bounds["upper"]
    if node.type.base == "int":
        if indexed is not None:
            high = min([high, *(float(n) for n in (_known(machine, size, frame) for size in indexed) if n)])
            low = max(low, 1.0) if math.isfinite(high) and high > 1 else low
        if (low, high) == (0.0, 1.0) and not indexes:
            return BINARY
        most = LISTED if indexes else FEW
        if math.isfinite(low) and math.isfinite(high) and low < high and high - low < most:
            return Domain("levels", levels=tuple(np.arange(low, high + 1)))
        return Domain("integer", low, high)
    if SPECIAL.get(node.type.base):
        return Domain("interval", 0.0, 1.0) if node.type.base == "simplex" else REAL
    if low == -math.inf and high == math.inf:
        return REAL
    return Domain("interval", low, high)


def _known(machine: StanMachine, size: tree.Expression, frame: Frame) -> int | None:
    try:
        return number(machine.value(size, frame, Run()), "a size")
    except StanError:
        return None


def _categorical(node: tree.Node) -> tuple[str, tree.Expression, tuple[tree.Expression, ...]] | None:
    """A distribution of categories: its name, its value and its arguments."""
    if isinstance(node, tree.Tilde):
        name, y, args = node.name, node.variate, node.args
    elif isinstance(node, tree.Call) and node.args:
        name, y, args = node.name.removesuffix("_lpmf").removesuffix("_lupmf"), node.args[0], node.args[1:]
    else:
        return None
    return (name, y, args) if name in _CATEGORIES else None


_CATEGORIES = {"categorical", "categorical_logit", "ordered_logistic", "ordered_probit", "ordered_logistic_glm"}


def indexing(program: tree.Program) -> dict[str, list[tree.Expression]]:
    """Variables that index something, with the sizes of what they index, as expressions."""
    blocks = (program.data, program.transformed_data, program.parameters, program.transformed_parameters, program.model)
    nodes = tree.walk((*blocks, program.functions))
    sizes = {n.name: sizes_of(n) for n in nodes if isinstance(n, tree.Declare)}
    result: dict[str, list[tree.Expression]] = {}
    for n in nodes:
        categorical = _categorical(n)
        if categorical is not None:
            name, y, args = categorical
            inside = y.container if isinstance(y, tree.Index) else y
            last = args[-1] if args else None
            if isinstance(inside, tree.VariableName) and isinstance(last, tree.VariableName) and sizes.get(last.name):
                size = sizes[last.name][-1]
                more = (
                    tree.Binary(n.position, "+", size, tree.Number(n.position, 1))
                    if name.startswith("ordered")
                    else size
                )
                result.setdefault(inside.name, []).append(more)
        if not isinstance(n, tree.Index):
            continue
        indexed = sizes.get(n.container.name, ()) if isinstance(n.container, tree.VariableName) else ()
        for k, i in enumerate(n.indices):
            inside = i.container if isinstance(i, tree.Index) else i
            if isinstance(inside, tree.VariableName):
                result.setdefault(inside.name, []).extend(indexed[k : k + 1])
    return result


def record_parameters(nodes: tuple[tree.Declare, ...], count: str) -> dict[str, int] | None:
    """Parameters that follow the count, with their axis; None if one follows it in another way."""
    result: dict[str, int] = {}
    for p in nodes:
        sizes = (*p.type.dims, *p.type.sizes)
        uses = [k for k, size in enumerate(sizes) if count in tree.names_in(size)]
        if not uses:
            continue
        plain_size = isinstance(sizes[uses[0]], tree.VariableName)
        if len(uses) > 1 or not plain_size or p.type.base in ("simplex", "ordered", "sum_to_zero_vector"):
            return None
        result[p.name] = uses[0]
    return result


# Which counts number records.


NAME = "log_lik"
"""The name that loo and ArviZ expect."""


def counts_to_try(program: tree.Program, stated: Collection[str], record: str | None) -> tuple[tuple[str, ...], ...]:
    """The counts whose records may be those of a program, by themselves or together; () takes all data as one.

    First comes what `log_lik` is counted by, then those of most data. A count of other outcomes joins the first one:
    a likelihood may have terms for several kinds of records.
    """
    small, of_log_lik = pruned(program), count_of_log_lik(program)
    possible = sorted(counts(small), key=lambda count: count != of_log_lik)
    possible = [count for count in possible if columns(small, count) is not None] or possible
    if record == "all" or (record is None and not possible):
        return ((),)
    if record is not None:
        named = tuple(record.replace(",", " ").replace(" and ", " ").split())
        if not named or not set(named) <= set(possible):
            raise BayesreconError(
                f"record={record!r}: the counts of {program.name} are {', '.join(possible) or 'none'}"
            )
        return (named,)
    together, taken = possible[:1], set(columns(small, possible[0]) or ())
    for count in possible[1:]:
        own = set(columns(small, count) or ())
        if own and not own & (taken | set(stated)) and _has_outcome(small, own):
            together.append(count)
            taken |= own
    return tuple(dict.fromkeys([tuple(together), *((count,) for count in possible)]))


def _has_outcome(program: tree.Program, names: set[str]) -> bool:
    """Whether data enter as what a density is of, or in the target by themselves."""
    computed = tainted_names(program, names)
    for node in tree.walk((program.transformed_parameters, program.model)):
        if isinstance(node, tree.Tilde):
            outcome: object = node.variate
        elif isinstance(node, tree.Call) and node.args and OUTCOME_FIRST.search(node.name):
            outcome = node.args[0]
        elif isinstance(node, tree.Increment):
            inside = [n for n in tree.walk(node.value) if isinstance(n, tree.Call) and OUTCOME_FIRST.search(n.name)]
            outcome = () if inside else node.value
        else:
            continue
        if tree.names_in(outcome) & computed:
            return True
    return False


OUTCOME_FIRST = re.compile(r"_(lu?p[dm]f|l?c?cdf|lcdf|log)$")
"""Ends of names of functions whose first argument is an outcome."""


def count_of_log_lik(program: tree.Program) -> str | None:
    """The variable that is the size of `log_lik`, None if there is none."""
    declared = [d for d in declarations(program.generated) if d.name == NAME]
    sizes = sizes_of(declared[0]) if declared else ()
    return sizes[0].name if len(sizes) == 1 and isinstance(sizes[0], tree.VariableName) else None


def counted_numbers(program: tree.Program, numbers: set[str]) -> set[str]:
    """Numbers of the transformed data that follow from sizes alone."""
    data = {d.name for d in declarations(program.data)} - numbers
    of_data, of_numbers = (tainted_names(program, sources) for sources in (data, numbers))
    declared = (d for d in declarations(program.transformed_data) if not sizes_of(d))
    return {d.name for d in declared if d.name in of_numbers - of_data}
