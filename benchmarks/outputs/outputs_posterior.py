"""Images from the outputs of honest classifiers: linear decoder, inversion without a decoder, posterior draws.

python -m benchmarks.outputs.outputs_posterior --data DIR [--set fashion] [--part all] [--to DIR]
"""

import time
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, varies
from bayesrecon.attacks.outputs.decoding import fitted_decoder
from bayesrecon.attacks.outputs.posterior_sampling import PosteriorSampling, moments
from bayesrecon.attacks.outputs.record_prior import fitted_prior
from bayesrecon.evaluate import psnr
from bayesrecon.posteriors import outputs
from bayesrecon.precision import x64
from benchmarks.pictures import add_arguments, images_of
from benchmarks.study import Study, table

FIGURE = "outputs-posterior.png"
CALIBRATE = 40
COMPONENTS, STEPS = 40, 150
HEAD = ("model", "view", "method", "PSNR", "95 % interval of pixels", "of components", "mean half-width", "seconds")
INTRODUCTION = """# Images from the outputs of honest classifiers, with errors

Made by `python -m benchmarks.outputs.outputs_posterior`. MNIST's test images unless `--set` and `--part` say more, in
a random order: {trained} train the classifier, {public} are public, and {asked} of the others are asked about,
whose outputs alone are seen. PSNR in dB over all pixels of these images; the mean image has {mean:.2f}.
*95 % interval of pixels*: the share of pixels that vary whose value lies in the interval, over the images asked about,
between the 2.5 and 97.5 % points of a bootstrap over images; 90 to 98 % was asked for. Intervals are those of the
attacks: the linear decoder's from half of the public images that were not fitted, the others' scaled on {calibrate} of
them. *Of components*: the same for the {components} principal components, by the posterior's own standard deviations,
not scaled.

Accuracy of the classifiers on 1,000 further images: {accuracy}. The public law is normal, or a mixture of ten normal
laws, in {components} principal components; without noise the least error of an output is 0.01 of how outputs vary, and
what the components leave out adds to it. {steps} steps of warm-up and {steps} draws, one chain an image. Seconds are
for all images together, of a machine that others used, too. The numbers of
components and of clusters were tried on 30 public images before; nothing was chosen on the images asked about.

"""


@dataclass(frozen=True)
class Sizes:
    """How many images train the classifier, are public, and are asked about."""

    trained: int
    public: int
    asked: int

    @classmethod
    def of(cls, count):
        """4,000, 4,000 and 60 of 10,000 or more, as many fewer of fewer."""
        half = min(4000, round(0.4 * count))
        return cls(half, half, max(4, round(0.015 * half)))


