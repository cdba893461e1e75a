"""What the outputs of linear classifiers give away: honest, vicious, with noise, rounded, asked several times.

python -m benchmarks.outputs.outputs --data DIR [--set fashion] [--part all] [--to DIR]
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesrecon import evaluate
from bayesrecon.attacks.outputs.decoding import linear_decoder
from bayesrecon.disclosure.output_numbers import rounding_noise, softmax_bits
from bayesrecon.evaluate import linear_risk, reconstruction_risk
from bayesrecon.games.vicious import train_linear
from benchmarks.pictures import add_arguments, images_of
from benchmarks.study import Study, table

FIGURE = "outputs-linear.png"
KNOWN = 0.8
RATIOS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
CUTS = (1e-10, 1.2e-4, 1e-3, 1e-2)
NOISE, CLASSES = np.logspace(-3, 0.5, 30), (2, 10, 100, 200)
PAGE = """# What the outputs of a linear classifier give away about its input

Made by `python -m benchmarks.outputs.outputs`. Images are reconstructed from the outputs of linear classifiers. The
data are {title}: {known:,} images are known to the server and the attacker, and {asked:,} are queried. The classifier
is a least squares fit of the class indicators, with a ridge penalty of a thousandth of the mean variance. *Ratio* is
the weight of the reconstruction relative to the task (0 is honest). *Offset* is the same with a number added to all
logits, which does not affect the task. Peak signal-to-noise ratios (PSNR) in dB are over all pixels of the queried
images, with the best linear decoder. The mean image alone has {mean:.2f} dB. R is the reconstruction risk at a cut of
the covariance's spectrum: the number means nothing without its cut.

{ratios}

{risks}

In brackets what every linear model with as many outputs has for a normal law, `evaluate.linear_risk`.

## Noise, rounding, several answers

![PSNR against noise](outputs-linear.png)

The scale of logits is that of least squares, where a class is worth one. Rounding adds noise of `10^-q / sqrt(12)`.

{rounding}

Several honest models that were trained on different parts of the 8,000 images and asked about one and the same image:

{several}

## Bits of an answer

{bits}
"""

STUDY = Study(__file__)


def decoder(model, noise=0.0):
    return linear_decoder(model.mean, model.covariance, model.weights, noise=noise, centre=model.centre)


def psnr(x, guess):
    """Over all pixels of all images, whose values range from 0 to 1."""
    return float(evaluate.psnr(x, np.broadcast_to(guess, x.shape), value_range=1))


def main():
    parser = STUDY.parser(__doc__)
    add_arguments(parser, ("mnist", "fashion", "cifar10", "cifar100", "tiny_imagenet"))
    images = images_of(STUDY.given(parser))
    order = np.random.default_rng(0).permutation(len(images.x))
    x, y, first = images.x[order].astype(float), images.y[order], round(KNOWN * len(order))
    known, asked = x[:first], x[first:]
    models = {(r, off): train_linear(known, y[:first], ratio=r, offset=off) for r in RATIOS for off in (False, True)}
    kept, rows = {}, []
    for ratio in RATIOS:
        plain, hiding = models[ratio, False], models[ratio, True]
        guess = decoder(plain)(plain(asked))
        kept[str(ratio)] = {
            "accuracy": float(np.mean(plain.classes(asked) == y[first:])),
            "psnr": psnr(asked, guess),
            "offset": psnr(asked, decoder(hiding)(hiding(asked))),
            "R": {str(cut): reconstruction_risk(asked, guess, known, rtol=cut) for cut in CUTS},
        }
        one = kept[str(ratio)]
        cells = [f"{ratio:g}", f"{one['accuracy']:.1%}", f"{one['psnr']:.2f}", f"{one['offset']:.2f}"]
        rows.append([*cells, *(f"{one['R'][str(cut)]:.4f}" for cut in CUTS)])
    bits = [[n, *(f"{b:.2f}" for b in (np.log2(n), *(softmax_bits(n, q) for q in (1, 2, 3))))] for n in CLASSES]
    text = PAGE.format(
        title=images.name, known=first, asked=len(asked), mean=psnr(asked, known.mean(axis=0)),
        ratios=table(("ratio", "accuracy", "PSNR", "with offset", *(f"R at {c:g}" for c in CUTS)), rows),
        risks=risks(known, asked, kept), rounding=rounding(models, asked, kept),
        several=several(known, y[:first], asked, kept),
        bits=table(("classes", "argmax", "1 decimal", "2 decimals", "3 decimals"), bits, words=0),
    )  # fmt: skip
    draw(models)
    STUDY.keep(kept)
    STUDY.place.write_text(text)


def risks(known, asked, kept):
    """Principal components, whose risk has a closed form."""
    mean, covariance = known.mean(axis=0), np.cov(known, rowvar=False)
    values, vectors = np.linalg.eigh(covariance)
    lines = []
    for cut in CUTS:
        directions, cells = int((values > cut * values[-1]).sum()), []
        for k in (10, 20, 50, 100):
            if k > directions - 2:
                cells.append("")
                continue
            top = vectors[:, -k:]
            found = reconstruction_risk(asked, mean + (asked - mean) @ top @ top.T, known, rtol=cut)
            kept[f"components {k} at {cut:g}"] = found
            cells.append(f"{found:.4f} ({linear_risk(directions, k):.4f})")
        lines.append([f"{cut:g}", directions, *cells])
    return table(("cut", "directions kept", "R of principal components: 10", "20", "50", "100"), lines)


def rounding(models, asked, kept):
    rows = []
    for name, key in (("honest", (0.0, False)), ("honest, offset", (0.0, True)), ("ratio 0.01", (0.01, False))):
        model, cells = models[key], []
        for q in (2, 1, 0):
            found = decoder(model, rounding_noise(q))(model(asked).round(q))
            kept[f"{name}, {q} decimals"] = psnr(asked, found)
            told = -10 * np.log10(decoder(model, rounding_noise(q)).error)
            cells.append(f"{psnr(asked, found):.2f} ({told:.2f})")
        rows.append([name, *cells])
    return table(("PSNR (closed form)", "2 decimals", "1 decimal", "whole numbers"), rows)


def several(known, y, asked, kept):
    parts = [train_linear(known[i::4], y[i::4]) for i in range(4)]
    law = train_linear(known, y)
    cells = []
    for count in (1, 2, 3, 4):
        weights = np.hstack([m.weights for m in parts[:count]])
        found = linear_decoder(law.mean, law.covariance, weights)
        kept[f"{count} models"] = psnr(asked, found((asked - law.mean) @ weights))
        cells.append(f"{kept[f'{count} models']:.2f}")
    return table(("models", "1", "2", "3", "4"), [["PSNR", *cells]])


def draw(models):
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for ratio, name in ((0.0, "honest"), (0.01, "ratio 0.01")):
        for free, more in ((False, ""), (True, ", with the free output")):
            errors = [decoder(models[ratio, free], s).error for s in NOISE]
            ax.plot(NOISE, -10 * np.log10(errors), label=name + more)
    variance = np.diag(models[0.0, False].covariance).mean()
    ax.axhline(-10 * np.log10(variance), color="0.5", linestyle=":", label="mean image")
    ax.set(xscale="log", xlabel="standard deviation of noise on every logit", ylabel="PSNR, dB (closed form)")
    ax.legend()
    figure.savefig(STUDY.folder / FIGURE, dpi=120)


if __name__ == "__main__":
    main()
