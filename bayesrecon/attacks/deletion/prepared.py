"""One deleted record from a trained linear predictor before and after (Bertran et al. 2024), and what improves on it.

With H minus the Hessian of the log posterior, averaged along the way from theta- to theta+,

    H (theta+ - theta-) = grad l(theta, x) = s (x, 1)'

exactly. H is the private data's; public records stand in for it, `G = (n / m) sum_public kappa_i (x_i, 1)' + penalty U`
with `U = theta+ - theta-` and `kappa_i = -h''(eta_i) U (x_i, 1)`. The published method divides the label's row of G by
its intercept. Public records were not trained on, and trained parameters are too sure of themselves there; see
`trained_on` for what makes up for both. What is left of the error is `sum_i kappa_i (x_i, 1)'` over a sample: a common
multiple of the mean record, which all but hides in the intercept, and a rest. Without the mean record's share, G shows
s as its leading direction.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.baselines import changed_most
from bayesrecon.attacks.deletion.cautions import cautions_about, notes_of
from bayesrecon.attacks.deletion.certainty import certainty
from bayesrecon.attacks.deletion.checked_inputs import beside_one, parameters_of, public_records
from bayesrecon.attacks.deletion.curvature import NODES
from bayesrecon.attacks.deletion.deleted import Deleted, Improvements
from bayesrecon.attacks.deletion.inversion import Embedding, embed, invert_embedding
from bayesrecon.attacks.deletion.trained_on import TrainedOn
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.outer_products import (
    bends,
    curvatures,
    design,
    label_of,
    penalty_of,
    predictor_of,
    slopes,
)
from bayesrecon.model import Model, Records
from bayesrecon.pairs import Deletion
from bayesrecon.precision import in_float64
from bayesrecon.results.deletion import DeletedRecord, Inversion

_MOST = 1500  # public records that the degrees of freedom are estimated with
_ONE_STEP = 1e-6  # share of a change beside one record's gradient, up to which it is one: rounding leaves less


class PreparedHRec:
    """HRec with its public records, used on any number of deletions from one model.

    Args:
        model: model of both releases; needs a linear predictor.
        public: `{"x": (m, p), "y": (m,)}` records from the same distribution. Labels are needed for
            shrinkage, and by losses whose curvature depends on them (a squared hinge).
        total: n, the number of private records; as many as public ones by default.
        improvements: what is added to the published method.
        embedding: embedding of the records that the model's features are, `(p0,) -> (p,)` in `jax.numpy`. Public
            records are then given as `(m, p0)`; the attack recovers features, and `invert` what had them.
    """

    @in_float64
    def __init__(
        self,
        model: Model,
        public: Mapping[str, Array],
        total: float | None,
        improvements: Improvements,
        embedding: Embedding | None,
    ):
        self.model, self.linear = model, predictor_of(model)
        self.use, self.embedding = improvements, embedding
        if embedding is not None and self.linear.x in public:
            self.raw = np.asarray(public[self.linear.x], float)
            public = {**public, self.linear.x: embed(embedding, np.atleast_2d(self.raw))}
        self.x, self.y = public_records(model, public)
        self.design = design(model, self.x)
        self.count = float(len(self.x) if total is None else total)
        if not self.count > 0:
            raise BayesreconError(f"total={total}: the number of private records is positive")
        self.penalty = penalty_of(model)
        self._kept: tuple[np.ndarray, TrainedOn] | None = None
        self._steepest: tuple[np.ndarray, float] | None = None

    @cached_property
    def labels(self) -> np.ndarray:
        """What stands in for labels where the curvature does not depend on them."""
        if self.y is not None:
            return self.y
        if self.linear.loss == "squared_hinge":
            raise BayesreconError("the curvature of a squared hinge depends on labels: the public records need y")
        shape = (len(self.x), len(self.penalty)) if self.linear.loss == "squared" else (len(self.x),)
        return np.zeros(shape, float if self.linear.loss == "squared" else int)

    @in_float64
    def trained_on(self, at: np.ndarray) -> TrainedOn | None:
        """What public records would contribute at this parameter had they been trained on; None without labels.

        It is kept as long as the parameter stays the same.
        """
        if self.y is None or self.linear.loss == "squared":
            return None
        if self._kept is None or not np.array_equal(self._kept[0], at):
            penalty = np.median(self.penalty[:, : self.x.shape[1]], axis=1)
            found = TrainedOn(
                self.linear, self.design, self.y, at, count=self.count, penalty=penalty, moments=self._moments
            )
            self._kept = at, found
        return self._kept[1]

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return self.x.min(axis=0), self.x.max(axis=0)

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.einsum("mp,mp->m", self.x, self.x)

    @cached_property
    def _moments(self) -> np.ndarray:
        """The eigenvalues of `(x, 1)'(x, 1) / m`."""
        some = self.design[:: -(-len(self.x) // _MOST)]
        small = some @ some.T if len(some) < some.shape[1] else some.T @ some
        return np.asarray(np.maximum(np.linalg.eigvalsh(small), 0.0) / len(some))

    @cached_property
    def optimism(self) -> float:
        """`1 - df / n` of least squares: `df = sum e / (e + penalty / (1 - df / n))`, e the Hessian's eigenvalues."""
        penalty = float(np.median(self.penalty[:, : self.x.shape[1]]))
        if penalty <= 0:
            return max(1 - self.design.shape[1] / self.count, 0.05)
        values = self._moments * self.count
        share = 1.0
        for _ in range(100):
            share = max(1 - float((share * values / (share * values + penalty)).sum()) / self.count, 0.05)
        return share

    def gradient(
        self, before: np.ndarray, after: np.ndarray, shrinkage: bool | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The deleted record's gradient `(K, q)` and the public records' kappa `(m, K)`."""
        shrinkage = self.use.shrinkage if shrinkage is None else shrinkage
        change = before - after
        predicted = self.design @ change.T
        curved = self.use.path and self.linear.loss != "squared"
        at = [after + t * change for t in NODES] if curved else [before]
        own = self.trained_on(before) if shrinkage else None
        kappa = np.zeros_like(predicted)
        for weights in at:
            eta = self.design @ weights.T
            curvature = (
                bends(self.linear, eta, self.labels, predicted) if own is None else own.contributions(eta, predicted)
            )
            kappa += np.asarray(curvature) / len(at)
        if shrinkage and self.linear.loss == "squared":
            kappa *= self.optimism
        found = kappa.T @ self.design * (self.count / len(self.x))
        return (found + self.penalty * change if self.use.regulariser else found), kappa

    @in_float64
    def curvatures(self, before: np.ndarray, theta: np.ndarray) -> Float[np.ndarray, "m K K"]:
        """What public records contribute to the Hessian at a parameter near the first one, `(m, K, K)`."""
        own, eta = self.trained_on(before), self.design @ theta.T
        if own is not None:
            return own.curvatures(eta)
        curvature = np.asarray(curvatures(self.linear, eta, self.labels))
        return curvature * self.optimism if self.linear.loss == "squared" else curvature

    def error_of_slopes(self, kappa: np.ndarray) -> np.ndarray:
        """Covariance `A (K, K)` of the intercepts' estimated gradient, `n (1 + n / m) mean(kappa kappa')`: public and
        private records both are samples."""
        return kappa.T @ kappa * (self.count * (1 + self.count / len(self.x)) / len(self.x))

    @in_float64
    def __call__(self, pair: Deletion) -> Deleted:
        """Reconstruct the record of one deletion.

        Raises:
            BayesreconError: posterior draws, parameters of different size or identical ones, or a public Hessian that
                does not see the change.
        """
        before, after = parameters_of(pair, self.model)
        gradient, kappa = self.gradient(before, after)
        weight = (kappa**2).sum(axis=1)
        if not np.isfinite(gradient).all() or not weight.sum() > 0:
            raise BayesreconError(
                "the public Hessian does not see the change of the parameters (it is singular there): "
                "supply more public records"
            )
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        centre = weight @ self.x / weight.sum()
        if self.linear.intercept is None:
            x, direction, slope = self._without_intercept(gradient)
        else:
            direction = self._direction(gradient, centre)
            row = direction @ gradient
            multiple = self._multiple(row, centre, direction, kappa) if self.use.scale else float(row[-1])
            x = centre + (row[:-1] - row[-1] * centre) / multiple if multiple else row[:-1]
            slope = multiple * direction if self.use.rows and len(direction) > 1 else gradient[:, -1]
        if self.use.prior:
            x = np.clip(x, *self._range)
        identified = len(direction) > 1 or self.linear.intercept is not None
        label = label_of(self.linear, direction) if identified else None
        excess = self._excess(before, slope)
        return Deleted(x, label, slope, gradient, kappa, effective, _margin(label, slope), excess)

    def _excess(self, before: np.ndarray, slope: np.ndarray) -> float | None:
        if self.y is None:
            return None
        if self._steepest is None or not np.array_equal(self._steepest[0], before):
            each = np.asarray(slopes(self.linear, self.design @ before.T, self.y))
            self._steepest = before, float(np.linalg.norm(each, axis=1).max())
        largest = self._steepest[1]
        return float(np.linalg.norm(slope) / largest) if largest > 0 else None

    def _direction(self, gradient: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """The slope's direction `(K,)`, of unit length; with the intercepts' sign."""
        slope = gradient[:, -1]
        if self.use.rows and len(slope) > 1:
            about = gradient[:, :-1] - np.outer(slope, centre)
            found = np.linalg.eigh(about @ about.T)[1][:, -1]
            return found if found @ slope >= 0 else -found
        label = label_of(self.linear, slope) if len(slope) > 1 else 0
        chosen = int(np.argmax(np.abs(slope))) if label is None else label
        return np.eye(len(slope))[chosen] * (1.0 if slope[chosen] >= 0 else -1.0)

    def _multiple(self, row: np.ndarray, centre: np.ndarray, direction: np.ndarray, kappa: np.ndarray) -> float:
        """The factor alpha of `row = alpha (x, 1)`, most likely by its intercept and the lengths of public records.

        The intercept is normal about alpha with variance `u' A u`, u the direction (see `error_of_slopes`), and
        `log |x - centre|` normal as over the public records of the inferred label.
        """
        found = np.linalg.norm(row[:-1] - row[-1] * centre)
        label = label_of(self.linear, direction)
        square = self._squares - 2 * self.x @ centre + centre @ centre
        alike = square if self.y is None or label is None else square[self.y == label]
        alike = alike if len(alike) > 1 else square
        logs = 0.5 * np.log(alike[alike > 1e-12 * self._squares.max()])
        if not found > 0 or len(logs) < 2:
            return float(row[-1])
        spread, variance = max(float(np.var(logs)), 1e-12), float(direction @ self.error_of_slopes(kappa) @ direction)
        typical = np.log(found) - float(np.median(logs))
        # Both ends of what either of the two allows lie inside.
        low, high = sorted((np.log(max(abs(row[-1]), 1e-300)), typical))
        grid = np.linspace(low - 5 * np.sqrt(spread), high + 5 * np.sqrt(spread), 201)

        def misfit(log_multiple: Array | float) -> np.ndarray | float:
            short = np.exp(log_multiple) - row[-1]
            return short**2 / max(variance, 1e-300) + (log_multiple - typical) ** 2 / spread

        import scipy.optimize

        i = int(np.clip(np.argmin(misfit(grid)), 1, len(grid) - 2))
        refined: Any = scipy.optimize.minimize_scalar(
            misfit, bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-10}
        )
        return float(np.exp(refined.x))

    def _without_intercept(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The leading direction: sign and length are not determined, and taken from public records."""
        left, values, right = np.linalg.svd(gradient, full_matrices=False)
        direction, x = left[:, 0], right[0]
        towards = x @ self.x.mean(axis=0) if len(direction) == 1 else direction[np.argmax(np.abs(direction))]
        if towards < 0:
            direction, x = -direction, -x
        length = float(np.median(np.linalg.norm(self.x, axis=1))) if self.use.scale else 1.0
        return length * x, direction, direction * values[0] / (length or 1.0)

    def probability(self, pair: Deletion, found: Deleted) -> float | None:
        """That the inferred label is right, or without labels the sign (see `certainty`); None without public labels,
        or where a label has no public record.

        Least squares over several outputs are told by the sign as well: a record and its mirror image share all else.
        """
        if self.y is None or self._absent:
            return None
        before, after = parameters_of(pair, self.model)
        other = self.gradient(before, after, not self.use.shrinkage)[0]
        direction = found.slope / (np.linalg.norm(found.slope) or 1.0)
        return certainty(
            self.linear,
            self.design,
            self.y,
            before,
            found.gradient,
            found.kappa,
            other=other,
            count=self.count,
            direction=direction,
            label=found.label,
        )

    @cached_property
    def _absent(self) -> list[int]:
        """Labels that no public record has."""
        if self.y is None or not self.linear.labels:
            return []
        return sorted(set(range(max(len(self.penalty), 2))) - set(np.unique(self.y).astype(int).tolist()))

    def doubts(self, found: Deleted, probability: float | None = None) -> tuple[str, ...]:
        """What speaks against a reconstruction, one line each (see `cautions_about`)."""
        free = not self.penalty[:, : self.x.shape[1]].any()
        return cautions_about(
            probability,
            what="sign" if found.label is None else "label",
            effective=found.public_records,
            absent=self._absent,
            excess=found.excess,
            spanned=(len(self.x), self.design.shape[1]) if free else None,
        )

    def deleted(self, pair: Deletion) -> DeletedRecord:
        """The deleted record as a result, with what speaks against it."""
        found = self(pair)
        probability = self.probability(pair, found)
        doubts = (*self.doubts(found, probability), *self._one_step(pair))
        record: Records = {self.linear.x: found.x if self.embedding is None else self.invert([found]).x[0]}
        if found.label is not None:
            record[self.linear.y] = np.asarray(found.label)
        return DeletedRecord(
            record=record,
            se=None,
            method="HRec",
            evidence=None,
            effective_size=found.public_records,
            before=pair.before.name,
            after=pair.after.name,
            model=self.model.name,
            probability=probability,
            warnings=(*notes_of(pair), *doubts),
            doubts=doubts,
        )

    def _one_step(self, pair: Deletion) -> tuple[str, ...]:
        """That the change is one record's gradient as it stands, which no Hessian is to be applied to.

        Of least squares a change by retraining is such a product, too.
        """
        before, after = parameters_of(pair, self.model)
        if len(before) < 2 or self.linear.loss == "squared" or beside_one(before - after) > _ONE_STEP:
            return ()
        return ("the change is one record's gradient as it stands: use OneStep, which applies no Hessian to it",)

    def invert(self, found: Sequence[Deleted], **settings: Any) -> Inversion:
        """The records behind reconstructed features; see `invert_embedding`, which takes the settings."""
        if self.embedding is None:
            raise BayesreconError("there is nothing to invert: HRec was given no embedding")
        return invert_embedding(self.embedding, np.stack([f.x for f in found]), self.raw, **settings)

    @in_float64
    def changed_most(self, pair: Deletion) -> dict[str, int]:
        """Which public records' predictions change most, by name of the measure (see `baselines`)."""
        before, after = (self.design @ theta.T for theta in parameters_of(pair, self.model))
        return changed_most(before, after, classes=self.linear.loss in ("softmax", "logistic"))

    def baselines(self, pair: Deletion) -> dict[str, np.ndarray]:
        """What takes no Hessian: `avg`, the mean public record, and the public records of `changed_most`."""
        records = self.x if self.embedding is None else self.raw
        return {"avg": records.mean(axis=0)} | {name: records[i] for name, i in self.changed_most(pair).items()}


def _margin(label: int | None, slope: np.ndarray) -> float | None:
    if label is None or len(slope) < 2:
        return None
    top = np.sort(slope)[::-1]
    return float((top[0] - top[1]) / abs(top[0])) if top[0] else 0.0