def classifiers(x, y, sizes):
    """`(name, function, accuracy)`, written with JAX from scikit-learn's fits."""
    for name, fit in (
        ("softmax regression", LogisticRegression(C=0.05, max_iter=60)),
        ("784-64-10 network", MLPClassifier((64,), max_iter=15, random_state=0)),
    ):
        fit.fit(x[: sizes.trained], y[: sizes.trained])
        single = hasattr(fit, "coef_")
        pairs = [(fit.coef_.T, fit.intercept_)] if single else list(zip(fit.coefs_, fit.intercepts_, strict=True))
        layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in pairs]

        def predict(v, layers=layers):
            h = jnp.asarray(v)
            for w, b in layers[:-1]:
                h = jax.nn.relu(h @ w + b)
            return h @ layers[-1][0] + layers[-1][1]

        yield name, predict, float(fit.score(x[-(len(x) // 10) :], y[-(len(x) // 10) :]))


def parts(x, sizes):
    public = x[sizes.trained : sizes.trained + sizes.public]
    return public, x[sizes.trained + sizes.public :][: sizes.asked]


def scored(row, truth, guess, low, high, moving, began):
    """A row with the coverage of every image, whose bootstrap gives the interval."""
    inside = ((truth >= low - 1e-12) & (truth <= high + 1e-12))[:, moving].mean(axis=1)
    rng = np.random.default_rng(0)
    drawn = [inside[rng.integers(len(inside), size=len(inside))].mean() for _ in range(2000)]
    return row | {
        "psnr": float(psnr(truth, guess, value_range=1)), "coverage": float(inside.mean()),
        "between": np.quantile(drawn, [0.025, 0.975]).tolist(), "half": float(((high - low) / 2)[:, moving].mean()),
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def rows(model, predict, view, more, x, mixtures, sizes):
    public, asked = parts(x, sizes)
    first = answered(predict, asked[:1], view, more)
    release = outputs(predict, first[0], public=public, view=view, values=(0, 1), **more)
    z = release.answer.seen(np.asarray(predict(asked), float))
    rng = np.random.default_rng(1)
    at = split(sizes.public, rng)
    spread = public.std(axis=0)
    moving, ones = varies(spread), np.ones(public.shape[1])
    told = {"model": model, "view": view + (f" to {more['decimals']} decimal" if more else "")}
    began = time.perf_counter()
    decoder = fitted_decoder(public[at.fit], release.answers[at.fit])
    held = np.concatenate([at.calibrate, at.check])
    known = calibrated(public[held], np.clip(decoder(release.answers[held]), 0, 1), ones, spread, 0, (0, 1))
    guess = np.clip(decoder(z), 0, 1)
    ends = interval(guess, ones, known.factor, (0, 1))
    yield scored(told | {"method": "linear decoder"}, asked, guess, *ends, moving, began), guess
    few = at.calibrate[:CALIBRATE]
    if view in ("logits", "softmax"):
        began = time.perf_counter()
        targets = np.concatenate([release.answers[few], z])
        found = invert_embedding(release.answer, targets, public[at.fit], bounds=(np.zeros(x.shape[1]), ones)).x
        known = calibrated(public[few], found[:CALIBRATE], spread, spread, 0, (0, 1))
        guess = found[CALIBRATE:]
        ends = interval(guess, spread, known.factor, (0, 1))
        yield scored(told | {"method": "inversion without a decoder"}, asked, guess, *ends, moving, began), guess
    for clusters in mixtures:
        began = time.perf_counter()
        with x64():
            law = fitted_prior(release, at.fit, COMPONENTS, clusters, 0.01, 0)
        attack = PosteriorSampling(components=COMPONENTS, clusters=clusters, warmup=STEPS, draws=STEPS)
        c, lost = attack.sample(release, law, np.concatenate([release.answers[few], z]), rng)
        mean, sd = (np.stack(v) for v in zip(*(moments(law, one, (0, 1)) for one in c), strict=True))
        known = calibrated(public[few], mean[:CALIBRATE], sd[:CALIBRATE], spread, 0, (0, 1))
        guess, size = mean[CALIBRATE:], sd[CALIBRATE:]
        name = "posterior mean, " + ("normal distribution" if clusters == 1 else f"mixture of {clusters}")
        basis = law.arrays["basis"]
        true = (asked - law.arrays["mean"]) @ (basis / (basis**2).sum(axis=0))
        own = abs(true - c[CALIBRATE:].mean(axis=1)) <= 1.96 * c[CALIBRATE:].std(axis=1)
        extra = {"components": float(own.mean()), "factor": float(known.factor.max()), "divergent": int(lost.sum())}
        ends = interval(guess, size, known.factor, (0, 1))
        yield scored(told | {"method": name} | extra, asked, guess, *ends, moving, began), guess


def answered(predict, x, view, more):
    z = np.asarray(predict(x), float)
    if view == "logits":
        return z
    if view == "argmax":
        return z.argmax(axis=1)
    p = np.asarray(jax.nn.softmax(jnp.asarray(z), axis=1), float)
    return p.round(more["decimals"]) if more else p


def page(held):
    cells = []
    for row in held["rows"]:
        low, high = row["between"]
        components = f"{row['components']:.1%}" if "components" in row else ""
        coverage = f"{row['coverage']:.1%} ({low:.1%} to {high:.1%})"
        cells.append([row["model"], row["view"], row["method"], f"{row['psnr']:.2f}", coverage, components])
        cells[-1] += [f"{row['half']:.3f}", f"{row['seconds']:.0f}"]
    shown = held["sizes"] | {"calibrate": CALIBRATE}
    shown |= {"components": COMPONENTS, "steps": STEPS, "mean": held["mean"]}
    accuracy = ", ".join(f"{name} {value:.1%}" for name, value in held["accuracy"].items())
    figure = f"\n\n![Images and what outputs tell of them]({FIGURE})\n"
    return INTRODUCTION.format(accuracy=accuracy, **shown) + table(HEAD, cells, words=3) + figure


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__)
    add_arguments(parser, ("mnist", "fashion", "cifar10", "cifar100", "tiny_imagenet"))
    images = images_of(STUDY.given(parser))
    order = np.random.default_rng(0).permutation(len(images.x))
    x, y, sizes = images.x[order].astype(float), images.y[order], Sizes.of(len(order))
    public, asked = parts(x, sizes)
    models, pictures = list(classifiers(x, y, sizes)), {"input": asked}
    held = {"mean": float(psnr(asked, np.broadcast_to(public.mean(axis=0), asked.shape), value_range=1))}
    held |= {"accuracy": {name: accuracy for name, _, accuracy in models}, "sizes": asdict(sizes), "rows": []}
    plan = [(1, "logits", {}, (1, 10)), (0, "logits", {}, (1,)), (1, "rounded", {"decimals": 1}, (1,))]
    plan += [(1, "argmax", {}, (1,)), (1, "softmax", {}, (1,))]
    for number, view, more, mixtures in plan:
        name, predict, _ = models[number]
        for row, guess in rows(name, predict, view, more, x, mixtures, sizes):
            held["rows"].append(row)
            if (number, view) == (1, "logits"):
                pictures[row["method"]] = guess
            STUDY.keep(held)
        draw(pictures, images.shape)


def draw(pictures, shape):
    count = 8
    figure, axes = plt.subplots(len(pictures), count, figsize=(count, 1.15 * len(pictures)), layout="constrained")
    for line, (name, values) in zip(axes, pictures.items(), strict=True):
        for ax, image in zip(line, values, strict=False):
            ax.imshow(image.reshape(shape), cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        line[0].set_title(name, loc="left", fontsize="small")
    figure.savefig(STUDY.folder / FIGURE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
