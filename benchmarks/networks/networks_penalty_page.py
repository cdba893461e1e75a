"""The section of benchmarks/NETWORKS.md, and the picture, on an image behind fewer features than pixels."""

import matplotlib.pyplot as plt
import numpy as np

from bayesrecon.evaluate import bootstrap
from benchmarks.networks.networks_penalty import NULLS, SHADOWS, SHAPE, WAYS
from benchmarks.study import table

FREE, FULL = "nothing known of pixels", "domain and total variation"
PAIRS = ((FULL, "domain"), (FULL, "domain and squares"), ("domain", FREE), ("box penalty", FREE))
SHOWN = 5
NUMBERS = ("equations", "residual", "ssim", "null_ssim", "rmse")

TEXT = """## An image behind few features: box and total variation

Made by `python -m benchmarks.networks.networks_penalty --data DIR`. A frozen random layer, which the attack knows
as it would
one trained elsewhere, makes *features* of 196 pixels (MNIST at 14 by 14); a ten-class softmax head is trained on 50
private images with weight decay 0.1, to a gradient of at most {gradient:.0e}. The attack knows 49 of the images and the
label of the last, and matches its gradient (`GradientMatching(n=1, multipliers="one", regulariser=...)`): it sees the
features and no more, so the data alone do not determine the pixels. The strength of each penalty is that with the
smallest error on {shadows} public images, each hidden in the same place in a head that the attack trained itself; all
ways start alike. *Beyond nulls* counts private images to which the reconstruction is more alike than to each of {nulls}
images of the same class that were not in the training set; *mean image* is that of the class's public images, for which
no release is needed. Values are medians over private images. Where the residual is above 1e-3 without a penalty,
descents ended at faces of the box before the equations were solved; a penalty helps them as well."""


def section(rows):
    parts = [TEXT.format(gradient=max(r["gradient"] for r in rows), shadows=SHADOWS, nulls=NULLS)]
    head = ("way", "features", "images", "equations", "strength", "residual", "SSIM", "null", "RMSE", "beyond nulls")
    lines = []
    for width, own in _by_width(rows):
        for way in WAYS:
            each = [r[way] for r in own]
            beyond = sum(e["ssim"] > max(e["null_ssim"]) for e in each)
            strength = each[0]["strength"]
            middle = {k: np.median([np.median(e[k]) for e in each]) for k in NUMBERS}
            cells = [way, width, len(own), f"{middle['equations']:.0f} of 196"]
            cells += ["" if strength is None else f"{strength:g}"]
            cells += [f"{middle['residual']:.0e}", *(f"{middle[k]:.3f}" for k in NUMBERS[2:])]
            lines.append([*cells, f"{beyond} of {len(own)}"])
        mean = [r["mean"] for r in own]
        similarity, error = (f"{np.median([m[k] for m in mean]):.3f}" for k in ("ssim", "rmse"))
        lines.append(("mean image", width, len(own), "", "", "", similarity, "", error, ""))
    parts += [table(head, lines), "\n".join(_differences(rows))]
    parts.append("![Private images, and what every way makes of 80 features](networks-penalty.png)")
    return "\n\n".join(parts)


def _by_width(rows):
    for width in sorted({r["width"] for r in rows}):
        yield width, [r for r in rows if r["width"] == width]


def _differences(rows):
    """Of the same image, by two ways: the median with its 95 % bootstrap interval."""
    yield "Paired differences, median over images with its 95 % bootstrap interval:\n"
    for width, own in _by_width(rows):
        for better, worse in PAIRS:
            texts = []
            for name, key in (("SSIM", "ssim"), ("RMSE", "rmse")):
                found = bootstrap(np.array([r[better][key] - r[worse][key] for r in own]))
                texts.append(f"{name} {found.estimate:+.3f} ({found.lower:+.3f} to {found.upper:+.3f})")
            wins = sum(r[better]["rmse"] < r[worse]["rmse"] for r in own)
            yield f"* {width} features, {better} against {worse}: {', '.join(texts)}; closer in {wins} of {len(own)}."


def picture(rows, path, width=80):
    own = [r for r in rows if r["width"] == width][:SHOWN]
    if not own:
        return
    figure, axes = plt.subplots(len(own), len(WAYS) + 1, figsize=(8.5, 1.45 * len(own)), layout="constrained")
    for i, (line, row) in enumerate(zip(np.atleast_2d(axes), own, strict=True)):
        shown = [("private", row["image"], None)] + [(w, row[w]["guess"], row[w]["ssim"]) for w in WAYS]
        for ax, (name, image, value) in zip(line, shown, strict=True):
            ax.imshow(np.reshape(image, SHAPE), cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.set_xlabel("" if value is None else f"SSIM {value:.2f}", fontsize=7)
            if i == 0:
                ax.set_title(name.replace(" and ", "\nand ").replace(" known ", "\nknown "), fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
