"""The adversaries of the inference game that come with the package; those by membership are in `games.membership`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import DENSITY, PARAMETERS, PUBLIC, Adversary, View, X, Y
from bayesrecon.games.answers import DEFAULT_LOSSES, VALUES, distance, loss_of
from bayesrecon.games.data import Records
from bayesrecon.games.learner import check_positive
from bayesrecon.games.reconstructor import (
    PUBLIC_RECORDS,
    WHERE,
    DeletedInstance,
    DeletedLabel,
    Guess,
    KnownInstance,
    Reconstructor,
    check_queries,
    points_of,
)


@dataclass(frozen=True)
class LossChange(Adversary):
    """Del-Inf-Exm (Gao et al. 2022, algorithm 3.2): `s = l(h', e) - l(h, e)`; the record of larger s was deleted.

    Attributes:
        loss: "squared" or "absolute" for numbers, "log" for probabilities, "hinge" for decision values and log odds,
            "zero-one" for labels. Defaults to the first of these that suits the answers.
    """

    quick: ClassVar[bool] = True
    loss: str | None = None

    @property
    def name(self) -> str:
        return f"Del-Inf-Exm, {self.loss} loss" if self.loss else "Del-Inf-Exm"

    def scores(self, view: View) -> np.ndarray:
        loss = self.loss or DEFAULT_LOSSES[view.answers]
        before = loss_of(loss, view.answers, view.ask.before(view.features), view.labels)
        return loss_of(loss, view.answers, view.ask.after(view.features), view.labels) - before


@dataclass(frozen=True)
class OutputChange(Adversary):
    """Del-Inf-Ins (Gao et al. 2022, algorithm 3.4): `s = |h(x) - h'(x)|`, summed over classes.

    Labels are not needed.
    """

    needs: ClassVar[tuple[str, ...]] = (X,)
    quick: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "Del-Inf-Ins"

    def scores(self, view: View) -> np.ndarray:
        before = view.ask.before(view.features)
        return distance(before, view.ask.after(view.features))


@dataclass(frozen=True)
class LabelChange(Adversary):
    """Which of two labels was deleted, from predictions at other points. Instances are not needed.

    For classes `s(y) = mean_j P(y | x_j, h) - P(y | x_j, h')` over queries x_j, as in Del-Lbl-Rec (Gao et al. 2022,
    appendix C.1). It separates the labels if the queries follow the distribution of the data: for a model with a
    free intercept the sum over the remaining records is `1[y was deleted] - P(y | e, h)` (`DeletedLabel`).

    For a number `s(y) = -|y - y_hat|`. By the normal equations of least squares before and after the deletion, `sum_i
    (h(x_i) - h'(x_i)) f(x_i) = (y - h(x)) f(x)` over the n - 1 remaining records, for f = 1 and for f = h. So

        r = (n - 1) mean_j (h(x_j) - h'(x_j)),    y_hat = r + (n - 1) mean_j (h(x_j) - h'(x_j)) h(x_j) / r,

    with the last term, h(x), kept within the range of the predictions. It is a tie if no prediction changed.

    Attributes:
        queries, count: the query points, as in `DeletedLabel`.
    """

    needs: ClassVar[tuple[str, ...]] = (Y, PUBLIC)
    quick: ClassVar[bool] = True
    queries: str = PUBLIC_RECORDS
    count: int = 1000

    def __post_init__(self) -> None:
        check_queries(self.queries, self.count)

    @property
    def name(self) -> str:
        where = "" if self.queries == PUBLIC_RECORDS else f", queries from {WHERE[self.queries]}"
        return f"Del-Inf-Lbl{where}"

    def scores(self, view: View) -> np.ndarray:
        points = points_of(self.queries, self.count, view.auxiliary.x, view.rng)
        before = view.ask.before(points)
        fall = before - view.ask.after(points)
        if view.answers != VALUES:
            return fall.mean(axis=0)[view.labels]
        if not fall.any():
            return np.zeros(len(view.labels))
        residual = fall.mean() or np.finfo(float).tiny
        prediction = np.clip((fall * before).mean() / residual, before.min(), before.max())
        return -np.abs(view.labels - prediction - (view.total - 1) * residual)


@dataclass(frozen=True)
class LabelOnly(Adversary):
    """`s = mean_j [h(x_j) = y] - [h'(x_j) = y]` over points x_j around the instance. It only needs predicted labels.

    How far around an instance its label is predicted indicates the confidence of the model, which is not shown
    (Choquette-Choo et al. 2021 for membership). The points are the instance itself and the instance plus normal noise,
    the same for both models.

    Attributes:
        count: number of points.
        spread: standard deviation of the noise, in standard deviations of each column of the auxiliary records.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PUBLIC)
    count: int = 300
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_positive(count=self.count, spread=self.spread)

    @property
    def name(self) -> str:
        return "labels around the instance"

    def scores(self, view: View) -> np.ndarray:
        if view.answers == VALUES:
            raise BayesreconError("LabelOnly is for classifiers; for a regression use OutputChange or LossChange")
        x, y = view.features, view.labels
        noise = view.rng.normal(size=(self.count, x.shape[1])) * self.spread * view.auxiliary.x.std(axis=0)
        points = (x[:, None] + np.concatenate([np.zeros((1, x.shape[1])), noise])).reshape(-1, x.shape[1])
        labels = np.repeat(y, self.count + 1)
        agree = [
            (ask(points).argmax(axis=1) == labels).reshape(len(y), -1) for ask in (view.ask.before, view.ask.after)
        ]
        return agree[0].mean(axis=1) - agree[1].mean(axis=1)


