"""A run of a model block that visits its densities, both sampling statements and terms of the target."""

from collections.abc import Callable
from typing import ClassVar

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import EarlyExit, Frame, Run
from bayesrecon.models.stan.machine import StanMachine, in_order, summands
from bayesrecon.models.stan.named_densities import density_of_call, known

MIXTURES = ("log_mix", "log_sum_exp")
"""Functions that mix densities."""


class DensityVisitor(StanMachine):
    """Runs the statements that a record affects, with loops in order.

    `y ~ name(...)`, and `name_lpdf(y | ...)` in a sum that is added to the target, are passed to `visit_density`.
    Mixtures in such a sum are passed to `visit_mixture`. Truncated densities, densities defined in the program and all
    other statements run unchanged.
    """

    def __init__(self, record: StanMachine):
        super().__init__(record.program, record.higher, in_order)

    def visit_density(
        self, name: str, variate: tree.Expression, args: tuple[tree.Expression, ...], frame: Frame, run: Run
    ) -> bool:
        """Whether the density was handled; if not, it is added to the target.

        Args:
            name: its name in Stan, without a suffix.
            variate, args: nodes of its variate and of its parameters.
        """
        raise NotImplementedError

    def visit_mixture(self, call: tree.Call, frame: Frame, run: Run) -> bool:
        """Whether the mixture of densities was handled; if not, it is added to the target."""
        return False

    def _tilde(self, node: tree.Tilde, frame: Frame, run: Run) -> None:
        unknown = node.truncated or not known(node.name) or node.name in self.functions
        if unknown or not self.visit_density(node.name, node.variate, node.args, frame, run):
            super()._tilde(node, frame, run)

    def _increment(self, node: tree.Increment, frame: Frame, run: Run) -> None:
        for part in summands(node.value):
            if not (
                isinstance(part, tree.Call) and part.name not in self.functions and self._visited(part, frame, run)
            ):
                self.add(node, self.value(part, frame, run), run)

    def _visited(self, call: tree.Call, frame: Frame, run: Run) -> bool:
        if call.name in MIXTURES and self.visit_mixture(call, frame, run):
            return True
        name = density_of_call(call.name)
        return name is not None and self.visit_density(name, call.args[0], call.args[1:], frame, run)

    _STATEMENTS: ClassVar[dict[type[tree.Statement], Callable[..., EarlyExit | None]]] = {
        **StanMachine._STATEMENTS,
        tree.Tilde: _tilde,
        tree.Increment: _increment,
    }
