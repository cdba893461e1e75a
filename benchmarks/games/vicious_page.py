"""The page VICIOUS.md and its figure, of the models that were trained (kept in benchmarks/vicious.json)."""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats

from bayesrecon.evaluate import linear_risk
from bayesrecon.games.vicious import roc_area
from benchmarks.study import table

FIGURE = "vicious.png"
ROWS = {
    "honest 0 logits": ("honest, decoder afterwards, logits", "none: no decoder was trained"),
    "honest 0 softmax": ("honest, decoder afterwards, softmax", "none: no decoder was trained"),
    "vicious 1 logits": ("1/1, logits", "22.090 / .920 / 1.378 / 99.53"),
    "vicious 3 logits": ("3/1, logits", "22.367 / .926 / 1.394 / 99.52"),
    "vicious 5 logits": ("5/1, logits", "22.336 / .927 / 1.392 / 99.55"),
    "vicious inf logits": ("1/0, logits", "22.169 / .926 / 1.398 / 10"),
    "vicious 1 softmax": ("1/1, softmax", "16.061 / .684 / 1.037 / 99.54"),
    "vicious 3 softmax": ("3/1, softmax", "none"),
    "vicious 5 softmax": ("5/1, softmax", "21.036 / .897 / 1.272 / 99.62"),
    "centred 3 logits": ("3/1, logits without their mean", "none"),
}
CLOTHES = {name: (title, "") for name, (title, _) in ROWS.items()}
CLOTHES["vicious 3 logits"] = "3/1, logits", "20.9 / .799 / 1.272 / 94.2"
SCORES = {
    "tuning": "fine-tuning, v", "tuning_centred": "fine-tuning, centred logits", "gradient": "gradient norm",
    "offset": "variance of the offset", "offset_gain": "what the offset adds to a linear reconstruction, dB",
}  # fmt: skip
HONEST, VICIOUS = ("honest 0 logits", "stopped"), ("vicious 3 logits", "early")
INTRODUCTION = """# What networks' outputs give away about their input

Made by `python -m benchmarks.games.vicious --data DIR --omniglot DIR`. Classifiers are trained together with a decoder
of their outputs. The data are MNIST's 10,000 test images of 28 by 28 pixels: 6,500 for training, 700 for choosing the
epoch, and 2,000 for queries. The detector uses the remaining 800 and the 2,000 for queries.

The networks are perceptrons 784-512-256-10 and their mirror images. The loss is `1 - SSIM + 5 Huber`. Training uses
Adam with rate 0.001, batches of 250, {epochs} epochs and no augmentation. Honest classifiers have {honest} epochs,
because their validation loss is lowest after about eight. *Honest, decoder afterwards*: the classifier is frozen, and
a decoder is trained on its outputs. Values are means over seeds with 95 % intervals from Student's t. PSNR is over all
pixels; the mean image alone has 11.7 dB. R is the reconstruction risk at the named cut; any linear model with ten
outputs has {linear} for a normal distribution.

CPU seconds are those of one process on a shared machine, for everything in a row.
"""
READING = """*Published* (Malekzadeh and Gunduz 2024: PSNR / SSIM / R at the cut 1.2e-4 / accuracy) is of six
times as many images, of 32 by 32 pixels, and a WideResNet: the order of the rows can be compared, the numbers cannot.
"""
DETECTOR = """## Can a third party tell?

Scores of the classifier that was received (`games.vicious.detection_scores`), on 2,800 records that it was not trained
on. Honest models: those above (best epoch), and others stopped after 1 to 15 epochs, so that the null is no one
stopping time. Vicious: ratio 3/1, logits, 30 epochs, and others after 10. The area under the ROC curve is the share of
pairs in which the vicious model has the larger score; intervals over models (Newcombe 2006, method 5). One half is
guessing; below it, honest models score higher. Which way a score points is fixed beforehand: turning it over after a
look would be no test.
"""
ALL_CLEAR = """A low score is no all-clear: no score measures what outputs give away, an honest model gives much of it
away, and a server that knows a score trains against it.
"""


