"""The deleted record from a trained linear predictor before and after (Bertran et al. 2024), with improvements.

With H minus the Hessian of the log posterior, averaged along the way from theta- to theta+,

    H (theta+ - theta-) = grad l(theta, x) = s (x, 1)'

exactly. H is the Hessian of the private data. With public records it is estimated by

    G = (n / m) sum_public kappa_i (x_i, 1)' + penalty U

with `U = theta+ - theta-` and `kappa_i = -h''(eta_i) U (x_i, 1)`. The published method divides the label's row of G by
its intercept. Public records were not trained on, so the model is less certain about them; `trained_on` corrects for
this. The remaining error is the sampling error of `sum_i kappa_i (x_i, 1)'`. Its largest part is a multiple of the mean
record. Without that part, the leading direction of G is s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.certainty import certainty
from bayesrecon.attacks.deletion.change import (
    SURE,
    beside_one,
    cautions_about,
    notes_of,
    parameters_of,
    public_records,
    refuse_rounding,
)
from bayesrecon.attacks.deletion.curvature import NODES
from bayesrecon.attacks.deletion.deleted import Deleted, Improvements
from bayesrecon.attacks.deletion.inversion import Embedding, embed, invert_embedding
from bayesrecon.attacks.deletion.trained_on import TrainedOn
from bayesrecon.divergence.outer_products import bends, curvatures, design, label_of, penalty_of, predictor_of, slopes
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.pairs import Deletion
from bayesrecon.precision import in_float64
from bayesrecon.results.deletion import DeletedRecord, Inversion

_MOST = 1500  # largest number of public records from which the degrees of freedom are estimated
_ONE_STEP = 1e-6  # largest residual of a change that is one record's gradient up to rounding, relative to the change


class PreparedHRec:
    """HRec with its public records, used on any number of deletions from one model.

    Args:
        model: model of both releases; needs a linear predictor.
        public: `{"x": (m, p), "y": (m,)}` records from the same distribution. Labels are needed for
            shrinkage, and by losses whose curvature depends on them (a squared hinge).
        total: n, the number of private records; as many as public ones by default.
        improvements: which improvements on the published method are used.
        embedding: function `(p0,) -> (p,)` in `jax.numpy` from records to the features of the model. Then public
            records are `(m, p0)`, the attack recovers features, and `invert` recovers records from them.
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
        self.improvements, self.embedding = improvements, embedding
        if embedding is not None and self.linear.x in public:
            self._before_embedding = np.asarray(public[self.linear.x], float)
            public = {**public, self.linear.x: embed(embedding, np.atleast_2d(self._before_embedding))}
        self.x, self.y = public_records(model, public)
        self.design = design(model, self.x)
        self.count = float(len(self.x) if total is None else total)
        if not self.count > 0:
            raise BayesreconError(f"total={total}: the number of private records is positive")
        self.penalty = penalty_of(model)
        self._last_trained_on: tuple[np.ndarray, TrainedOn] | None = None
        self._last_scale: tuple[np.ndarray, float | None, np.ndarray] | None = None

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels of the public records, or zeros if they are unknown and the curvature does not depend on them."""
        if self.y is not None:
            return self.y
        if self.linear.loss == "squared_hinge":
            raise BayesreconError("the curvature of a squared hinge depends on labels: the public records need y")
        shape = (len(self.x), len(self.penalty)) if self.linear.loss == "squared" else (len(self.x),)
        return np.zeros(shape, float if self.linear.loss == "squared" else int)

    @in_float64
    def trained_on(self, theta: np.ndarray) -> TrainedOn | None:
        """The contributions of public records if they had been in the training data of this parameter.

        None without labels. The result for the last parameter is cached.
        """
        if self.y is None or self.linear.loss == "squared":
            return None
        if self._last_trained_on is None or not np.array_equal(self._last_trained_on[0], theta):
            penalty = np.median(self.penalty[:, : self.x.shape[1]], axis=1)
            contributions = TrainedOn(
                self.linear, self.design, self.y, theta, count=self.count, penalty=penalty, moments=self._moments
            )
            self._last_trained_on = theta, contributions
        return self._last_trained_on[1]

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return self.x.min(axis=0), self.x.max(axis=0)

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.einsum("mp,mp->m", self.x, self.x)

    @cached_property
    def _moments(self) -> np.ndarray:
        """The eigenvalues of `(x, 1)'(x, 1) / m`."""
        rows = self.design[:: -(-len(self.x) // _MOST)]
        gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
        return np.asarray(np.maximum(np.linalg.eigvalsh(gram), 0.0) / len(rows))

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
        shrinkage = self.improvements.shrinkage if shrinkage is None else shrinkage
        change = before - after
        predicted = self.design @ change.T
        curved = self.improvements.path and self.linear.loss != "squared"
        nodes = [after + t * change for t in NODES] if curved else [before]
        trained_on = self.trained_on(before) if shrinkage else None
        kappa = np.zeros_like(predicted)
        for theta in nodes:
            eta = self.design @ theta.T
            if trained_on is None:
                curvature = bends(self.linear, eta, self.labels, predicted)
            else:
                curvature = trained_on.contributions(eta, predicted)
            kappa += np.asarray(curvature) / len(nodes)
        if shrinkage and self.linear.loss == "squared":
            kappa *= self.optimism
        gradient = kappa.T @ self.design * (self.count / len(self.x))
        return (gradient + self.penalty * change if self.improvements.regulariser else gradient), kappa

    @in_float64
    def curvatures(self, before: np.ndarray, theta: np.ndarray) -> Float[np.ndarray, "m K K"]:
        """Contributions of the public records to the Hessian at a parameter near `before`, `(m, K, K)`."""
        trained_on, eta = self.trained_on(before), self.design @ theta.T
        if trained_on is not None:
            return trained_on.curvatures(eta)
        curvature = np.asarray(curvatures(self.linear, eta, self.labels))
        return curvature * self.optimism if self.linear.loss == "squared" else curvature

    def error_of_slopes(self, kappa: np.ndarray) -> np.ndarray:
        """Covariance `A (K, K)` of the intercepts' estimated gradient, `n (1 + n / m) mean(kappa kappa')`.

        Both the public and the private records are samples.
        """
        return kappa.T @ kappa * (self._samples / len(self.x))

    @property
    def _samples(self) -> float:
        """The variance of a sum over private records, estimated from public ones, in that of a record."""
        return self.count * (1 + self.count / len(self.x))

    @in_float64
    def __call__(self, pair: Deletion) -> Deleted:
        """Reconstruct the record of one deletion.

        Raises:
            BayesreconError: posterior draws, parameters of different size or identical ones, or a public Hessian that
                is singular along the change.
        """
        before, after = parameters_of(pair, self.model)
        gradient, kappa = self.gradient(before, after)
        weight = (kappa**2).sum(axis=1)
        if not np.isfinite(gradient).all() or not weight.sum() > 0:
            raise BayesreconError(
                "the public Hessian is singular along the change of the parameters: supply more public records"
            )
        return self._record(before, gradient, kappa)

    def _record(
        self, before: np.ndarray, gradient: np.ndarray, kappa: np.ndarray, direction: np.ndarray | None = None
    ) -> Deleted:
        """The record with this gradient, if its slope has this direction (by default the leading one)."""
        weight = (kappa**2).sum(axis=1)
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        centre = weight @ self.x / weight.sum()
        noise = None
        if self.linear.intercept is None:
            x, leading, slope = self._without_intercept(gradient)
            if direction is not None and direction @ leading < 0:
                x, leading, slope = -x, -leading, -slope
            direction = leading
        else:
            direction = self._direction(gradient, centre) if direction is None else direction
            row = direction @ gradient
            multiple = self._multiple(row, centre, direction, kappa) if self.improvements.scale else float(row[-1])
            about = row[:-1] - row[-1] * centre
            x = centre + about / multiple if multiple else row[:-1]
            slope = multiple * direction if self.improvements.rows and len(direction) > 1 else gradient[:, -1]
            spread = ((kappa @ direction)[:, None] * (self.x - centre)).var(axis=0).sum() * self._samples
            noise = float(np.sqrt(spread / max(about @ about, np.finfo(float).tiny)))
        if self.improvements.prior:
            x = np.clip(x, *self._range)
        identified = len(direction) > 1 or self.linear.intercept is not None
        label = label_of(self.linear, direction) if identified else None
        margin, excess = _margin(label, slope), self._excess(before, slope)
        return Deleted(x, label, slope, gradient, kappa, effective, margin, excess, noise)

    def _excess(self, before: np.ndarray, slope: np.ndarray) -> float | None:
        """Length of the slope relative to the longest slope of a public record."""
        steepest, _ = self._scale(before)
        return float(np.linalg.norm(slope) / steepest) if steepest else None

    def _scale(self, before: np.ndarray) -> tuple[float | None, np.ndarray]:
        """The longest slope of a public record (None without labels), and the `rounding (K, q)` of `refuse_rounding`.

        The result for the last parameter is cached.
        """
        if self._last_scale is None or not np.array_equal(self._last_scale[0], before):
            curvature, rows = np.abs(self.curvatures(before, before)), np.abs(self.design)
            sizes = np.sqrt(np.einsum("mkk->mk", curvature))
            steepest = None
            if self.y is not None:
                sizes = np.abs(np.asarray(slopes(self.linear, self.design @ before.T, self.y)))
                steepest = float(np.linalg.norm(sizes, axis=1).max())
            sizes = sizes + np.einsum("mkl,ml->mk", curvature, rows @ np.abs(before).T)
            rounding = sizes.T @ rows * (self.count / len(self.x)) + self.penalty * np.abs(before)
            self._last_scale = before, steepest, rounding
        return self._last_scale[1:]

    def refuse_rounding(self, pair: Deletion, gradient: np.ndarray, kappa: np.ndarray) -> None:
        """Refuse a change that says nothing about a deletion (see `change.refuse_rounding`)."""
        mean = kappa.T @ self.design / len(kappa)
        variance = (kappa**2).T @ self.design**2 / len(kappa) - mean**2
        error = np.sqrt(np.maximum(variance, 0.0) * self._samples)
        refuse_rounding(pair, gradient, self._scale(parameters_of(pair, self.model)[0])[1], self.count, error=error)

    def _direction(self, gradient: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """The slope's direction `(K,)`, of unit length and with the sign of the intercepts."""
        slope = gradient[:, -1]
        if self.improvements.rows and len(slope) > 1:
            centred = gradient[:, :-1] - np.outer(slope, centre)
            leading = np.linalg.eigh(centred @ centred.T)[1][:, -1]
            return leading if leading @ slope >= 0 else -leading
        label = label_of(self.linear, slope) if len(slope) > 1 else 0
        chosen = int(np.argmax(np.abs(slope))) if label is None else label
        return np.eye(len(slope))[chosen] * (1.0 if slope[chosen] >= 0 else -1.0)

    def _multiple(self, row: np.ndarray, centre: np.ndarray, direction: np.ndarray, kappa: np.ndarray) -> float:
        """The factor alpha of `row = alpha (x, 1)`, most likely by its intercept and the lengths of public records.

        The intercept is normal about alpha with variance `u' A u`, u the direction (see `error_of_slopes`), and
        `log |x - centre|` normal as over the public records of the inferred label.
        """
        length = np.linalg.norm(row[:-1] - row[-1] * centre)
        label = label_of(self.linear, direction)
        squares = self._squares - 2 * self.x @ centre + centre @ centre
        same_label = squares if self.y is None or label is None else squares[self.y == label]
        same_label = same_label if len(same_label) > 1 else squares
        logs = 0.5 * np.log(same_label[same_label > 1e-12 * self._squares.max()])
        if not length > 0 or len(logs) < 2:
            return float(row[-1])
        log_variance, variance = (
            max(float(np.var(logs)), 1e-12),
            float(direction @ self.error_of_slopes(kappa) @ direction),
        )
        typical = np.log(length) - float(np.median(logs))
        # The grid contains the values that either of the two terms favours.
        low, high = sorted((np.log(max(abs(row[-1]), 1e-300)), typical))
        grid = np.linspace(low - 5 * np.sqrt(log_variance), high + 5 * np.sqrt(log_variance), 201)

        def misfit(log_multiple: Array | float) -> np.ndarray | float:
            error = np.exp(log_multiple) - row[-1]
            return error**2 / max(variance, 1e-300) + (log_multiple - typical) ** 2 / log_variance

        import scipy.optimize

        i = int(np.clip(np.argmin(misfit(grid)), 1, len(grid) - 2))
        refined: Any = scipy.optimize.minimize_scalar(
            misfit, bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-10}
        )
        return float(np.exp(refined.x))

    def _without_intercept(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The record, the slope's direction and the slope, from the leading singular vectors.

        Sign and length are not determined. They are those of the public records.
        """
        left, values, right = np.linalg.svd(gradient, full_matrices=False)
        direction, x = left[:, 0], right[0]
        towards = x @ self.x.mean(axis=0) if len(direction) == 1 else direction[np.argmax(np.abs(direction))]
        if towards < 0:
            direction, x = -direction, -x
        length = float(np.median(np.linalg.norm(self.x, axis=1))) if self.improvements.scale else 1.0
        return length * x, direction, direction * values[0] / (length or 1.0)

    @in_float64
    def rated(self, pair: Deletion) -> list[tuple[float | None, Deleted]]:
        """The record for every label, or without labels for both signs, with its probability; most probable first.

        One record without a probability if there are no public labels, or if a label has no public record. For least
        squares with several outputs the sign is rated as well, because a record and its mirror image differ in nothing
        else (see `certainty`).

        Raises:
            BayesreconError: as in a call.
            Unchanged: the change is rounding.
        """
        leading = self(pair)
        self.refuse_rounding(pair, leading.gradient, leading.kappa)
        if self.y is None or self._absent:
            return [(None, leading)]
        before, after = parameters_of(pair, self.model)
        alternative = self.gradient(before, after, not self.improvements.shrinkage)[0]
        direction = leading.slope / (np.linalg.norm(leading.slope) or 1.0)
        labels, probability, directions = certainty(
            self.linear,
            self.design,
            self.y,
            before,
            leading.gradient,
            leading.kappa,
            other=alternative,
            count=self.count,
            direction=direction,
        )
        found = []
        for i in np.argsort(-probability, kind="stable"):
            same = labels[i] == leading.label if self.linear.labels else directions[i] @ direction > 0
            record = leading if same else self._record(before, leading.gradient, leading.kappa, directions[i])
            label = int(labels[i]) if self.linear.labels else None
            found.append((float(probability[i]), replace(record, label=label)))
        return found

    @cached_property
    def _absent(self) -> list[int]:
        """Labels without a public record."""
        if self.y is None or not self.linear.labels:
            return []
        return sorted(set(range(max(len(self.penalty), 2))) - set(np.unique(self.y).astype(int).tolist()))

    def doubts(self, found: Deleted, probability: float | None = None) -> tuple[str, ...]:
        """Reasons to doubt a reconstruction, one line each (see `cautions_about`)."""
        unpenalised = not self.penalty[:, : self.x.shape[1]].any()
        return cautions_about(
            probability,
            what="sign" if found.label is None else "label",
            effective=found.public_records,
            absent=self._absent,
            excess=found.excess,
            spanned=(len(self.x), self.design.shape[1]) if unpenalised else None,
            noise=found.noise,
        )

    def deleted(self, pair: Deletion) -> DeletedRecord:
        """The deleted record as a result, with reasons to doubt it."""
        (probability, estimate), *others = self.rated(pair)
        doubts = (*self.doubts(estimate, probability), *self._one_step(pair))
        beside = next(((p, self._fields(other)) for p, other in others if p and (probability or 0.0) < SURE), None)
        return DeletedRecord(
            record=self._fields(estimate),
            se=None,
            method="HRec",
            evidence=None,
            effective_size=estimate.public_records,
            before=pair.before.name,
            after=pair.after.name,
            model=self.model.name,
            probability=probability,
            warnings=(*notes_of(pair), *doubts),
            doubts=doubts,
            other=None if beside is None else beside[1],
            other_probability=None if beside is None else beside[0],
        )

    def _fields(self, estimate: Deleted) -> Records:
        record: Records = {self.linear.x: estimate.x if self.embedding is None else self.invert([estimate]).x[0]}
        return record if estimate.label is None else {**record, self.linear.y: np.asarray(estimate.label)}

    def _one_step(self, pair: Deletion) -> tuple[str, ...]:
        """A warning if the change is one record's gradient itself, to which no Hessian must be applied.

        For least squares a change by retraining has this form as well.
        """
        before, after = parameters_of(pair, self.model)
        if len(before) < 2 or self.linear.loss == "squared" or beside_one(before - after) > _ONE_STEP:
            return ()
        return ("the change is the gradient of one record itself: use OneStep, which applies no Hessian",)

    def invert(self, estimates: Sequence[Deleted], **settings: Any) -> Inversion:
        """The records with the reconstructed features. `settings` are options of `invert_embedding`."""
        if self.embedding is None:
            raise BayesreconError("there is nothing to invert: HRec was given no embedding")
        return invert_embedding(
            self.embedding, np.stack([estimate.x for estimate in estimates]), self._before_embedding, **settings
        )

    @in_float64
    def changed_most(self, pair: Deletion) -> dict[str, int]:
        """Positions of the public records whose predictions change most, by the name of the measure."""
        before, after = (self.design @ theta.T for theta in parameters_of(pair, self.model))
        return changed_most(before, after, classes=self.linear.loss in ("softmax", "logistic"))

    def baselines(self, pair: Deletion) -> dict[str, np.ndarray]:
        """Baselines without a Hessian: `avg`, the mean public record, and the public records of `changed_most`."""
        records = self.x if self.embedding is None else self._before_embedding
        return {"avg": records.mean(axis=0)} | {name: records[i] for name, i in self.changed_most(pair).items()}