@dataclass(frozen=True)
class Likelihood(Adversary):
    """`s(e) = log p(theta' | S without e)`, the exact log density of the released parameter; S is known.

    h is trained with independent randomness and on the same S, whichever record is deleted. Given S it carries no
    information. By the Neyman-Pearson lemma no adversary does better. If the other challenge is outside S, h' is the
    same in both cases and h carries the information: `s(e) = log p(theta | S with e)`.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PARAMETERS, DENSITY)
    quick: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "likelihood ratio"

    def scores(self, view: View) -> np.ndarray:
        if view.others is None:
            raise BayesreconError(f"the {self.name} needs the other private records; set others=True")
        if len(view.labels) != 2:
            raise BayesreconError(f"the {self.name} needs two challenges, and there are {len(view.labels)}")
        assert view.fitted is not None
        before, after = view.fitted
        outside = len(view.others.y) + 1 == view.total
        released, partners = (before, (0, 1)) if outside else (after, (1, 0))
        log_densities = []
        for i in partners:
            x = np.concatenate([view.others.x, view.features[[i]]])
            y = np.concatenate([view.others.y, view.labels[[i]]])
            log_densities.append(view.learner.log_density(released, Records(x, y)))
        return np.array(log_densities)


@dataclass(frozen=True)
class WhiteBox(Adversary):
    """The log likelihood of every challenge, given the change of the parameter.

    It is computed from the angle between that change and the one that the deletion of the challenge would cause
    (`infer_deletion`). The Hessian is that of the other private records if the game grants them (`others`), else that
    of the public records. Challenges are left out of it: the contribution of the deleted record is parallel to its own
    gradient, and large if its leverage is.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PARAMETERS)

    @property
    def name(self) -> str:
        return "white box"

    def scores(self, view: View) -> np.ndarray:
        from bayesrecon.attacks.deletion.inferred import infer_deletion
        from bayesrecon.pairs import Deletion, Unchanged

        records = view.others if view.others is not None else view.public
        if records is None:
            raise BayesreconError("the white box needs other records; set others=True or auxiliary=100")
        trained = view.trained
        assert trained is not None
        before, after = trained
        total = len(records.y) if view.others is not None else view.total
        public = {"x": records.x, "y": records.y}
        challenges = {"x": view.features, "y": view.labels}
        try:
            pair = Deletion(before, after)
            return np.asarray(infer_deletion(pair, challenges, public=public, total=total).log_likelihood)
        except Unchanged:  # all challenges tie
            return np.zeros(len(view.features))


Distance = Callable[[Guess, np.ndarray, float], float]
"""Function of a guess, a record `(p,)` and its response that returns their distance."""


def euclidean(guess: Guess, x: np.ndarray, y: float) -> float:
    """The Euclidean distance over the guessed entries; for a class 0 if it is right, else 1."""
    squared = 0.0 if guess.x is None else float(np.sum((guess.x - x) ** 2))
    return float(np.sqrt(squared + (0.0 if guess.y is None else (guess.y - y) ** 2)))


@dataclass(frozen=True)
class Reconstructed(Adversary):
    """A reconstructor as an adversary (Gao et al. 2022, theorem 4.2): the challenge within `radius` of the guess.

    If the reconstructor is `(rho, radius)`-successful and the challenges are more than twice the radius apart with
    probability `1 - delta`, the adversary succeeds with probability at least `rho - delta`. It is a tie if both
    challenges or neither are within the radius, or if there is no guess. (If both are near, the theorem names the first
    challenge. Which one comes first is random.)

    If instances are known and responses are guessed, each challenge is compared with the guess for its own instance.

    Attributes:
        reconstructor: any reconstructor.
        radius: largest distance from the guess. None compares distances instead: the closer challenge was deleted.
        distance: function that measures the distance of a guess to a record.
    """

    reconstructor: Reconstructor
    radius: float | None = None
    distance: Distance = euclidean

    @property
    def name(self) -> str:
        return f"theorem 4.2, {self.reconstructor.name}"

    def required(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((X, Y, *self.reconstructor.required())))

    def scores(self, view: View) -> np.ndarray:
        guesses = list(self.reconstructor.guesses(view))
        if X not in self.reconstructor.required():  # one guess for all challenges
            guesses = guesses * len(view.labels)
        distances = np.array(
            [
                np.inf if g is None else self.distance(g, x, float(y))
                for g, x, y in zip(guesses, view.features, view.labels, strict=True)
            ]
        )
        return -distances if self.radius is None else (distances <= self.radius).astype(float)


ADVERSARIES = {
    "lbl": ("the label whose predictions fall was deleted (Del-Inf-Lbl); needs no instances", LabelChange()),
    "label-only": ("agreement of labels around the instance (classifiers, labels only)", LabelOnly()),
    "likelihood": ("exact likelihood ratio of the released parameter (private learners, with --others)", Likelihood()),
    "exm": (
        "the challenge whose loss increases more was deleted (Del-Inf-Exm): squared, log or hinge loss",
        LossChange(),
    ),
    "exm-absolute": ("the same with the absolute loss, for a regression", LossChange("absolute")),
    "exm-hinge": ("the same with the hinge loss", LossChange("hinge")),
    "ins": ("the challenge whose answer changes more was deleted (Del-Inf-Ins); needs no labels", OutputChange()),
    "label": ("theorem 4.2 with the deleted label, queries from public records", Reconstructed(DeletedLabel(), 0.0)),
    "instance": (
        "theorem 4.2 with the deleted instance, queries from public records",
        Reconstructed(DeletedInstance()),
    ),
    "response": ("theorem 4.2 with the response of a known instance: the nearer one", Reconstructed(KnownInstance())),
    "white-box": ("likelihood ratio from the parameters (linear, ridge, logistic)", WhiteBox()),
}
