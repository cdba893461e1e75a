"""Which Stan programs are Gaussian linear regressions.

Location and scale of the one normal term of a record are read off as the model block comes to it; what these are of the
parameters is read off their operations (`bayesrecon.models.recognition`).
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.model import GaussianPredictor, Model, Params, Records
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.machine import Machine, in_order, summands
from bayesrecon.models.stan.named_densities import density_of_call
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.values import StanError, V

_RECORDS = 3  # on which a program is looked at


class _Reading(Machine):
    """Runs the model block of one record, and keeps its normal terms in the place of adding them."""

    def __init__(self, record: Machine):
        super().__init__(record.program, record.higher, in_order)
        self.terms: list[tuple[Any, Any, Any]] = []

    def _normal(self, name: str | None, args: tuple[Any, ...], frame: Frame, run: Run) -> bool:
        """Whether this was the normal density of something of the record."""
        if name not in ("normal", "normal_id_glm") or name in self.functions:
            return False
        y, *rest = (self.value(a, frame, run) for a in args)
        if not y.tainted:
            return False
        if name == "normal_id_glm":
            x, alpha, beta, scale = rest
            rows = jnp.asarray(x.a, float)
            location: Any = alpha.a + (rows[None] if x.base == "row_vector" else rows) @ beta.a
        else:
            location, scale = rest[0].a, rest[1]
        self.terms.append((location, scale.a, y.a))
        return True

    def _tilde(self, node: tree.Tilde, frame: Frame, run: Run) -> None:
        if node.truncated or not self._normal(node.name, (node.of, *node.args), frame, run):
            super()._tilde(node, frame, run)

    def _increment(self, node: tree.Increment, frame: Frame, run: Run) -> None:
        for part in summands(node.value):
            name = density_of_call(part.name) if isinstance(part, tree.Call) else None
            if not self._normal(name, part.args if isinstance(part, tree.Call) else (), frame, run):
                value: V = self.value(part, frame, run)
                self.add(node, value, run)

    _STATEMENTS: ClassVar[dict[type, Any]] = {**Machine._STATEMENTS, tree.Tilde: _tilde, tree.Increment: _increment}


def linear_form(parts: Parts, model: Model) -> GaussianPredictor | None:
    """What the likelihood of a program is made of when it is a Gaussian linear regression, None where it is none."""

    def one(params: Params, record: Records) -> tuple[Any, Any, Any]:
        machine = _Reading(parts.record)
        _, run = parts.run_record(params, record, machine, Run(selects=False))
        if len(machine.terms) != 1 or any(tainted for *_, tainted in run.terms):
            raise StanError("a record has other terms than one normal density")
        if any(np.size(a) != 1 for a in machine.terms[0]):
            raise StanError("a record has several responses")
        location, scale, value = (jnp.reshape(jnp.asarray(a, float), ()) for a in machine.terms[0])
        return location, scale, value

    def response(params: Params, records: Records) -> tuple[Any, Any, Any]:
        return jax.vmap(one, (None, 0))(params, {k: jnp.asarray(v) for k, v in records.items()})

    try:
        return gaussian_predictor(model, response, model.constrain(np.zeros(model.dimension)), parts.blank(_RECORDS, 0))
    except (StanError, TypeError, ValueError):
        return None
