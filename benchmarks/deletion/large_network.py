"""The record deleted from a network of more than 4,000 parameters, by products with the Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks.deletion.baselines import changed_most
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network
from benchmarks.deletion.network_deletion import PRIVATE, answers, parameters, two_layers
from benchmarks.deletion.page import ALL, MAXDIFF


def damped(options):
    """Digits by a network of more parameters than are factorised; after each deletion it is trained on."""
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    width, count = 64, min(options.deletions, 6)
    order, rng = np.random.default_rng(50).permutation(len(x)), np.random.default_rng(51)
    data, known = ({"x": x[part], "y": y[part]} for part in (order[:PRIVATE], order[PRIVATE:]))
    start = {"w": rng.normal(size=(64, width)) / 8, "b": np.zeros(width)}
    start |= {"v": rng.normal(size=(width, 10)) / width**0.5, "c": np.zeros(10)}
    model = from_loss(
        two_layers,
        lambda out, label: jax.nn.logsumexp(out) - out[label],
        lambda params: 0.5 * sum(jnp.sum(v**2) for v in params.values()),
        params=start,
        record={"x": (64,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(10))},
        name=f"{width} hidden units",
    )
    before = train_network(model, start, data, tolerance=1e-8).release
    held, deleted = parameters(model, before), rng.choice(PRIVATE, count, replace=False)
    found, nearest, left = [], [], 0.0
    for row in deleted:
        after = train_network(model, held, {k: np.delete(v, row, axis=0) for k, v in data.items()}, tolerance=1e-8)
        pair, left = bayesrecon.deletion(before, after.release), max(left, after.gradient)
        found.append(bayesrecon.reconstruct(pair, attack=HRec(public=known), total=PRIVATE))
        outputs = (answers(two_layers, parameters(model, r), known["x"]) for r in (pair.before, pair.after))
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