def page(held, epochs, honest, missing):
    directions = held.get("directions mnist", {})
    linear = ", ".join(f"{linear_risk(p, 10):.4f} at {cut} ({p} directions)" for cut, p in directions.items())
    parts = [INTRODUCTION.format(epochs=epochs, honest=honest, linear=linear), rows(held), READING, bar(held)]
    parts.append(clothes(held))
    parts += [DETECTOR, detector(held), f"![scores]({FIGURE})\n", evasion(held), ALL_CLEAR, attacks(held)]
    parts.append(omniglot(held))
    gone = [name for name in missing if name not in held]
    if gone:
        counts = Counter(name.rpartition(" ")[0] for name in gone)
        listed = ", ".join(f"`{name}` ({count})" for name, count in counts.items())
        parts += ["## Not run yet", f"Models by kind, ratio and view; the program goes on with them: {listed}.\n"]
    parts.append("Losses, attributes that are learnt and wide residual networks: [VICIOUS_MORE.md](VICIOUS_MORE.md).\n")
    return "\n".join(p for p in parts if p)


def of(held, *starts):
    return [row for name, row in held.items() if any(name.startswith(f"{s} ") for s in starts)]


def interval(values, form):
    values = np.array(values, float)
    text = format(values.mean(), form)
    if len(values) < 2:
        return text
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{text} ± {format(half, form)}"


def clothes(held):
    """The models of the published table, of Fashion-MNIST."""
    if not of(held, "fashion"):
        return ""
    return (
        "## Fashion-MNIST\n\nThe same sizes, networks and training, on the test images of Fashion-MNIST. *Published* "
        "is of six times as many images and a WideResNet.\n\n" + rows(held, "fashion ", CLOTHES)
    )


def rows(held, data="", shown=ROWS):
    lines = []
    for start, (title, published) in shown.items():
        if not (found := of(held, data + start)):
            continue
        cells = [interval([r[k] for r in found], form) for k, form in (("psnr", ".2f"), ("ssim", ".3f"))]
        cells += [interval([r["risk"][cut] for r in found], ".3f") for cut in ("0.00012", "0.01")]
        cells += [interval([100 * r["accuracy"] for r in found], ".1f")]
        cells += [f"{np.mean([r['linear']['psnr'] for r in found]):.2f}" if "linear" in found[0] else ""]
        lines.append([title, len(found), *cells, f"{max(r['seconds'] for r in found):.0f}", published])
    head = ("model, decoder", "seeds", "PSNR", "SSIM", "R, cut 1.2e-4", "R, cut 1e-2", "accuracy, %")
    return table((*head, "PSNR, linear decoder", "CPU s, most", "published"), lines) + "\n"


def bar(held):
    """Vicious 3/1 beside honest, seed by seed."""
    beside = {name: name.replace("vicious 3", "honest 0") for name in held if name.startswith("vicious 3 logits ")}
    pairs = [(held[name], held[other]) for name, other in beside.items() if other in held]
    if not pairs:
        return ""
    gains = [
        interval([scale * (v[k] - h[k]) for v, h in pairs], form)
        for k, scale, form in (("psnr", 1, ".2f"), ("ssim", 1, ".3f"), ("accuracy", 100, ".1f"))
    ]
    return (
        f"Vicious 3/1 less honest with a decoder afterwards, logits, {len(pairs)} seeds: {gains[0]} dB, "
        f"{gains[1]} SSIM, {gains[2]} points of accuracy. Asked for were 1.5 dB and 0.1 SSIM "
        "at no more than one point of accuracy.\n"
    )


