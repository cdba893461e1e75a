"""`HRec`: the deleted record, from two trained parameters and public records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import jax

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.deletion.deleted import Improvements
from bayesrecon.attacks.deletion.general import reconstruct_general
from bayesrecon.attacks.deletion.inversion import Embedding
from bayesrecon.attacks.deletion.prepared import PreparedHRec
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress
from bayesrecon.pairs import Deletion, TrainedPair
from bayesrecon.results.deletion import DeletedRecord


@dataclass(frozen=True, eq=False)
class HRec(Attack[DeletedRecord]):
    """The deleted record, from two trained parameters. Public records replace the private ones in the Hessian.

    The model is taken from the pair. Whatever is computed from the public records is cached, so that one object can be
    reused for any number of deletions. `total` is the number of private records. By default it is taken to be the
    number of public records. A model without a linear predictor (for example from `models.from_loss`) needs public
    records with all fields. Of the `Improvements`, only `path` applies to such a model. Turn `path` off if the release
    is a Newton step.

    >>> from sklearn.linear_model import Ridge
    >>> import bayesrecon, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = x @ [1.0, 2.0, 0.0] + 0.1 * x[:, 0] ** 2
    >>> trained = [bayesrecon.posteriors.from_sklearn(Ridge(1.0).fit(x[i:200], y[i:200])) for i in (0, 1)]
    >>> attack = HRec(public={"x": x[200:], "y": y[200:]})
    >>> found = bayesrecon.reconstruct(bayesrecon.deletion(*trained), attack=attack).record["x"]
    >>> bool(found @ x[0] > 0.9 * np.linalg.norm(found) * np.linalg.norm(x[0]))
    True
    """

    name: ClassVar[str] = "hrec"
    summary: ClassVar[str] = "the record deleted between two trained parameters, from public records"
    takes: ClassVar[tuple[type, ...]] = (TrainedPair,)
    uses: ClassVar[tuple[str, ...]] = ("total",)

    public: Mapping[str, jax.Array] | None = option(
        None, "Public records {x: (m, p), y: (m,)} from the same distribution; labels (y) fit the temperature."
    )
    improvements: Improvements = option(
        Improvements(), "Improvements over the published method; Improvements.none() is the published one."
    )
    embedding: Embedding | None = option(
        None, "Function from records to the model's features, in jax.numpy; it is inverted to find the record."
    )
    _prepared: dict[tuple[Model, float | None], "PreparedHRec"] = field(default_factory=dict, init=False, repr=False)

    def prepare(self, model: Model, total: float | None = None) -> "PreparedHRec":
        """Compute once what all deletions from one model share.

        Raises:
            BayesreconError: there are no public records, their columns are not those of the model, or the model has no
                linear predictor.
        """
        if self.public is None:
            raise BayesreconError(
                "trained parameters need public records to estimate the private Hessian: attack=HRec(public={...})"
            )
        if (model, total) not in self._prepared:
            self._prepared[model, total] = PreparedHRec(model, self.public, total, self.improvements, self.embedding)
        return self._prepared[model, total]

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        model, total = release.before.model, knows.get("total")
        if model.linear is not None:
            return self.prepare(model, total).deleted(release)
        if self.public is None or self.embedding is not None:
            raise BayesreconError(
                f"{model.name} has no linear predictor: HRec needs public records with all fields, and no embedding"
            )
        return reconstruct_general(release, self.public, total, path=self.improvements.path)


ATTACK = HRec