def _margin(label: int | None, slope: np.ndarray) -> float | None:
    """The difference of the two largest entries of the slope, relative to the largest."""
    if label is None or len(slope) < 2:
        return None
    top = np.sort(slope)[::-1]
    return float((top[0] - top[1]) / abs(top[0])) if top[0] else 0.0


# A baseline without a Hessian: the public record whose prediction changes most (MaxDiff).
#
# The published baseline (Bertran et al. 2024) is `argmax_i |(x_i, 1)' (theta+ - theta-)|` over public records, with the
# norm over outputs. The change of the class probabilities is a second measure. It is small for records that the model
# classifies with certainty.


def changed_most(before: np.ndarray, after: np.ndarray, *, classes: bool) -> dict[str, int]:
    """Positions of public records, by name of the measure.

    Args:
        before, after: outputs of both models for the public records, `(m, K)`.
        classes: whether outputs are logits of classes. A single output is the logit of two classes.

    Returns:
        `maxdiff`, by the Euclidean norm over outputs, and with classes `maxdiff_probabilities`, by the sum over them.

    >>> import numpy as np
    >>> changed_most(np.array([[9.0], [0.0]]), np.array([[6.0], [1.0]]), classes=True)
    {'maxdiff': 0, 'maxdiff_probabilities': 1}
    """
    found = {"maxdiff": int(np.linalg.norm(before - after, axis=1).argmax())}
    if classes:
        moved = np.abs(_probabilities(before) - _probabilities(after)).sum(axis=1)
        found["maxdiff_probabilities"] = int(moved.argmax())
    return found


def _probabilities(outputs: np.ndarray) -> np.ndarray:
    one = outputs.shape[1] == 1
    return np.asarray(scipy.special.expit(outputs) if one else scipy.special.softmax(outputs, axis=1))
