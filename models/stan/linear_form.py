"""Which Stan programs are Gaussian linear regressions.

Location and scale of the one normal term of a record are recorded when the model block reaches it; their
dependence on the parameters is read from their operations (`bayesrecon.models.recognition`).
"""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.model import GaussianPredictor, Model, Params, Records
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.density_visitor import DensityVisitor
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.named_densities import linear_predictor
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.values import Elements, StanError

_RECORDS = 3  # on which a program is looked at


class _Reading(DensityVisitor):
    """Keeps normal terms of the record in place of adding them."""

    def __init__(self, record: StanMachine):
        super().__init__(record)
        self.terms: list[tuple[Elements, Elements, Elements]] = []

    def visit_density(
        self, name: str, variate: tree.Expression, args: tuple[tree.Expression, ...], frame: Frame, run: Run
    ) -> bool:
        if name not in ("normal", "normal_id_glm"):
            return False
        y, *values = (self.value(a, frame, run) for a in (variate, *args))
        if not y.tainted:
            return False
        location = values[0].a if name == "normal" else linear_predictor(*values[:3]).a
        self.terms.append((location, values[-1].a, y.a))
        return True


def linear_form(parts: Parts, model: Model) -> GaussianPredictor | None:
    """The linear form of a program that is a Gaussian linear regression; None for other programs."""

    def record_response(params: Params, record: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        machine = _Reading(parts.record)
        _, run = parts.run_record(params, record, machine, Run(selects=False))
        if len(machine.terms) != 1 or any(tainted for *_, tainted in run.terms):
            raise StanError("a record has terms other than one normal density")
        if any(np.size(a) != 1 for a in machine.terms[0]):
            raise StanError("a record has several responses")
        location, scale, value = (jnp.reshape(jnp.asarray(a, float), ()) for a in machine.terms[0])
        return location, scale, value

    def response(params: Params, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        return jax.vmap(record_response, (None, 0))(params, {k: jnp.asarray(v) for k, v in records.items()})

    try:
        return gaussian_predictor(model, response, model.constrain(np.zeros(model.dimension)), parts.blank(_RECORDS, 0))
    except (StanError, TypeError, ValueError):
        return None