def detector(held):
    honest, vicious = ([r["scores"] for r in of(held, *starts) if "scores" in r] for starts in (HONEST, VICIOUS))
    if not (honest and vicious):
        return "Not run yet.\n"
    lines = []
    for key, title in SCORES.items():
        low, high = ([s[key] for s in side] for side in (honest, vicious))
        area = roc_area(low, high)
        ranges = [f"{min(v):.2g} to {max(v):.2g}" for v in (low, high)]
        lines.append([title, *ranges, f"{area.estimate:.3f}", f"{area.lower:.3f} to {area.upper:.3f}"])
    head = ("score", f"{len(honest)} honest", f"{len(vicious)} vicious", "ROC area", "95 %")
    best = max(lines, key=lambda line: float(line[3]))
    asked = "" if len(honest) >= 10 and len(vicious) >= 10 else " Ten models of either kind were asked for."
    low = float(best[4].split()[0])
    verdict = "at least the 0.95 that was asked for" if low >= 0.95 else "0.95, as asked for, is not established"
    return table(head, lines) + f"\n\nThe best, {best[0]}: {best[3]}, with an interval from {low}; {verdict}.{asked}\n"


def evasion(held):
    hidden, honest = of(held, "centred 3 logits"), of(held, *HONEST)
    if not (hidden and honest):
        return ""
    most, least = max(r["scores"]["offset"] for r in hidden), min(r["scores"]["offset"] for r in honest)
    psnr = interval([r["psnr"] for r in hidden], ".2f")
    return (
        f"Evaded: a vicious model (3/1) that takes the mean off its logits has an offset of at most {most:.1g}, honest "
        f"ones of at least {least:.2g}, and its decoder still has {psnr} dB ({len(hidden)} seeds).\n"
    )


def attacks(held):
    found = of(held, "inversion 0 logits")
    if not found:
        return ""
    lines = [[name, f"{v['psnr']:.2f}", f"{v['ssim']:.3f}"] for name, v in found[0]["attacks"].items()]
    head = ("attack on one honest model, 100 images", "PSNR", "SSIM")
    return "## With and without a decoder\n\n" + table(head, lines) + "\n"


def omniglot(held):
    found = {n: held[f"attributes 3 logits {n}"] for n in (1, 2, 5, 10, 20, 40) if f"attributes 3 logits {n}" in held}
    whole = held.get("characters 3 logits 0")
    if not (found or whole):
        return ""
    lines = [[f"{n} halves of the characters", *omniglot_cells(row)] for n, row in found.items()]
    lines += [["136 characters as classes", *omniglot_cells(whole)]] if whole else []
    head = ("outputs", "PSNR", "SSIM", "PSNR, mean image", "accuracy, %")
    return (
        "## Omniglot: the number of outputs\n\nFive alphabets, 28 by 28 pixels, 16 people's drawings known and four "
        "people's asked about; ratio 3/1, logits, one seed.\n\n" + table(head, lines) + "\n"
    )


def omniglot_cells(row):
    return [f"{row['psnr']:.2f}", f"{row['ssim']:.3f}", f"{row['mean']['psnr']:.2f}", f"{100 * row['accuracy']:.1f}"]


def draw(held, folder):
    figure, axes = plt.subplots(1, len(SCORES), figsize=(13, 3), layout="constrained")
    for ax, (key, title) in zip(axes, SCORES.items(), strict=True):
        for i, starts in enumerate((HONEST, VICIOUS, ("centred 3 logits",))):
            values = [r["scores"][key] for r in of(held, *starts) if "scores" in r]
            ax.plot(np.full(len(values), i) + np.linspace(-0.1, 0.1, len(values)), values, "o", alpha=0.6)
        ax.set_xticks((0, 1, 2), ("honest", "3/1", "3/1,\ncentred"))
        ax.set_xlim(-0.5, 2.5)
        ax.set_title(title.replace("what the offset adds to a linear reconstruction, dB", "dB by the offset"))
    figure.savefig(folder / FIGURE, dpi=110)
    plt.close(figure)
