"""Runs the statements of a Stan program."""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import ClassVar

import jax.numpy as jnp

from bayesrecon.models.stan import named_densities as densities
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.arithmetic import binary
from bayesrecon.models.stan.expressions import Expressions, Higher
from bayesrecon.models.stan.frame import (
    FOREIGN,
    EarlyExit,
    Frame,
    Run,
    Slot,
    Term,
    as_declared,
    fork,
    library_error,
    loop_bounds,
    select,
    writable_copy,
)
from bayesrecon.models.stan.values import (
    SPECIAL,
    StanError,
    Untraceable,
    V,
    assign_at,
    blank,
    check_size,
    consolidated,
    index,
    known_test,
    number,
    whole,
    xp_of,
)

_FINISHED = EarlyExit("finished")
"""Both branches ran to the end of the statements they stand in."""


class StanMachine(Expressions):
    """Runs one program.

    Args:
        loop: runs a loop as a whole where that pays.
    """

    def __init__(self, program: tree.Program, higher: Mapping[str, Higher], loop: "Loop"):
        super().__init__(program, higher)
        self.loop = loop

    def block(self, body: tuple[tree.Statement, ...], frame: Frame, run: Run) -> EarlyExit | None:
        for i, statement in enumerate(body):
            run.count_steps()
            try:
                if isinstance(statement, tree.If):
                    end = self.conditional(statement, body[i + 1 :], frame, run)
                    if end is _FINISHED:
                        return None
                else:
                    end = self._STATEMENTS[type(statement)](self, statement, frame, run)
            except StanError as error:
                raise self.placed(error, statement) from None
            except FOREIGN as error:
                raise self.placed(library_error(error), statement) from None
            if end is not None:
                return end
        return None

    def conditional(
        self, node: tree.If, following: tuple[tree.Statement, ...], frame: Frame, run: Run
    ) -> EarlyExit | None:
        test = self.known_test(self.value(node.test, frame, run), run)
        other = () if node.other is None else (node.other,)
        if test.known:
            before, run.context = run.context, run.context or test.tainted
            end = self.block((node.then,) if test.a else other, frame, run)
            run.context = before
            return end
        return self.both_branches(test, (node.then,), other, following, frame, run)

    def both_branches(
        self,
        test: V,
        then: tuple[tree.Statement, ...],
        other: tuple[tree.Statement, ...],
        following: tuple[tree.Statement, ...],
        frame: Frame,
        run: Run,
    ) -> EarlyExit | None:
        """Run both branches of a condition that is not known, and select between the values they assign."""
        if not run.selects:
            raise Untraceable("a branch depends on a loop variable")
        before, run.context = run.context, run.context or test.tainted
        unsure, run.unsure = run.unsure, True
        ends, frames = [], []
        added: list[list[Term]] = []
        written = tree.assigned_in((then, other, following))
        returns = any(isinstance(n, tree.Return) for part in (then, other) for n in tree.walk(part))
        for branch in (then, other):
            # Where a branch returns, what follows belongs to the other one.
            branch_frame, outer_terms = fork(frame), run.terms
            run.terms = []
            ends.append(self.block((*branch, *following) if returns else branch, branch_frame, run))
            added.append(run.terms)
            run.terms = outer_terms
            frames.append(branch_frame)
        run.unsure = unsure
        condition = jnp.asarray(test.a) != 0
        for sign, terms in zip((True, False), added, strict=True):
            holds = condition if sign else ~condition
            run.terms += [(line, jnp.where(holds, v, 0.0), t or test.tainted) for line, v, t in terms]
        for name in frame:
            first, second = (f[name] for f in frames)
            if isinstance(first, Slot):
                frame[name].row = select(test, consolidated(first.row), consolidated(second.row))  # type: ignore[attr-defined]
            elif first is not second and name in written:
                frame[name] = select(test, consolidated(first), consolidated(second))
        run.context = before
        if all(end is None for end in ends):
            return _FINISHED if returns else None
        if any(end is None or end.kind != "return" or end.value is None for end in ends):
            raise Untraceable("a branch that leaves a loop depends on a value that is not constant")
        return EarlyExit("return", select(test, *(end.value for end in ends)))  # type: ignore[union-attr, arg-type]

    def _declare(self, node: tree.Declare, frame: Frame, run: Run) -> None:
        if node.name in run.frozen:
            return
        frame[node.name] = run.count_entries(self.declared(node, frame, run))

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
        value = self.value(node.value, frame, run)
        if value.shape != shape:
            raise StanError(
                f"{node.name} is declared with shape {shape} but assigned a {value.words} of shape {value.shape}"
            )
        return writable_copy(as_declared(value, base)).with_taint(run.context)

    def _assign(self, node: tree.Assign, frame: Frame, run: Run) -> None:
        if run.frozen and tree.assigned_in(node) <= run.frozen:
            return
        if node.op != "=":
            value = binary(node.op[:-1], self.value(node.assigned, frame, run), self.value(node.value, frame, run))
        else:
            value = self.value(node.value, frame, run)
        nodes: list[tree.IndexNode] = []
        assigned = node.assigned
        while isinstance(assigned, tree.Index):
            nodes[:0] = assigned.indices
            assigned = assigned.container
        if not isinstance(assigned, tree.VariableName):
            raise StanError("only variables and their elements can be assigned")
        variable = frame.get(assigned.name)
        if variable is None:
            raise StanError(f"there is no variable {assigned.name}")
        if isinstance(variable, Slot):
            variable.row = self._assigned(variable.row, tuple(nodes[variable.consumed :]), value, frame, run)
        else:
            frame[assigned.name] = self._assigned(variable, tuple(nodes), value, frame, run)

    def _assigned(self, variable: V, nodes: tuple[tree.IndexNode, ...], value: V, frame: Frame, run: Run) -> V:
        if not nodes:
            if variable.shape != value.shape:
                raise StanError(f"a value of shape {value.shape} is assigned to a variable of shape {variable.shape}")
            if variable.base == "int" and value.base != "int":
                raise StanError(f"a {value.words} is assigned to an integer")
            return writable_copy(
                V(variable.base, value.a, variable.depth, value.tainted or run.context, value.iterations)
            )
        return assign_at(variable, self.indices(nodes, variable, frame, run), value, run.context)

    def _increment(self, node: tree.Increment, frame: Frame, run: Run) -> None:
        """Numbers that are summed are terms of their own: one may depend on a record, and another not."""
        parts = [self.value(part, frame, run) for part in summands(node.value)]
        for value in parts if all(v.scalar for v in parts) else [reduce(partial(binary, "+"), parts)]:
            self.add(node, value, run)

    def add(self, node: tree.Node, value: V, run: Run) -> None:
        run.terms.append((node.position[0], xp_of(value.a).sum(value.a), value.tainted or run.context))

    def _tilde(self, node: tree.Tilde, frame: Frame, run: Run) -> None:
        y = self.value(node.variate, frame, run)
        args = [self.value(a, frame, run) for a in node.args]
        tainted = y.tainted or any(a.tainted for a in args)
        defined = [node.name + suffix for suffix in densities.SUFFIXES if node.name + suffix in self.functions]
        if defined:
            density = self.call_defined(defined[0], [y, *args], run).a
        elif densities.known(node.name):
            density = densities.log_density(node.name, [y, *args])
        else:
            raise StanError(f"there is no density {node.name}")
        if node.truncated:
            low, high = (None if bound is None else self.value(bound, frame, run) for bound in (node.low, node.high))
            tainted |= any(bound is not None and bound.tainted for bound in (low, high))
            density = density - densities.truncation(node.name, y, args, low, high)
            density = jnp.where(densities.outside(y, low, high), -jnp.inf, density)
        self.add(node, V("real", density, 0, tainted), run)

    def _for(self, node: tree.For, frame: Frame, run: Run) -> EarlyExit | None:
        if node.high is None:
            over = self.value(node.low, frame, run)
            items = [index(over, [whole(i + 1)]) for i in range(over.shape[0] if over.shape else 1)]
            return self.repeat(node, items, over.tainted, frame, run)
        low, high = (self.value(n, frame, run) for n in (node.low, node.high))
        if self.loop(self, node, low, high, frame, run):
            return None
        first, last = loop_bounds(low, high)
        tainted = low.tainted or high.tainted
        items = [V("int", i, 0, False) for i in range(first, last + 1)]
        return self.repeat(node, items, tainted, frame, run)

    def repeat(self, node: tree.For, items: list[V], tainted: bool, frame: Frame, run: Run) -> EarlyExit | None:
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

    def _while(self, node: tree.While, frame: Frame, run: Run) -> EarlyExit | None:
        before = run.context
        end = None
        while end is None or end.kind == "continue":
            test = self.value(node.test, frame, run)
            test = known_test(test)
            if not test.known:
                raise Untraceable("how often a loop runs depends on what is not a constant")
            run.context = run.context or test.tainted
            if not test.a:
                break
            end = self.statement(node.body, frame, run)
        run.context = before
        return end if end is not None and end.kind == "return" else None

    def _block(self, node: tree.Block, frame: Frame, run: Run) -> EarlyExit | None:
        return self.block(node.body, frame, run)

    def _return(self, node: tree.Return, frame: Frame, run: Run) -> EarlyExit:
        if node.value is None:
            return EarlyExit("return")
        return EarlyExit("return", self.value(node.value, frame, run).with_taint(run.context))

    def _jump(self, node: tree.Jump, frame: Frame, run: Run) -> EarlyExit:
        return EarlyExit("break" if node.is_break else "continue")

    def _message(self, node: tree.Message, frame: Frame, run: Run) -> None:
        if node.rejects and run.unsure:  # where it comes to that, nothing is possible
            run.terms.append((node.position[0], jnp.asarray(-jnp.inf), run.context))
        elif node.rejects and not run.context:
            raise StanError("the program rejects")

    def _call_statement(self, node: tree.CallStatement, frame: Frame, run: Run) -> None:
        self.value(node.call, frame, run)

    _STATEMENTS: ClassVar[dict[type[tree.Statement], Callable[..., EarlyExit | None]]] = {
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


def summands(node: tree.Expression) -> list[tree.Expression]:
    """The parts of a sum."""
    if isinstance(node, tree.Binary) and node.op == "+":
        return [*summands(node.left), *summands(node.right)]
    return [node]


Loop = Callable[[Expressions, tree.For, V, V, Frame, Run], bool]
"""Runs a loop between two bounds as a whole where that pays; whether it did."""


def in_order(*_: object) -> bool:
    """A `Loop` that runs none as a whole: what a later iteration does may depend on what an earlier one drew."""
    return False
