"""Runs a Stan program: expressions and statements over known and traced values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.models.stan import densities, tree
from bayesrecon.models.stan.arithmetic import binary, unary
from bayesrecon.models.stan.containers import listed
from bayesrecon.models.stan.functions import apply
from bayesrecon.models.stan.values import (
    SPECIAL,
    Split,
    StanError,
    Untraceable,
    V,
    assign_at,
    blank,
    check_size,
    decided,
    index,
    number,
    real,
    settled,
    whole,
    xp_of,
)

STEPS = 500_000
"""Expressions that one run may evaluate: less than a minute, ten times what programs of posteriordb need."""

TRACED = 24
"""Further steps that a traced expression counts for: tracing it takes so much longer."""

ENTRIES = 300_000_000
"""Entries that one run may make, all containers together and in every turn of loops that are run at once:
2.4 GB where nothing is let go."""

CALLS = 40
"""Functions inside each other: a recursion deeper than that is none that ends in Stan's own stack either."""

Frame = dict[str, V]

_ANY = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What libraries raise on values that they were not made for."""


@dataclass
class Run:
    """What a run has added to the target, and how much it may still do."""

    terms: list[tuple[int, Any, bool]] = field(default_factory=list)
    steps: int = 0
    entries: int = 0
    width: int = 1
    context: bool = False
    selects: bool = True
    nested: bool = False
    frozen: frozenset[str] = frozenset()
    calls: int = 0

    def spend(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise StanError(f"the program takes more than {STEPS} steps")

    def claim(self, v: V) -> V:
        """Counts what a value takes."""
        self.entries += math.prod(v.shape) * self.width
        if self.entries > ENTRIES:
            raise StanError(f"the program makes more than {ENTRIES} entries")
        if not v.known:
            self.spend(TRACED)
        return v

    def widened(self, turns: int) -> int:
        """Turns of this loop and of those around it together."""
        if self.width * turns > ENTRIES:
            raise StanError(f"loops in loops run more than {ENTRIES} times")
        return self.width * turns

    def total(self, tainted: bool | None = None) -> Any:
        """The target, or the part of it that depends on a record or does not."""
        parts = [value for _, value, t in self.terms if tainted is None or t == tainted]
        return sum(parts, start=jnp.zeros(()))


@dataclass(frozen=True)
class Leave:
    """How statements end before their last one."""

    kind: str
    value: V | None = None


class Machine:
    """Evaluates the nodes of one program. `frame` is what the variables stand at; a `Run` gathers the target."""

    def __init__(self, program: tree.Program, higher: "Mapping[str, Higher]", loop: "Loop"):
        self.program, self.higher, self.loop = program, higher, loop
        self.functions: dict[str, list[tree.Function]] = {}
        for f in program.functions:
            if f.body is not None:
                self.functions.setdefault(f.name, []).append(f)

    # Expressions

    def value(self, node: Any, frame: Frame, run: Run) -> V:
        run.spend()
        try:
            return run.claim(self._EXPRESSIONS[type(node)](self, node, frame, run))
        except StanError as error:
            raise self.placed(error, node) from None
        except _ANY as error:
            raise self.placed(unforeseen(error), node) from None

    def placed(self, error: StanError, node: Any) -> StanError:
        """With the place in the program, the innermost."""
        if getattr(error, "placed", False):
            return error
        if isinstance(error, Split):
            return error
        line, column = node.at
        made = type(error)(f"{self.program.name}, line {line}, column {column}: {error}")
        made.placed = True  # type: ignore[attr-defined]
        return made

    def _number(self, node: tree.Number, frame: Frame, run: Run) -> V:
        return whole(node.value) if isinstance(node.value, int) else real(node.value)

    def _variable(self, node: tree.Variable, frame: Frame, run: Run) -> V:
        return settled(self._raw(node, frame))

    def _raw(self, node: tree.Variable, frame: Frame) -> V:
        if node.name not in frame:
            raise StanError(f"there is no variable {node.name}")
        found = frame[node.name]
        if isinstance(found, Slot):
            raise Untraceable(f"{node.name} is read as a whole in a loop that writes it")
        return found

    def _unary(self, node: tree.Unary, frame: Frame, run: Run) -> V:
        x = self.value(node.of, frame, run)
        return unary(node.op, x).with_taint(x.tainted)

    def _binary(self, node: tree.Binary, frame: Frame, run: Run) -> V:
        left = self.value(node.left, frame, run)
        if node.op in ("&&", "||") and left.known and bool(left.a) == (node.op == "||"):
            return whole(int(bool(left.a))).with_taint(left.tainted)
        return binary(node.op, left, self.value(node.right, frame, run))

    def _ternary(self, node: tree.Ternary, frame: Frame, run: Run) -> V:
        test = self.decided(self.value(node.test, frame, run), run)
        if test.known:
            chosen = self.value(node.then if test.a else node.other, frame, run)
            return chosen.with_taint(test.tainted)
        return chosen_of(test, self.value(node.then, frame, run), self.value(node.other, frame, run))

    def _listed(self, node: tree.Listed, frame: Frame, run: Run) -> V:
        return listed([self.value(item, frame, run) for item in node.items], node.row)

    def _target(self, node: tree.Target, frame: Frame, run: Run) -> V:
        return V("real", run.total(), 0, any(t for *_, t in run.terms))

    def indices(self, nodes: tuple[Any, ...], of: V, frame: Frame, run: Run) -> list[Any]:
        found: list[Any] = []
        for k, node in enumerate(nodes):
            if node is None:
                found.append(slice(None))
            elif isinstance(node, tree.Range):
                if k >= len(of.shape):
                    raise StanError(f"{len(nodes)} indices for a {of.words}")
                size = of.shape[k]
                low = 1 if node.low is None else number(self.value(node.low, frame, run), "the start of a range")
                high = size if node.high is None else number(self.value(node.high, frame, run), "the end of a range")
                if high >= low and not (low >= 1 and high <= size):
                    raise StanError(f"range {low}:{high} is out of 1:{size}")
                found.append(slice(low - 1, max(high, low - 1)))
            else:
                found.append(self.value(node, frame, run))
        return found

    def _index(self, node: tree.Index, frame: Frame, run: Run) -> V:
        if isinstance(node.of, tree.Variable):
            held = frame.get(node.of.name)
            if isinstance(held, Slot):
                inner = held.row
                return settled(index(inner, self.indices(node.indices[held.consumed :], inner, frame, run)))
            of = self._raw(node.of, frame)
        else:
            of = self.value(node.of, frame, run)
        return index(of, self.indices(node.indices, of, frame, run))

    def _call(self, node: tree.Call, frame: Frame, run: Run) -> V:
        higher = self.higher.get(node.name)
        if higher is not None and node.name not in self.functions:
            return higher(self, node, frame, run)
        return self.call(node.name, [self.value(a, frame, run) for a in node.args], run)

    def call(self, name: str, args: list[V], run: Run) -> V:
        """A function of the program, or of the language."""
        for suffix in ("_lupdf", "_lupmf"):
            if name.endswith(suffix) and name not in self.functions:
                name = name.removesuffix(suffix) + suffix.replace("u", "")
        if name in self.functions:
            return self.own(name, args, run)
        return apply(name, args)

    def own(self, name: str, args: list[V], run: Run) -> V:
        """A function that the program defines."""
        candidates = [f for f in self.functions[name] if len(f.args) == len(args)]
        if len(candidates) > 1:
            fitting = [f for f in candidates if all(_fits(a, v) for a, v in zip(f.args, args, strict=True))]
            candidates = fitting or candidates
        if not candidates:
            raise StanError(f"{name} does not take {len(args)} arguments")
        function = candidates[0]
        assert function.body is not None
        run.calls += 1
        if run.calls > CALLS:
            raise StanError(f"functions call each other more than {CALLS} deep")
        inner = {a.name: _as_declared(v, a.base) for a, v in zip(function.args, args, strict=True)}
        end = self.block(function.body, inner, run)
        run.calls -= 1
        if function.base == "void":
            return V("void", None)
        if not isinstance(end, Leave) or end.kind != "return" or end.value is None:
            raise StanError(f"{name} ends without a result")
        return _as_declared(end.value, function.base)

    # Statements

    def block(self, body: tuple[Any, ...], frame: Frame, run: Run) -> Leave | None:
        for i, statement in enumerate(body):
            run.spend()
            try:
                if isinstance(statement, tree.If):
                    end = self.conditional(statement, body[i + 1 :], frame, run)
                    if end is _FINISHED:
                        return None
                else:
                    end = self._STATEMENTS[type(statement)](self, statement, frame, run)
            except StanError as error:
                raise self.placed(error, statement) from None
            except _ANY as error:
                raise self.placed(unforeseen(error), statement) from None
            if end is not None:
                return end
        return None

    def statement(self, node: Any, frame: Frame, run: Run) -> Leave | None:
        return self.block((node,), frame, run)

    def decided(self, test: V, run: Run) -> V:
        """A test that is the same in all turns of a loop as a known one; where it is not, both branches are run if
        they may be."""
        if test.turns is not None and run.selects and (test.turns[1] != test.turns[1][0]).any():
            return V(test.base, test.a, 0, test.tainted)
        return decided(test)

    def conditional(self, node: tree.If, rest: tuple[Any, ...], frame: Frame, run: Run) -> Leave | None:
        test = self.decided(self.value(node.test, frame, run), run)
        other = () if node.other is None else (node.other,)
        if test.known:
            before, run.context = run.context, run.context or test.tainted
            end = self.block((node.then,) if test.a else other, frame, run)
            run.context = before
            return end
        return self.both(test, (node.then,), other, rest, frame, run)

    def both(self, test: V, then: Any, other: Any, rest: Any, frame: Frame, run: Run) -> Leave | None:
        """Both branches of what is not known, and a choice between what they leave."""
        if not run.selects:
            raise Untraceable("a branch depends on the variable of a loop")
        before, run.context = run.context, run.context or test.tainted
        ends, frames, added = [], [], []
        written = tree.assigned_in((then, other, rest))
        leaves = any(isinstance(n, tree.Return) for part in (then, other) for n in tree.walk(part))
        for branch in (then, other):
            # Where a branch returns, what follows belongs to the other one.
            side, kept = fork(frame), run.terms
            run.terms = []
            ends.append(self.block((*branch, *rest) if leaves else branch, side, run))
            added.append(run.terms)
            run.terms = kept
            frames.append(side)
        condition = jnp.asarray(test.a) != 0
        for sign, terms in zip((True, False), added, strict=True):
            holds = condition if sign else ~condition
            run.terms += [(line, jnp.where(holds, v, 0.0), t or test.tainted) for line, v, t in terms]
        for name in frame:
            one, two = (f[name] for f in frames)
            if isinstance(one, Slot):
                frame[name].row = chosen_of(test, settled(one.row), settled(two.row))  # type: ignore[attr-defined]
            elif one is not two and name in written:
                frame[name] = chosen_of(test, settled(one), settled(two))
        run.context = before
        if all(end is None for end in ends):
            return _FINISHED if leaves else None
        if any(end is None or end.kind != "return" or end.value is None for end in ends):
            raise Untraceable("a branch that leaves a loop depends on what is not a constant")
        return Leave("return", chosen_of(test, *(end.value for end in ends)))  # type: ignore[union-attr, arg-type]

    def _declare(self, node: tree.Declare, frame: Frame, run: Run) -> None:
        if node.name in run.frozen:
            return
        frame[node.name] = run.claim(self.declared(node, frame, run))

    def shape_of(self, kind: tree.Type, frame: Frame, run: Run) -> tuple[int, ...]:
        """Sizes of a declared type, of the array and then its own."""
        sizes = [number(self.value(s, frame, run), "a size") for s in (*kind.dims, *kind.sizes)]
        if kind.base in ("corr_matrix", "cov_matrix", "cholesky_factor_corr") or (
            kind.base == "cholesky_factor_cov" and len(kind.sizes) == 1
        ):
            sizes.append(sizes[-1])
        return tuple(sizes)

    def declared(self, node: tree.Declare, frame: Frame, run: Run) -> V:
        kind = node.type
        shape = self.shape_of(kind, frame, run)
        check_size(shape, node.name)
        base = SPECIAL.get(kind.base, kind.base)
        if node.value is None:
            return blank(base, shape, len(kind.dims))
        given = self.value(node.value, frame, run)
        if given.shape != shape:
            raise StanError(f"{node.name} is declared with sizes {shape} and gets a {given.words} of {given.shape}")
        return own_copy(_as_declared(given, base)).with_taint(run.context)

    def _assign(self, node: tree.Assign, frame: Frame, run: Run) -> None:
        if run.frozen and tree.assigned_in(node) <= run.frozen:
            return
        if node.op != "=":
            value = binary(node.op[:-1], self.value(node.to, frame, run), self.value(node.value, frame, run))
        else:
            value = self.value(node.value, frame, run)
        nodes: list[Any] = []
        to = node.to
        while isinstance(to, tree.Index):
            nodes[:0] = to.indices
            to = to.of
        if not isinstance(to, tree.Variable):
            raise StanError("only variables and their entries can be assigned to")
        held = frame.get(to.name)
        if held is None:
            raise StanError(f"there is no variable {to.name}")
        if isinstance(held, Slot):
            held.row = self._assigned(held.row, tuple(nodes[held.consumed :]), value, frame, run)
        else:
            frame[to.name] = self._assigned(held, tuple(nodes), value, frame, run)

    def _assigned(self, held: V, nodes: tuple[Any, ...], value: V, frame: Frame, run: Run) -> V:
        if not nodes:
            if held.shape != value.shape:
                raise StanError(f"a value of sizes {value.shape} is assigned to a variable of sizes {held.shape}")
            if held.base == "int" and value.base != "int":
                raise StanError(f"a {value.words} is assigned to a whole number")
            return own_copy(V(held.base, value.a, held.depth, value.tainted or run.context, value.turns))
        return assign_at(held, self.indices(nodes, held, frame, run), value, run.context)

    def _increment(self, node: tree.Increment, frame: Frame, run: Run) -> None:
        self.add(node, self.value(node.value, frame, run), run)

    def add(self, node: Any, value: V, run: Run) -> None:
        run.terms.append((node.at[0], xp_of(value.a).sum(value.a), value.tainted or run.context))

    def _tilde(self, node: tree.Tilde, frame: Frame, run: Run) -> None:
        y = self.value(node.of, frame, run)
        args = [self.value(a, frame, run) for a in node.args]
        tainted = y.tainted or any(a.tainted for a in args)
        own = [node.name + suffix for suffix in densities.SUFFIXES if node.name + suffix in self.functions]
        if own:
            found = self.own(own[0], [y, *args], run).a
        elif densities.known(node.name):
            found = densities.log_density(node.name, [y, *args])
        else:
            raise StanError(f"there is no density {node.name}")
        if node.truncated:
            ends = [None if e is None else self.value(e, frame, run) for e in (node.low, node.high)]
            tainted |= any(e is not None and e.tainted for e in ends)
            found = found - densities.truncation(node.name, y, args, *ends)
            found = jnp.where(densities.outside(y, *ends), -jnp.inf, found)
        self.add(node, V("real", found, 0, tainted), run)

    def _for(self, node: tree.For, frame: Frame, run: Run) -> Leave | None:
        if node.high is None:
            over = self.value(node.low, frame, run)
            items = [index(over, [whole(i + 1)]) for i in range(over.shape[0] if over.shape else 1)]
            return self.repeat(node, items, over.tainted, frame, run)
        low, high = (self.value(n, frame, run) for n in (node.low, node.high))
        first, last = number(low, "the bound of a loop"), number(high, "the bound of a loop")
        if last - first > STEPS:
            raise StanError(f"a loop runs from {first} to {last}, more than {STEPS} times")
        tainted = low.tainted or high.tainted
        done = self.loop(self, node, first, last, tainted, frame, run)
        if done:
            return None
        items = [V("int", i, 0, False) for i in range(first, last + 1)]
        return self.repeat(node, items, tainted, frame, run)

    def repeat(self, node: tree.For, items: list[V], tainted: bool, frame: Frame, run: Run) -> Leave | None:
        before, run.context = run.context, run.context or tainted
        shadowed = frame.get(node.name)
        end = None
        for item in items:
            frame[node.name] = item
            end = self.statement(node.body, frame, run)
            if end is not None and end.kind == "continue":
                end = None
            if end is not None:
                break
        if shadowed is None:
            frame.pop(node.name, None)
        else:
            frame[node.name] = shadowed
        run.context = before
        return end if end is not None and end.kind == "return" else None

    def _while(self, node: tree.While, frame: Frame, run: Run) -> Leave | None:
        before = run.context
        end = None
        while end is None or end.kind == "continue":
            test = self.value(node.test, frame, run)
            test = decided(test)
            if not test.known:
                raise Untraceable("how often a loop runs depends on what is not a constant")
            run.context = run.context or test.tainted
            if not test.a:
                break
            end = self.statement(node.body, frame, run)
        run.context = before
        return end if end is not None and end.kind == "return" else None

    def _block(self, node: tree.Block, frame: Frame, run: Run) -> Leave | None:
        return self.block(node.body, frame, run)

    def _return(self, node: tree.Return, frame: Frame, run: Run) -> Leave:
        if node.value is None:
            return Leave("return")
        return Leave("return", self.value(node.value, frame, run).with_taint(run.context))

    def _jump(self, node: tree.Jump, frame: Frame, run: Run) -> Leave:
        return Leave("break" if node.out else "continue")

    def _message(self, node: tree.Message, frame: Frame, run: Run) -> None:
        if node.rejects and not run.context:
            raise StanError("the program rejects")

    def _call_statement(self, node: tree.CallStatement, frame: Frame, run: Run) -> None:
        self.value(node.call, frame, run)

    _EXPRESSIONS: ClassVar[dict[type, Any]] = {
        tree.Number: _number,
        tree.Variable: _variable,
        tree.Call: _call,
        tree.Index: _index,
        tree.Unary: _unary,
        tree.Binary: _binary,
        tree.Ternary: _ternary,
        tree.Listed: _listed,
        tree.Target: _target,
    }
    _STATEMENTS: ClassVar[dict[type, Any]] = {
        tree.Declare: _declare,
        tree.Assign: _assign,
        tree.Increment: _increment,
        tree.Tilde: _tilde,
        tree.For: _for,
        tree.While: _while,
        tree.Block: _block,
        tree.Return: _return,
        tree.Jump: _jump,
        tree.Message: _message,
        tree.CallStatement: _call_statement,
    }


def unforeseen(error: Exception) -> StanError:
    """What a library raised, in one line; errors of tracing go on as they are.

    Raises:
        Exception: the error itself, where the tracer raised it.
    """
    if isinstance(error, (jax.errors.JAXTypeError, jax.errors.JAXIndexError, BayesreconError)):
        raise error
    if isinstance(error, RecursionError):
        return StanError("functions and expressions are nested too deep")
    return StanError(f"this cannot be evaluated ({first_line(error)[:120]})")


class Slot:
    """The entry of a variable that a turn of a loop writes, the variable itself not being at hand.

    `consumed` of its indices are those of the loop and of the loops around it.
    """

    __slots__ = ("consumed", "row")

    def __init__(self, row: V, consumed: int = 1):
        self.row, self.consumed = row, consumed


_FINISHED = Leave("finished")
"""Both branches ran to the end of the statements they stand in."""

Higher = Callable[[Machine, tree.Call, Frame, Run], V]
"""A function that takes functions."""

Loop = Callable[[Machine, tree.For, int, int, bool, Frame, Run], bool]
"""Runs a loop as a whole where that pays; whether it did."""


def chosen_of(test: V, one: V, other: V) -> V:
    """One of two values of one shape."""
    if one.shape != other.shape:
        raise Untraceable(f"two branches leave values of sizes {one.shape} and {other.shape}")
    base = "real" if "real" in (one.base, other.base) and one.base != other.base else one.base
    tainted = test.tainted or one.tainted or other.tainted
    return V(base, jnp.where(jnp.asarray(test.a) != 0, one.a, other.a), one.depth, tainted)


def fork(frame: Frame) -> Frame:
    """A copy whose arrays can be written to."""
    found: dict[str, Any] = {}
    for name, v in frame.items():
        found[name] = Slot(own_copy(v.row), v.consumed) if isinstance(v, Slot) else own_copy(v)
    return found


def own_copy(v: V) -> V:
    """A value that belongs to one variable."""
    if isinstance(v.a, np.ndarray) and v.a.ndim:
        return V(v.base, v.a.copy(), v.depth, v.tainted)
    return v


def _as_declared(v: V, base: str) -> V:
    """Whole numbers as real ones where those are declared."""
    if base == "void" or v.base == base:
        return v
    if v.base == "int" and base == "real":
        return V("real", xp_of(v.a).asarray(v.a, float) if v.shape else v.a * 1.0, v.depth, v.tainted)
    if v.base != base:
        raise StanError(f"a {v.words} is given where a {base} is declared")
    return v


def _fits(argument: tree.Argument, v: V) -> bool:
    return argument.depth == v.depth and (argument.base == v.base or (argument.base == "real" and v.base == "int"))
