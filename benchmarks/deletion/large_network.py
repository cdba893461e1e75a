"""The record deleted from a network of more than 4,000 parameters, by products with the Hessian."""

import numpy as np

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks.deletion.prepared import changed_most
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.posteriors import train_network
from benchmarks.deletion.network_deletion import PRIVATE, answers, digits_model, parameters, split
from benchmarks.deletion.page import ALL, MAXDIFF
from tests.support.networks import output


def damped(options):
    """Digits by a network of more parameters than are factorised; after each deletion it is trained on."""
    (data, known), _ = split()
    width, count, rng = 64, min(options.deletions, 6), np.random.default_rng(51)
    start = {"w": rng.normal(size=(64, width)) / 8, "b": np.zeros(width)}
    start |= {"v": rng.normal(size=(width, 10)) / width**0.5, "c": np.zeros(10)}
    model = digits_model(output, start, f"{width} hidden units")
    before = train_network(model, start, data, tolerance=1e-8).release
    held, deleted = parameters(model, before), rng.choice(PRIVATE, count, replace=False)
    found, nearest, left = [], [], 0.0
    for row in deleted:
        after = train_network(model, held, {k: np.delete(v, row, axis=0) for k, v in data.items()}, tolerance=1e-8)
        pair, left = bayesrecon.deletion(before, after.release), max(left, after.gradient)
        found.append(bayesrecon.reconstruct(pair, attack=HRec(public=known), total=PRIVATE))
        outputs = (answers(output, parameters(model, r), known["x"]) for r in (pair.before, pair.after))
        nearest.append(known["x"][changed_most(*outputs, classes=True)["maxdiff"]])
    truth, rows = data["x"][deleted], []
    mean = np.tile(known["x"].mean(axis=0), (count, 1))
    guesses = {
        ALL: np.stack([f.record["x"] for f in found]),
        "Avg: mean public record": mean,
        MAXDIFF: np.stack(nearest),
    }
    right = sum(int(f.record["y"]) == data["y"][row] for f, row in zip(found, deleted, strict=True))
    for method, guess in guesses.items():
        middle = bootstrap(cosine_similarity(guess, truth))
        rows.append({"setting": f"{width} hidden units, {model.dimension:,} parameters", "method": method})
        rows[-1] |= {"deletions": count, "median": middle.estimate, "interval": [middle.lower, middle.upper]}
    rows[0] |= {"label": list(clopper_pearson(right, count)), "gradient": left}
    return rows
