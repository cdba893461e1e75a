"""The membership game: was this record in the training data? It measures membership attacks."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import Oracles, View
from bayesrecon.games.data import Data
from bayesrecon.games.learner import as_learner
from bayesrecon.games.membership import Membership
from bayesrecon.games.outcome import Played, compared, generator, rate_row
from bayesrecon.results.game import GameResult


@dataclass(frozen=True, eq=False)
class MembershipGame:
    """The membership game (Shokri et al. 2017; Yeom et al. 2018).

    A round trains h on S and shows an attack as many records from S as from outside. The attack calls each "in" or
    "out". Success is the share of correct calls. Guessing succeeds with probability 1/2.

    Attributes:
        data: sampler of data sets.
        learner: what is trained.
        attacks: membership attacks. All of them see the same records.
        records: number of records of either kind in a round.
        auxiliary: number of records outside S that the attacks hold, other than those that are shown; None for all.

    >>> from bayesrecon.games import Law, Neighbours, ShadowModels, TwoNormals, play
    >>> game = MembershipGame(Law("two normals", TwoNormals(), 2, size=60), Neighbours(1), (ShadowModels(2),))
    >>> play(game, 20, workers=1).rows[0].success.lower > 0.5
    True
    """

    data: Data
    learner: Any
    attacks: Any
    records: int = 20
    auxiliary: int | None = None
    name: str = "membership"
    quick: bool = False

    def __post_init__(self) -> None:
        attacks = (self.attacks,) if isinstance(self.attacks, Membership) else tuple(self.attacks)
        object.__setattr__(self, "attacks", attacks)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        if not attacks or not all(isinstance(attack, Membership) for attack in attacks):
            raise BayesreconError("a membership game needs membership attacks: bayesrecon.games.LossThreshold(), ...")
        if self.records < 1 or (self.auxiliary is not None and self.auxiliary < 1):
            raise BayesreconError(f"records={self.records}, auxiliary={self.auxiliary}: expected one or more of each")

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """Correct, undecided, wrong, and undecided calls that the coin made correct, `(attacks, 4)`."""
        rng = generator(seed, number)
        private, outside = self.data.draw(rng)
        k, spare = self.records, rng.permutation(len(outside.y))
        public = outside.rows(spare[k:] if self.auxiliary is None else spare[k : k + self.auxiliary])
        if len(private.y) < k or len(public.y) < max(self.auxiliary or 1, 1):
            raise BayesreconError(
                f"{self.data.name}: too few records for {k} members, {k} non-members and the auxiliary records"
            )
        members, nonmembers = private.rows(rng.choice(len(private.y), k, replace=False)), outside.rows(spare[:k])
        x, y = np.concatenate([members.x, nonmembers.x]), np.concatenate([members.y, nonmembers.y])
        out = np.arange(2 * k) >= k
        model = self.learner.fit(private, self.data.classes, int(rng.integers(2**31)))
        counts = []
        for attack in self.attacks:
            coins = generator(seed, number, attack.name)
            view = View(
                Oracles(model, model), x, y, self.data.classes, self.learner.answers, public, None, None, self.learner,
                len(private.y), coins,
            )  # fmt: skip
            called_out = attack.prepare(view)(model(x))
            counts.append(compared(np.where(out, called_out, 1 - called_out), 0.5, coins))
        return np.stack(counts)

    def result(self, outcomes: np.ndarray, **played: Unpack[Played]) -> GameResult:
        """The result of the rounds `(N, attacks, 4)`."""
        rows = tuple(
            rate_row(attack.name, "answers", outcomes[:, i], len(self.attacks)) for i, attack in enumerate(self.attacks)
        )
        return GameResult(
            rows=rows, outcomes=outcomes, game=self.name, data=self.data.name, learner=self.learner.name,
            variant=f"membership, {self.records} members and as many others a round", claimed_epsilon=None, **played,
        )  # fmt: skip
