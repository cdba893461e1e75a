"""Evaluates the expressions of a Stan program over known and traced values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.arithmetic import binary, unary
from bayesrecon.models.stan.containers import listed
from bayesrecon.models.stan.frame import CALLS, FOREIGN, EarlyExit, Frame, Run, Slot, as_declared, library_error, select
from bayesrecon.models.stan.functions import apply
from bayesrecon.models.stan.values import (
    Split,
    StanError,
    Untraceable,
    V,
    consolidated,
    index,
    known_test,
    number,
    real,
    whole,
    window,
)


class Expressions(ABC):
    """Values of the nodes of one program. `frame` is what the variables stand at; a `Run` gathers the target.

    Args:
        program: parsed.
        higher: functions that take functions, by name.
    """

    def __init__(self, program: tree.Program, higher: "Mapping[str, Higher]"):
        self.program, self.higher = program, higher
        self.functions: dict[str, list[tree.Function]] = {}
        for f in program.functions:
            if f.body is not None:
                self.functions.setdefault(f.name, []).append(f)

    @abstractmethod
    def block(self, body: tuple[tree.Statement, ...], frame: Frame, run: Run) -> EarlyExit | None:
        """Runs statements, as those of a function."""

    def statement(self, node: tree.Statement, frame: Frame, run: Run) -> EarlyExit | None:
        return self.block((node,), frame, run)

    def value(self, node: tree.Expression, frame: Frame, run: Run) -> V:
        run.count_steps()
        try:
            return run.count_entries(self._EXPRESSIONS[type(node)](self, node, frame, run))
        except StanError as error:
            raise self.placed(error, node) from None
        except FOREIGN as error:
            raise self.placed(library_error(error), node) from None

    def placed(self, error: StanError, node: tree.Node) -> StanError:
        """The error with its innermost place in the program."""
        if getattr(error, "placed", False):
            return error
        if isinstance(error, Split):
            return error
        line, column = node.position
        made = type(error)(f"{self.program.name}, line {line}, column {column}: {error}")
        made.placed = True  # type: ignore[attr-defined]
        return made

    def _number(self, node: tree.Number, frame: Frame, run: Run) -> V:
        return whole(node.value) if isinstance(node.value, int) else real(node.value)

    def _variable(self, node: tree.VariableName, frame: Frame, run: Run) -> V:
        return consolidated(self._raw(node, frame))

    def _raw(self, node: tree.VariableName, frame: Frame) -> V:
        if node.name not in frame:
            raise StanError(f"there is no variable {node.name}")
        variable = frame[node.name]
        if isinstance(variable, Slot):
            raise Untraceable(f"{node.name} is read in full inside a loop that assigns its elements")
        return variable

    def _unary(self, node: tree.Unary, frame: Frame, run: Run) -> V:
        x = self.value(node.operand, frame, run)
        return unary(node.op, x).with_taint(x.tainted)

    def _binary(self, node: tree.Binary, frame: Frame, run: Run) -> V:
        left = self.value(node.left, frame, run)
        if node.op in ("&&", "||") and left.known and bool(left.a) == (node.op == "||"):
            return whole(int(bool(left.a))).with_taint(left.tainted)
        return binary(node.op, left, self.value(node.right, frame, run))

    def _ternary(self, node: tree.Ternary, frame: Frame, run: Run) -> V:
        test = self.known_test(self.value(node.test, frame, run), run)
        if test.known:
            chosen = self.value(node.then if test.a else node.other, frame, run)
            return chosen.with_taint(test.tainted)
        return select(test, self.value(node.then, frame, run), self.value(node.other, frame, run))

    def _listed(self, node: tree.Listed, frame: Frame, run: Run) -> V:
        return listed([self.value(item, frame, run) for item in node.items], node.row)

    def _target(self, node: tree.Target, frame: Frame, run: Run) -> V:
        return V("real", run.total(), 0, any(t for *_, t in run.terms))

    def indices(self, nodes: tuple[tree.IndexNode, ...], container: V, frame: Frame, run: Run) -> list[V | slice]:
        result: list[V | slice] = []
        for k, node in enumerate(nodes):
            if node is None:
                result.append(slice(None))
            elif isinstance(node, tree.Range):
                if k >= len(container.shape):
                    raise StanError(f"{len(nodes)} indices for a {container.words}")
                size = container.shape[k]
                first = whole(1) if node.low is None else self.value(node.low, frame, run)
                last = whole(size) if node.high is None else self.value(node.high, frame, run)
                if (moving := window(first, last, size)) is not None:
                    result.append(moving)
                    continue
                low, high = number(first, "the start of a range"), number(last, "the end of a range")
                if high >= low and not (low >= 1 and high <= size):
                    raise StanError(f"range {low}:{high} is out of 1:{size}")
                result.append(slice(low - 1, max(high, low - 1)))
            else:
                result.append(self.value(node, frame, run))
        return result

    def _index(self, node: tree.Index, frame: Frame, run: Run) -> V:
        if isinstance(node.container, tree.VariableName):
            variable = frame.get(node.container.name)
            if isinstance(variable, Slot):
                inner = variable.row
                return consolidated(index(inner, self.indices(node.indices[variable.consumed :], inner, frame, run)))
            container = self._raw(node.container, frame)
        else:
            container = self.value(node.container, frame, run)
        return index(container, self.indices(node.indices, container, frame, run))

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
            return self.call_defined(name, args, run)
        return apply(name, args)

    def call_defined(self, name: str, args: list[V], run: Run) -> V:
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
            raise StanError(f"function calls are nested more than {CALLS} deep")
        inner = {a.name: as_declared(v, a.base) for a, v in zip(function.args, args, strict=True)}
        frozen, run.frozen = run.frozen, frozenset()  # names of the program: a function has names of its own
        try:
            end = self.block(function.body, inner, run)
        finally:
            run.calls, run.frozen = run.calls - 1, frozen
        if function.base == "void":
            return V("void", None)
        if not isinstance(end, EarlyExit) or end.kind != "return" or end.value is None:
            raise StanError(f"{name} ends without returning a value")
        return as_declared(end.value, function.base)

    def known_test(self, test: V, run: Run) -> V:
        """A test that is the same in all iterations of a loop as a known one; where it is not, both branches are run if
        they may be."""
        if test.iterations is not None and run.selects and (test.iterations[1] != test.iterations[1][0]).any():
            return V(test.base, test.a, 0, test.tainted)
        return known_test(test)

    _EXPRESSIONS: ClassVar[dict[type[tree.Expression], Callable[..., V]]] = {
        tree.Number: _number,
        tree.VariableName: _variable,
        tree.Call: _call,
        tree.Index: _index,
        tree.Unary: _unary,
        tree.Binary: _binary,
        tree.Ternary: _ternary,
        tree.Listed: _listed,
        tree.Target: _target,
    }


Higher = Callable[[Expressions, tree.Call, Frame, Run], V]
"""A function that takes functions."""


def _fits(argument: tree.Argument, v: V) -> bool:
    return argument.depth == v.depth and (argument.base == v.base or (argument.base == "real" and v.base == "int"))
