"""Deleted instances of nearest neighbours, as the page benchmarks/INSTANCES.md.

python -m benchmarks.games.instances --data DIR [--part all] [--deletions 300] [--approximations 150]

DIR holds Omniglot's images_background_small1.zip, or for other parts the whole set (Lake, Salakhutdinov and Tenenbaum
2015).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn.datasets

from bayesrecon import datasets
from bayesrecon.attacks.deletion.instance import MEAN, MEDIAN, deleted_instance
from bayesrecon.evaluate import bootstrap, clopper_pearson
from bayesrecon.games import Neighbours
from bayesrecon.games.data import Records
from bayesrecon.games.learners import Voters
from bayesrecon.games.reconstructor import BOX, LOCAL, NORMAL, points_of
from benchmarks.study import Study, table

FIGURE = "instances-omniglot.png"
TRAINING, AUXILIARY, SHOWN = 140, (35, 70, 140, 200, 300, None), 8
POINTS = 10_000

INTRODUCTION = """# Deleted instances of nearest neighbours

Made by `python -m benchmarks.games.instances --data DIR`. A nearest-neighbour classifier is queried at many points
before and after one of its records was deleted. The centre of the points whose label changed is the reconstruction
(`games.DeletedInstance`). If no label changed there is no answer. Rates are in %, with 95 % Clopper-Pearson intervals;
means have 95 % bootstrap intervals.
"""
OMNIGLOT = """## Omniglot, the nearest neighbour

The data are images of five alphabets (Balinese, Early Aramaic, Greek, Korean, Latin) with 105 by 105 black and white
pixels. The alphabet is the label. Every deletion has its own random split: {training} training images of each alphabet,
and as many auxiliary images as the first column says (in the last rows all remaining images).

* *Centre*: the *majority* of every pixel, as published, with undecided pixels half grey; or the *mean*, which keeps
  strokes that do not overlap.
* *Said*: the share of deletions with an answer, that is, in which some label changed.
* *Points*: the median number of images whose label changed.
* *Right label*: the share of answers to which the first model gives the right label.
* *Deleted image*: the share of answers whose nearest training image is the deleted one.
* *Without deletion*: the share of right labels for a baseline, over all deletions. The baseline is the same centre of
  all auxiliary images to which the model gives the deleted image's label. Chance is {chance}.

Published (Gao et al. 2022, 30 alphabets, {training} and 140 images of each, 100 deletions): 40 said, 35 of them
right label, 1 of 40 without deletion.

The deleted image is the nearest one by construction: it is the nearest training image of every point that changed. The
result of interest is the share of deletions with an answer. At first undecided pixels were
decided by the majority of all auxiliary images. That gave 88 % with 140 images and 83 % with all images. Half grey, the
median, was chosen after this result was seen.
"""
OMNIGLOT_HEAD = (
    "auxiliary of each", "centre", "deletions", "said", "95 %", "points", "right label", "95 %", "deleted image",
)  # fmt: skip
OMNIGLOT_HEAD += ("95 %", "without deletion", "95 %")
APPROXIMATION = """## Approximation of the data of three nearest neighbours

