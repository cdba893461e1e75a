"""Records with responses that the program predicts.

Densities of fields are drawn from, in the order in which the model block comes to them. That is possible where every
term of a record is the density of a field given what was drawn before it, as in `y ~ normal(mu, sigma)` and in
`target += normal_lpdf(y | mu, sigma)`. Of a mixture, as `log_mix(p, normal_lpdf(y | a, s), normal_lpdf(y | b, s))`, a
component is drawn and then the field. Truncated and censored responses, and densities that the program defines are not
drawn from.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import random

from bayesrecon.model import Params, Records
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.density_visitor import DensityVisitor
from bayesrecon.models.stan.frame import Frame, Run, fork
from bayesrecon.models.stan.machine import StanMachine, summands
from bayesrecon.models.stan.named_densities import density_of_call
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.samplers import sample
from bayesrecon.models.stan.values import Elements, StanError, V

Places = tuple[int | None, ...]
"""Indices of an element of a field, from one; None for several or unknown ones, and empty for the whole field."""


class _Drawing(DensityVisitor):
    """Draws the fields that it comes to.

    Args:
        fields: names of what may be drawn.
        key: key of the random numbers.
    """

    def __init__(self, record: StanMachine, fields: frozenset[str], key: jax.Array):
        super().__init__(record)
        self._fields, self._key = fields, key
        self.drawn: list[tuple[str, Places]] = []

    def _response(self, node: tree.Expression) -> str | None:
        variate = node.container if isinstance(node, tree.Index) else node
        return variate.name if isinstance(variate, tree.VariableName) and variate.name in self._fields else None

    def visit_density(
        self, name: str, variate: tree.Expression, args: tuple[tree.Expression, ...], frame: Frame, run: Run
    ) -> bool:
        """A draw comes in place of the field, or of an element of it."""
        field = self._response(variate)
        if field is None:
            return False
        indices = variate.indices if isinstance(variate, tree.Index) else ()
        places = tuple(self._place(i, frame, run) for i in indices)
        if any(drawn_field == field and (not places or not at or at == places) for drawn_field, at in self.drawn):
            raise StanError(f"{field} has two densities")
        self.drawn.append((field, places))
        y, values = self.value(variate, frame, run), [self.value(a, frame, run) for a in args]
        new = sample(name, y, values, random.fold_in(self._key, len(self.drawn)))
        new = new if y.base == "int" else jnp.asarray(new, float)
        frame[field] = self._assigned(frame[field], indices, V(y.base, new, y.depth, True), frame, run)
        return True

    def visit_mixture(self, call: tree.Call, frame: Frame, run: Run) -> bool:
        """A draw of one of the components."""
        shares = self._shares(call, frame, run)
        if shares is None:
            return False
        before, after, frames = list(self.drawn), [], []
        for _, density in shares:
            self.drawn, component = list(before), fork(frame)
            if not self.visit_density(
                str(density_of_call(density.name)), density.args[0], density.args[1:], component, run
            ):
                raise StanError("a component of a mixture is not the density of a field")
            after.append(self.drawn)
            frames.append(component)
        field, _ = after[0][-1]
        key = random.fold_in(random.fold_in(self._key, 0), len(after[0]))  # keys of fields count from 1
        if any(drawn != after[0] for drawn in after):
            raise StanError("the components of a mixture are densities of several fields")
        selected = random.categorical(key, jnp.stack([jnp.asarray(share, float) for share, _ in shares]))
        variable = frames[0][field]
        frame[field] = V(
            variable.base, jnp.stack([jnp.asarray(f[field].a) for f in frames])[selected], variable.depth, True
        )
        return True

    def _shares(self, call: tree.Call, frame: Frame, run: Run) -> list[tuple[Elements, tree.Call]] | None:
        """Logarithms of the shares of components, with the densities of these; None if it is no such mixture."""
        parts = call.args
        if call.name == "log_mix" and len(parts) == 3:
            share, parts = jnp.asarray(self.value(parts[0], frame, run).a, float), parts[1:]
            weights = [jnp.log(share), jnp.log1p(-share)]
        else:
            weights = [jnp.zeros(()) for _ in parts]
        shares = []
        for weight, part in zip(weights, parts, strict=True):
            terms = summands(part)
            densities = [
                t for t in terms if isinstance(t, tree.Call) and density_of_call(t.name) and self._response(t.args[0])
            ]
            if len(densities) != 1 or densities[0].name in self.functions:
                return None
            shares.append(
                (sum((self.value(t, frame, run).a for t in terms if t is not densities[0]), start=weight), densities[0])
            )
        return shares if len(shares) > 1 else None

    def _place(self, node: tree.IndexNode, frame: Frame, run: Run) -> int | None:
        if node is None or isinstance(node, tree.Range):
            return None
        position = self.value(node, frame, run)
        if not position.known:
            raise StanError("the index of a response is not constant")
        return int(position.a) if position.scalar else None


def simulation(parts: Parts, params: Params) -> Callable[[Params, Records, jax.Array], Records] | None:
    """`(params, records, key) -> records` with the fields drawn that the program has a density for, None if a term
    of a record is something else.

    Args:
        params: any, to try it on.
    """
    fields = frozenset(parts.columns)

    def simulate_record(params: Params, record: Records, key: jax.Array) -> Records:
        machine = _Drawing(parts.record, fields, key)
        frame, run = parts.run_record(params, record, machine, Run(selects=False))
        if not machine.drawn or any(tainted for *_, tainted in run.terms):
            raise StanError("a term of the record is not the density of a field")
        new = {name for name, _ in machine.drawn}
        return {**record, **{name: parts.field_of(name, frame[name], record[name]) for name in new}}

    def simulate(params: Params, records: Records, key: jax.Array) -> Records:
        count = len(next(iter(records.values())))
        return jax.vmap(simulate_record, (None, 0, 0))(params, records, jax.random.split(key, count))

    try:
        blank = {k: jnp.asarray(v) for k, v in parts.blank(1, 0).items()}
        jax.eval_shape(simulate, params, blank, jax.random.key(0))
    except (StanError, TypeError, ValueError):
        return None
    return simulate
