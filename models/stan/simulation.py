"""Records with responses that the program predicts.

Densities of fields are drawn from, in the order in which the model block comes to them. That is possible where every
term of a record is the density of a field given what was drawn before it, as in `y ~ normal(mu, sigma)` and in
`target += normal_lpdf(y | mu, sigma)`. Mixtures, truncated and censored responses, and densities that the program
defines are not drawn from.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.model import Params, Records
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.densities_met import Meeting
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.machine import Machine
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.samplers import drawn
from bayesrecon.models.stan.values import StanError, V


class _Drawing(Meeting):
    """Draws the fields that it comes to.

    Args:
        fields: names of what may be drawn.
        key: of the random numbers.
    """

    def __init__(self, record: Machine, fields: frozenset[str], key: Any):
        super().__init__(record)
        self._fields, self._key = fields, key
        self.done: list[tuple[str, Any]] = []

    def _response(self, node: Any) -> str | None:
        of = node.of if isinstance(node, tree.Index) else node
        return of.name if isinstance(of, tree.Variable) and of.name in self._fields else None

    def met(self, name: str, of: Any, args: tuple[Any, ...], frame: Frame, run: Run) -> bool:
        """A draw comes in the place of the field, or of an entry of it."""
        field = self._response(of)
        if field is None:
            return False
        indices = of.indices if isinstance(of, tree.Index) else ()
        places = tuple(self._place(i, frame, run) for i in indices)
        if any(one == field and (not places or not at or at == places) for one, at in self.done):
            raise StanError(f"{field} has two densities")
        self.done.append((field, places))
        y, values = self.value(of, frame, run), [self.value(a, frame, run) for a in args]
        new = drawn(name, y, values, jax.random.fold_in(self._key, len(self.done)))
        new = new if y.base == "int" else jnp.asarray(new, float)
        frame[field] = self._assigned(frame[field], indices, V(y.base, new, y.depth, True), frame, run)
        return True

    def _place(self, node: Any, frame: Frame, run: Run) -> Any:
        if node is None or isinstance(node, tree.Range):
            return None
        found = self.value(node, frame, run)
        if not found.known:
            raise StanError("which entry a response is depends on what is not a constant")
        return int(found.a) if found.scalar else None


def simulation(parts: Parts, params: Params) -> Callable[[Params, Records, Any], Records] | None:
    """`(params, records, key) -> records` with the fields drawn that the program has a density for, None where a term
    of a record is something else.

    Args:
        params: any, to try it on.
    """
    fields = frozenset(parts.columns)

    def one(params: Params, record: Records, key: Any) -> Records:
        machine = _Drawing(parts.record, fields, key)
        frame, run = parts.run_record(params, record, machine, Run(selects=False))
        if not machine.done or any(tainted for *_, tainted in run.terms):
            raise StanError("a term of the record is no density of a field")
        new = {name for name, _ in machine.done}
        return {**record, **{name: parts.field_of(name, frame[name], record[name]) for name in new}}

    def simulate(params: Params, records: Records, key: Any) -> Records:
        count = len(next(iter(records.values())))
        return jax.vmap(one, (None, 0, 0))(params, records, jax.random.split(key, count))

    try:
        blank = {k: jnp.asarray(v) for k, v in parts.blank(1, 0).items()}
        jax.eval_shape(simulate, params, blank, jax.random.key(0))
    except (StanError, TypeError, ValueError):
        return None
    return simulate
