"""HRec beyond its tables: targets, public records, embeddings that were trained, private learners, single steps.

python -m benchmarks.deletion.hrec_more [targets] [public] [embedding] [private] [steps] [updates] [unpenalised]
    [damped] [--data DIR] [--set fashion] [--part small]

Parts that are kept are measured anew where they are named. DIR holds a data set's files; without it the digits of
scikit-learn stand alone. Results go to the page benchmarks/HREC_MORE.md.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import RidgeCV
from sklearn.metrics import f1_score, r2_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import bayesrecon
from bayesrecon.attacks import OneStep
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.games import ObjectivePerturbation, OutputPerturbation
from bayesrecon.games.data import Records
from bayesrecon.models import load
from bayesrecon.posteriors import dirac, gradient_step_without, newton_step_without, train
from benchmarks.deletion.experiment import Experiment, _eta, embed, halves, prepare
from benchmarks.deletion.fourier import Fourier
from benchmarks.deletion.guesses import VARIANTS, attack, rows_of
from benchmarks.deletion.large_network import damped
from benchmarks.deletion.mnist import PENALTY, WIDTH, pixels_of
from benchmarks.deletion.page import ALL, MAXDIFF, PUBLISHED
from benchmarks.pictures import add_arguments, images_of
from benchmarks.study import Study, table

TWO = {k: VARIANTS[k] for k in (PUBLISHED, ALL)}
SIZES = (10, 25, 50, 100, 200, 400, 899)
EPSILONS = (np.inf, 1e5, 1e4, 1e3, 100.0, 10.0, 1.0)
INTRODUCTION = """# HRec beyond its tables

