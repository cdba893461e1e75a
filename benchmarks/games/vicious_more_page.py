"""The page VICIOUS_MORE.md and its figure, of the models that `vicious_more` trained."""

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.games.vicious_page import interval
from benchmarks.study import table

FIGURE = "vicious-images.png"
INTRODUCTION = """# Vicious classifiers beyond the table

Made by `python -m benchmarks.games.vicious_more --data DIR`. This page varies the training of vicious classifiers.
Images, networks and training are those of [VICIOUS.md](VICIOUS.md): MNIST's test images, 6,500 for training and 2,000
for queries. Values are means over seeds with 95 % intervals from Student's t. R is at the cuts 1.2e-4 and 1e-2.
Published figures are for other images and networks, so only orders of magnitude can be compared.
"""
LOSS = """## What reconstructions are trained for

On pixels between 0 and 1 Huber's loss with delta 1 is half the squared error: *MSE* is that one, *Huber* has delta 0.5.
"""
DELTA = """## Where Huber's loss becomes linear

Ratio 3/1, with SSIM. A smaller delta makes the loss itself smaller, and so the weight of reconstructions.
"""
OUTPUTS = """## How much outputs hold

*Softmax bits*: mean entropy of the probabilities. *Normal bits*: differential entropy of a normal distribution with the
covariance of the centred logits, in units of their mean standard deviation. Segments: R of these pixels alone, under
their own law, at the cut 1.2e-4.
"""
ATTRIBUTES = """## The number of attributes, learnt

Attributes that can be learnt: halves of the ten digits. *Sigmoid* gives the decoder the sigmoids of the logits.
"""
TASKS = """## One network for each attribute, or one for all

Honest networks; accuracy in %, ten attributes.
"""
CURIOUS = """## A classifier with a secret about its input

The task is whether a digit is odd, the secret whether it is 5 or more. *Afterwards*: a reader of the two probabilities
of an honest classifier. *Curious*: trained together, the secret's loss weighs 3; two probabilities hold one number, and
in some runs the secret takes all of it. {guess} % is guessing.
"""
NUMBERS = """## A regression that hides images

Ten numbers of an image, the ink of ten bands of rows; images are reconstructed from the predictions.
"""
WIDE = """## Wide residual networks

WideResNet-28-5 and its mirror, images of 32 by 32 pixels (an edge of two zeros), 50 epochs, no augmentation, on one
GPU; 6,500 images to train on, where the published figures have 50,000. Published, 3/1, logits: 22.367 / .926 / 1.394 /
99.52; 5/1, softmax: 21.036 / .897 / 1.272 / 99.62 (PSNR, SSIM, R at 1.2e-4, accuracy).
"""
HEAD = ("seeds", "PSNR", "SSIM", "R, cut 1.2e-4", "R, cut 1e-2", "accuracy, %")


def of(held, start):
    """Rows whose name begins so and ends with a seed."""
    return [row for name, row in held.items() if name.rpartition(" ")[0] == start]


def starts(held, word):
    """What begins with a word, once for all its seeds, in the order in which it came."""
    return list(dict.fromkeys(name.rpartition(" ")[0] for name in held if name.startswith(f"{word} ")))


def cells(rows):
    risks = [interval([r["risk"][cut] for r in rows], ".3f") for cut in ("0.00012", "0.01")]
    psnr, ssim = interval([r["psnr"] for r in rows], ".2f"), interval([r["ssim"] for r in rows], ".3f")
    right = interval([100 * r["accuracy"] for r in rows], ".1f") if "accuracy" in rows[0] else ""
    return [len(rows), psnr, ssim, *risks, right]


def plain(held, word, title, head):
    """A table of everything that begins with a word; nothing where there is nothing."""
    lines = [[start.partition(" ")[2], *cells(of(held, start))] for start in starts(held, word)]
    return [title, table((head, *HEAD), lines), ""] if lines else []


def page(held):
    lines = [INTRODUCTION, *plain(held, "loss", LOSS, "loss, ratio"), *plain(held, "delta", DELTA, "delta, ratio")]
    lines += [*outputs(held), *plain(held, "attributes", ATTRIBUTES, "attributes, ratio, view")]
    lines += [*tasks(held), *curious(held), *numbers(held), *plain(held, "wide", WIDE, "model, ratio, view")]
    return "\n".join(lines)


def outputs(held):
    rows = []
    for start in starts(held, "outputs"):
        found = of(held, start)
        bits = [interval([r[f"{kind} bits"] for r in found], ".3f") for kind in ("softmax", "normal")]
        names = found[0]["segments"]
        risks = [interval([r["segments"][name] for r in found], ".3f") for name in names]
        rows.append([start.partition(" ")[2], len(found), *bits, *risks])
    if not rows:
        return []
    head = ("model, ratio, view", "seeds", "softmax bits", "normal bits", *(f"R, {name}" for name in names))
    return [OUTPUTS, table(head, rows), "", f"![inputs and what was made of their outputs]({FIGURE})", ""]


def tasks(held):
    found = [row for name, row in held.items() if name.startswith("tasks ")]
    if not found:
        return []
    sides = {k: 100 * np.array([r[k] for r in found]) for k in ("alone", "several")}
    rows = [[i + 1, *(interval(v[:, i], ".1f") for v in sides.values())] for i in range(10)]
    rows.append(["mean", *(interval(v.mean(axis=1), ".2f") for v in sides.values())])
    return [TASKS, table(("attribute", "one network each", "one for all"), rows), ""]


def curious(held):
    found = [row for name, row in held.items() if name.startswith("curious ")]
    if not found:
        return []
    rows = [
        [title, *(interval([100 * r[k] for r in found], ".1f") for k in keys)]
        for title, keys in (
            ("honest, afterwards", ("honest accuracy", "honest secret")),
            ("curious", ("accuracy", "secret")),
        )
    ]
    guess = f"{100 * found[0]['guess']:.1f}"
    return [CURIOUS.format(guess=guess), table(("classifier", "task, %", "secret, %"), rows), ""]


def numbers(held):
    found = [row for name, row in held.items() if name.startswith("numbers ")]
    if not found:
        return []
    rows = []
    for title, r2, of_row in (
        ("honest, decoder afterwards", "honest r2", lambda r: r["honest"]),
        ("vicious, 3/1", "r2", lambda r: r),
    ):
        rows.append([title, *cells([of_row(r) for r in found])[:-1], interval([r[r2] for r in found], ".3f")])
    return [NUMBERS, table(("model", *HEAD[:-1], "r2"), rows), ""]


def draw(held, folder):
    """Inputs, and what decoders make of the outputs of each model."""
    shown = [(start.partition(" ")[2], of(held, start)[0]) for start in starts(held, "outputs")]
    shown = [(name, row) for name, row in shown if "images" in row]
    if not shown:
        return
    grid = [("input", shown[0][1]["inputs"]), *((name, row["images"]) for name, row in shown)]
    count = len(grid[0][1])
    figure, axes = plt.subplots(len(grid), count, figsize=(count, 1.2 * len(grid)), layout="constrained")
    for line, (name, images) in zip(axes, grid, strict=True):
        for ax, image in zip(line, images, strict=True):
            colours = () if round(len(image) ** 0.5) ** 2 == len(image) else (3,)
            side = round((len(image) / (3 if colours else 1)) ** 0.5)
            ax.imshow(np.reshape(image, (side, side, *colours)), cmap="gray", vmin=0, vmax=255)
            ax.set(xticks=[], yticks=[])
        line[0].set_title(name, loc="left", fontsize="small")
    figure.savefig(folder / FIGURE, dpi=110)
    plt.close(figure)