Features are scaled to [0, 1] over the whole table, once. {points:,} points: *range*: uniform in [0, 1]; *local* and
*normal*: drawn from the public half's kernel density, or from a normal distribution of its mean and covariance (see
`games.DeletedInstance`). *Private* is the share of the records that is. *Fails*: no label changed. Euclidean distances
to the deleted record, means over the other deletions: of the *estimate*, the mean of the points that changed, and of
their *median*; of *single* points that changed; of *random* points; and of the mean of all points that the model gives
the deleted record's *label*, which needs no deletion. Published: the workshop version of Gao et al. 2022; its second
distance is that of single points. On Iris the mean of the label's points, without a deletion, is nearer than the
estimate from the range; its mean is over all deletions, those that fail included. Local and normal queries come nearer
and fail more often than the range with the same half.
"""
APPROXIMATION_HEAD = ("data", "private", "points", "deletions", "fails", "95 %", "estimate", "95 %", "median", "single")
APPROXIMATION_HEAD += ("random", "label", "published: fails, estimate, single")
PUBLISHED = {("iris", 0.9): "34, 0.32, 0.64", ("wine", 0.9): "6.7, 0.75, 0.99"}


def apart(one, other):
    """Squared distances `(n, m)`: of black and white images, how many pixels differ."""
    one, other = one.astype(np.float32), other.astype(np.float32)
    return (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T


def split(labels, rng):
    """Training images, and the others of every alphabet in random order."""
    orders = [rng.permutation(np.flatnonzero(labels == c)) for c in np.unique(labels)]
    return np.concatenate([o[:TRAINING] for o in orders]), [o[TRAINING:] for o in orders]


def omniglot(folder, part, deletions, seed):
    """Of every number of auxiliary images one row a deletion: points; of the majority and of the mean, whether the
    label is right without the deletion and with it, and whether the image is (with it)."""
    data = datasets.omniglot(folder, part)
    known, alphabets = np.unique([name.partition("/")[0] for name in data.names], return_inverse=True)
    images, labels, known = (data.x > 0.5).astype(np.uint8), alphabets[data.y], known.tolist()
    far = apart(images, images).astype(float)
    found, shown = {str(many or "all"): [] for many in AUXILIARY}, []
    for number in range(deletions):
        rng = np.random.default_rng((seed, number))
        training, others = split(labels, rng)
        gone = int(rng.integers(len(training)))
        trained, y = images[training], labels[training]
        before, after = (Voters(None, y, 1, len(known), rows) for rows in (np.zeros(0, int), np.array([gone])))
        for many in AUXILIARY:
            asked = np.concatenate([o[:many] for o in others])
            here = far[np.ix_(asked, training)]
            said = before(here)
            answers = after(here)
            results = [deleted_instance(images[asked], said, answers, centre) for centre in (MEDIAN, MEAN)]
            alike = images[asked[said.argmax(axis=1) == y[gone]]]
            plain = [np.median(alike, axis=0), alike.mean(axis=0)]
            guesses = plain if results[0].x is None else [*plain, *(r.x for r in results)]
            nearest = apart(np.stack(guesses), trained).argmin(axis=1)
            right, own = (y[nearest] == y[gone]).tolist(), (nearest == gone).tolist()
            found[str(many or "all")].append([len(results[0].rows), right[:2], right[2:], own[2:]])
            if many is None and len(guesses) == 4 and len(shown) < SHOWN:
                shown.append((trained[gone], guesses[2], guesses[3], guesses[0], len(results[0].rows)))
    draw(shown)
    return {"alphabets": known, "images": len(images), "rows": found}


def draw(shown):
    """The first deletions of which something was said, with all auxiliary images."""
    if not shown:
        return
    figure, axes = plt.subplots(4, len(shown), figsize=(1.2 * len(shown), 5.3), squeeze=False)
    for column, (*pictures, points) in zip(axes.T, shown, strict=True):
        for ax, picture in zip(column, pictures, strict=True):
            ax.imshow(picture.reshape(105, 105), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        column[0].set_title(f"{points} point{'s' if points > 1 else ''}", fontsize=8)
    for ax, name in zip(axes[:, 0], ("deleted", "majority", "mean", "without deletion"), strict=True):
        ax.set_ylabel(name, fontsize=8)
    figure.tight_layout()
    figure.savefig(STUDY.folder / FIGURE, dpi=80, metadata={"Software": None})
    plt.close(figure)


def approximation(name, private, queries, deletions, seed):
    """Of every deletion: distances of the estimate, the median, single points, random points and of the label's mean;
    the first three None where no label changed."""
    x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    x = (x - x.min(axis=0)) / np.ptp(x, axis=0)
    learner, found = Neighbours(3), []
    for number in range(deletions):
        rng = np.random.default_rng((seed, number))
        order, size = rng.permutation(len(x)), int(private * len(x))
        records, public = Records(x[order[:size]], y[order[:size]]), x[order[size:]]
        gone = rng.integers(size, size=1)
        points = rng.uniform(size=(POINTS, x.shape[1])) if queries == BOX else points_of(queries, POINTS, public, rng)
        fitted = learner.fit(records, 3, 0)
        before, after = fitted(points), learner.without(fitted, records, gone, 3, 0)(points)
        truth = records.x[gone[0]]

        def far(guess, truth=truth):
            return float(np.linalg.norm(guess - truth, axis=-1).mean())

        results = [deleted_instance(points, before, after, centre) for centre in (MEAN, MEDIAN)]
        changed = results[0].rows
        three = [far(r.x) for r in results] + [far(points[changed])] if len(changed) else [None] * 3
        alike = before.argmax(axis=1) == records.y[gone[0]]
        found.append([*three, far(points), far(points[alike].mean(axis=0)) if alike.any() else None])
    return found


def percent(successes, trials):
    if not trials:
        return ["", ""]
    rate, low, high = clopper_pearson(int(successes), int(trials))
    return [f"{100 * rate:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]


def omniglot_rows(name, rows):
    said = [row for row in rows if row[0]]
    lines = []
    for i, centre in enumerate(("majority", "mean")):
        cells = [name, centre, len(rows), *percent(len(said), len(rows)), f"{np.median([r[0] for r in said] or [0]):g}"]
        for column in (2, 3):
            cells += percent(sum(row[column][i] for row in said), len(said))
        lines.append([*cells, *percent(sum(row[1][i] for row in rows), len(rows))])
    return lines


def approximation_row(key, rows):
    name, private, queries = key.split(", ")
    said = np.array([row for row in rows if row[0] is not None], float)
    mean = bootstrap(said[:, 0], np.mean)
    cells = [name, f"{float(private):.0%}", {BOX: "range"}.get(queries, queries), len(rows)]
    cells += [*percent(len(rows) - len(said), len(rows)), f"{mean.estimate:.2f}"]
    cells += [f"{mean.lower:.2f} to {mean.upper:.2f}"] + [f"{np.nanmean(said[:, i]):.2f}" for i in range(1, 5)]
    return [*cells, PUBLISHED.get((name, float(private)), "")]


def page(kept):
    rows = kept["omniglot"]["rows"]
    chance = f"{100 / len(kept['omniglot']['alphabets']):.0f} %"
    total = kept["omniglot"]["images"] - TRAINING * len(kept["omniglot"]["alphabets"])
    lines = [INTRODUCTION, OMNIGLOT.format(training=TRAINING, chance=chance)]
    names = {name: f"all, {total:,} together" if name == "all" else name for name in rows}
    omniglot = [row for name, found in rows.items() for row in omniglot_rows(names[name], found)]
    lines += [
        table(OMNIGLOT_HEAD, omniglot), "", f"![Deleted and reconstructed images]({FIGURE})", "",
        APPROXIMATION.format(points=POINTS),
    ]  # fmt: skip
    found = [approximation_row(key, rows) for key, rows in kept["approximation"].items()]
    return "\n".join([*lines, table(APPROXIMATION_HEAD, found), ""])


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__, deletions=300, approximations=150, seed=11)
    parser.add_argument("--data", type=Path, metavar="FOLDER", required=True, help="files of Omniglot")
    parser.add_argument("--part", choices=("small1", "small2", "train", "test", "all"), default="small1")
    given = STUDY.given(parser)
    kept = {"omniglot": omniglot(given.data, given.part, given.deletions, given.seed), "approximation": {}}
    for name, rows in kept["omniglot"]["rows"].items():
        print(*omniglot_rows(name, rows), sep="\n", flush=True)
    for name in ("iris", "wine"):
        for private, queries in ((0.9, BOX), (0.5, BOX), (0.5, LOCAL), (0.5, NORMAL)):
            rows = approximation(name, private, queries, given.approximations, given.seed)
            kept["approximation"][f"{name}, {private}, {queries}"] = rows
            print(*approximation_row(f"{name}, {private}, {queries}", rows), sep=" | ", flush=True)
            STUDY.keep(kept)


if __name__ == "__main__":
    main()
