"""The response of a known instance, from how much its deletion changed the model's prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PUBLIC, X
from bayesrecon.games.answers import VALUES
from bayesrecon.games.data import with_ones
from bayesrecon.games.reconstructor import Guess, Reconstructor
from bayesrecon.games.view import View


@dataclass(frozen=True)
class KnownInstance(Reconstructor):
    """Ins-Rev-LabelChange-Rec (Gao et al. 2022, appendix C.3): `y = h(x) + lambda (h(x) - h'(x))`.

    For least squares `h(x) - h'(x) = r l / (1 - l)`, where r is the residual of h and l the leverage of x. The response
    is exact for `lambda = (1 - l) / l`, which differs between instances. With public records instead of the private
    ones, `l = (x, 1)' [ (n / m) sum_public (x_i, 1) (x_i, 1)' ]^-1 (x, 1)`.

    Attributes:
        factor: lambda, a constant as published. None computes it from the leverage, which needs public records.
    """

    needs: ClassVar[tuple[str, ...]] = (X,)
    factor: float | None = None

    @property
    def name(self) -> str:
        return f"known instance, lambda {'by leverage' if self.factor is None else f'{self.factor:g}'}"

    def required(self) -> tuple[str, ...]:
        """Also public records, if the leverage is estimated."""
        return (X, PUBLIC) if self.factor is None else (X,)

    def guesses(self, view: View) -> Sequence[Guess | None]:
        if view.answers != VALUES:
            raise BayesreconError("KnownInstance is for regressions; for classes use DeletedLabel")
        before = view.ask.before(view.features)
        after = view.ask.after(view.features)
        factor = self._by_leverage(view) if self.factor is None else self.factor
        return [Guess(y=float(y)) for y in before + factor * (before - after)]

    def _by_leverage(self, view: View) -> np.ndarray:
        public = with_ones(view.auxiliary.x)
        moment = public.T @ public * (view.total / len(public))
        x = with_ones(view.features)
        try:
            leverage = np.einsum("kq,qk->k", x, np.linalg.solve(moment, x.T))
        except np.linalg.LinAlgError:
            raise BayesreconError("too few or collinear public records to estimate leverages; set factor=") from None
        return (1 - leverage) / leverage