Made by `python -m benchmarks.deletion.hrec_more`. Half of the records are private and half public, unless a row says
otherwise. Records of digits have pixels in [-1, 1]. Cosines are medians over deletions, with 95 % bootstrap intervals.
*Label* is the share of labels that are inferred correctly. [DELETION.md](DELETION.md) explains the methods.
"""
TITLES = {
    "targets": "How well the target models predict the public half",
    "public": "Against the number of public records",
    "embedding": "The last layer of a network that was trained before",
    "private": "Against learners with differential privacy",
    "steps": "Pairs that one step made",
    "updates": "Against an attack that sees only outputs",
    "unpenalised": "Softmax almost without a penalty",
    "damped": "Networks of more than 4,000 parameters, by Hessian-vector products",
}


def digits(options):
    """Images in [-1, 1] and their classes: a data set's where there is a folder, else scikit-learn's."""
    if options.data is not None:
        images = images_of(options)
        return images.name, pixels_of(images), images.y
    return eight_by_eight()


def eight_by_eight():
    x, y = load_digits(return_X_y=True)
    return "Digits", x / 8 - 1, y


def scored(setting, one, found, **more):
    """Rows of one experiment, each with what was varied."""
    return [{"setting": setting} | row | more for row in rows_of([one], [found])]


def targets(options):
    rows = []
    for name, load_table in (("Breast cancer", load_breast_cancer), ("Diabetes", load_diabetes)):
        x, y = load_table(return_X_y=True)
        x = (x - x.mean(0)) / x.std(0)
        number = y.dtype.kind == "f"
        loss = "squared" if number else "logistic"
        y = (y - y.mean()) / y.std() if number else y
        rows.append(target(f"{name}, {'ridge' if number else 'logistic'}", x, y, loss=loss, penalty=1.0))
    name, x, y = digits(options)
    rows.append(target(f"{name}, softmax", x, y, loss="softmax", outputs=int(y.max()) + 1, penalty=1.0))
    phi = Fourier(x.shape[1], 200 if options.part == "small" else WIDTH, 20.0, np.random.default_rng(2))
    features = embed(phi, x)
    for part, loss, response in (("ridge-rff", "squared", np.eye(int(y.max()) + 1)[y]), ("softmax-rff", "softmax", y)):
        title = f"{name}, {part.removesuffix('-rff')} over {features.shape[1]} random Fourier features"
        rows.append(target(title, features, response, loss=loss, outputs=int(y.max()) + 1, penalty=PENALTY[part]))
    return rows


def target(title, x, y, *, loss, penalty, outputs=1):
    """Accuracy, F1 (the mean over classes) and r2 of a model that the private half trained."""
    private, public, _ = halves(len(x), 1, 0)
    model = load("linear_predictor", loss=loss, features=x.shape[1], outputs=outputs, penalty=penalty)
    trained = train(model, {"x": x[private], "y": y[private]}).release
    eta = _eta(trained, {"x": x[public]})
    row = {"model": title, "private": len(private), "public": len(public)}
    if outputs == 1 and loss == "squared":
        return row | {"r2": float(r2_score(y[public], eta[:, 0]))}
    guess = (eta[:, 0] > 0).astype(int) if eta.shape[1] == 1 else eta.argmax(axis=1)
    true = y[public] if y.ndim == 1 else y[public].argmax(axis=1)
    return row | {"accuracy": float(np.mean(guess == true)), "F1": float(f1_score(true, guess, average="macro"))}


def public(options):
    """The same deletions with fewer and fewer public records."""
    _, x, y = eight_by_eight()
    one = prepare("", x, y, *halves(len(x), options.deletions, 3), loss="softmax", outputs=10)
    rows = []
    for m in SIZES:
        known = {k: v[:m] for k, v in one.public.items()}
        rows += scored(f"{m} public", fewer := replace(one, public=known), attack(fewer, TWO), records=m)
    return rows


def embedding(options):
    """A network that other records trained, whose hidden layer is the embedding; the last layer is trained again."""
    name, x, y = digits(options)
    order = np.random.default_rng(20).permutation(len(x))
    first, rest = np.split(order, [len(x) // 5])
    fit = MLPClassifier((64,), activation="tanh", max_iter=60, random_state=0).fit(x[first], y[first])
    weights, bias = jnp.asarray(fit.coefs_[0]), jnp.asarray(fit.intercepts_[0])
    parts = halves(len(rest), options.deletions, 21)
    settings = {"loss": "softmax", "outputs": int(y.max()) + 1, "penalty": 1.0}
    one = prepare("", x[rest], y[rest], *parts, phi=lambda v: jnp.tanh(v @ weights + bias), **settings)
    more = {"private": len(one.private["x"]), "accuracy": one.accuracy}
    return scored(f"{name}, 64 hidden units, trained on {len(first):,} others", one, attack(one, TWO), **more)


def private(options):
    """Odd or even digits by logistic regression, each of the two trainings with its own noise."""
    _, x, y = eight_by_eight()
    own, known, deleted = halves(len(x), options.deletions, 3)
    norm, odd, rows = x.shape[1] ** 0.5, y % 2, []
    for mechanism in (OutputPerturbation, ObjectivePerturbation):
        for epsilon in EPSILONS:
            exact = {"epsilon": 1e12 if np.isinf(epsilon) else epsilon}
            learner = mechanism(**exact, norm=norm)
            penalty = 2 * learner.penalty * len(own)  # of coefficients and intercept, which are columns over sqrt(2)
            settings = {"loss": "logistic", "features": x.shape[1], "penalty": penalty, "intercept_penalty": penalty}
            model = load("linear_predictor", **settings)
            before = _released(model, learner, x[own], odd[own], 0)
            pairs = []
            for i, row in enumerate(deleted):
                left = np.delete(own, row)
                pairs.append(bayesrecon.deletion(before, _released(model, learner, x[left], odd[left], 1 + i)))
            data = [{"x": x[part] / norm, "y": odd[part]} for part in (own, known)]
            one = Experiment("", model, *data, deleted, pairs)
            told = "no noise" if np.isinf(epsilon) else f"epsilon {epsilon:g}"
            title = f"{learner.mechanism}, {told}"
            rows += scored(title, one, attack(one, TWO), epsilon=None if np.isinf(epsilon) else epsilon)
    return rows


def _released(model, learner, x, y, seed):
    theta = learner.fit(Records(x, y), 2, seed).theta / 2**0.5
    return dirac(model, {"coef": theta[None, :-1], "intercept": theta[-1:]}, name=learner.mechanism)


def steps(options):
    """Retraining, a released Newton step and one gradient step, of the same records."""
    _, x, y = eight_by_eight()
    one = prepare("", x, y, *halves(len(x), options.deletions, 3), loss="softmax", outputs=10)
    before = one.pairs[0].before
    newton = newton_step_without(before, one.private, one.rows)
    stepped = gradient_step_without(before, one.private, one.rows, rate=1e-3)
    rows = scored("retraining", one, attack(one, TWO))
    pairs = [bayesrecon.deletion(before, after) for after in newton]
    rows += scored("a Newton step", at := replace(one, pairs=pairs), attack(at, TWO))
    pairs = [bayesrecon.deletion(before, after) for after in stepped]
    rows += scored("a gradient step", at := replace(one, pairs=pairs), attack(at, TWO))
    found = [bayesrecon.reconstruct(pair, attack=OneStep()) for pair in pairs]
    cosines = cosine_similarity(np.stack([f.record["x"] for f in found]), one.truth)
    right = sum(int(f.record["y"]) == one.private["y"][row] for f, row in zip(found, one.rows, strict=True))
    middle = bootstrap(cosines)
    told = {"setting": "a gradient step", "method": "OneStep", "deletions": len(found), "median": middle.estimate}
    told |= {"interval": [middle.lower, middle.upper], "label": list(clopper_pearson(right, len(found)))}
    return [*rows, told]


def updates(options):
    """Updates-Leak (Salem et al. 2020): shadow deletions among public records teach a decoder how the change of outputs
    at probing records tells the record that was deleted. Of three decoders the one that is best on folds of the shadow
    deletions is used; their paper has a network."""
    _, x, y = eight_by_eight()
    own, known, deleted = halves(len(x), options.deletions, 3)
    settings = {"loss": "softmax", "outputs": 10}
    one = prepare("", x, y, own, known, deleted, **settings)
    probes, shadow = np.split(known, [100])
    left = np.random.default_rng(22).permutation(len(shadow))[: 40 if options.part == "small" else 600]
    taught = prepare("", x, y, shadow, probes, left, **settings)
    seen, asked = (_changes(some.pairs, x[probes]) for some in (taught, one))
    rows = scored(f"Digits, softmax, {len(left)} shadow deletions", one, attack(one, TWO))
    decoders = {
        "network": MLPRegressor(hidden_layer_sizes=(128, 64), early_stopping=True, max_iter=2000, random_state=0),
        "ridge": RidgeCV(np.logspace(-2, 6, 17)),
        "10 nearest changes": KNeighborsRegressor(10, weights="distance"),
    }
    decoders = {name: make_pipeline(Normalizer(), StandardScaler(), model) for name, model in decoders.items()}
    held = {name: cross_val_predict(model, seen, taught.truth) for name, model in decoders.items()}
    held = {name: float(np.median(cosine_similarity(found, taught.truth))) for name, found in held.items()}
    best = max(held, key=held.__getitem__)
    cosines = cosine_similarity(decoders[best].fit(seen, taught.truth).predict(asked), one.truth)
    middle = bootstrap(cosines)
    told = {"setting": rows[0]["setting"], "method": "Updates-Leak", "deletions": len(cosines)}
    told |= {"median": middle.estimate, "interval": [middle.lower, middle.upper], "decoder": best}
    return [*rows, told | {"on shadow deletions": held}]


def _changes(pairs, probes):
    """How class probabilities at probing records change, `(pairs, probes * classes)`."""
    both = [[softmax(_eta(side, {"x": probes}), axis=1) for side in (pair.before, pair.after)] for pair in pairs]
    return np.stack([(after - before).ravel() for before, after in both])


def unpenalised(options):
    """Softmax over random Fourier features, the penalty smaller and smaller: without one there is no optimum."""
    name, x, y = digits(options)
    width = 200 if options.part == "small" else WIDTH
    some = halves(len(x), min(options.deletions, 20), 10)
    phi = Fourier(x.shape[1], width, 20.0 if name == "MNIST" else 5.0, np.random.default_rng(2))
    rows = []
    for penalty in (10.0, 1.0, 0.1, 0.01):
        title = f"{name}, {width} features, penalty {penalty:g}"
        try:
            one = prepare("", x, y, *some, loss="softmax", outputs=int(y.max()) + 1, penalty=penalty, phi=phi)
        except BayesreconError as error:
            return [*rows, {"setting": title, "method": f"training refused: {error}"}]
        rows += scored(title, one, attack(one, TWO), penalty=penalty, accuracy=one.accuracy, seconds=one.seconds)
    return rows


PARTS = {"targets": targets, "public": public, "embedding": embedding, "private": private, "steps": steps}
PARTS |= {"updates": updates, "unpenalised": unpenalised, "damped": damped}


def page(kept):
    lines = [INTRODUCTION]
    for part, title in TITLES.items():
        if part not in kept:
            lines += [f"## {title}", "", "Not run yet.", ""]
        elif part == "targets":
            head = ("model", "private", "public", "accuracy", "F1", "r2")
            cells = [[r.get(k, "") if i < 3 else cell(r.get(k)) for i, k in enumerate(head)] for r in kept[part]]
            lines += [f"## {title}", "", table(head, cells), ""]
        else:
            lines += [f"## {title}", "", beside(kept[part]), ""]
    return "\n".join(lines)


def cell(value):
    return "" if value is None else f"{value:.3f}"


def beside(rows):
    """One line for every setting: each method's median cosine."""
    lines, methods = [], (PUBLISHED, ALL, "Avg: mean public record", MAXDIFF, "OneStep", "Updates-Leak")
    methods = [m for m in methods if any(r["method"] == m for r in rows)]
    for setting in dict.fromkeys(r["setting"] for r in rows):
        of = {r["method"]: r for r in rows if r["setting"] == setting}
        told = [r["method"] for r in of.values() if "median" not in r]
        right = of.get("OneStep", of.get(ALL, {})).get("label")
        label = "{:.1%} ({:.1%} to {:.1%})".format(*right) if right else "".join(told)
        count = max((r.get("deletions", 0) for r in of.values()), default=0)
        lines.append([setting, count, *(median(of.get(m)) for m in methods), label])
    return table(("setting", "deletions", *(m.partition(":")[0] for m in methods), "label, improved"), lines)


def median(row):
    return "" if row is None else "{:.4f} ({:.4f} to {:.4f})".format(row["median"], *row["interval"])


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; what is missing by default")
    add_arguments(parser, ("mnist", "fashion", "cifar10", "cifar100", "tiny_imagenet"), required=False)
    parser.add_argument("--deletions", type=int, default=100)
    options = STUDY.given(parser)
    options.deletions = min(options.deletions, 5) if options.part == "small" else options.deletions
    for part in options.parts or [p for p in PARTS if p not in STUDY.kept()]:
        STUDY.add(**{part: PARTS[part](options)})
        jax.clear_caches()


if __name__ == "__main__":
    main()
