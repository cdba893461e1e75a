"""HRec on a small network: digits, one record deleted and the network trained on to its optimum.

python benchmarks/network_deletion.py [--deletions 30] [--hidden 8]

Results go to the page benchmarks/NETWORK_DELETION.md.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import bayesrecon
from bayesrecon import HRec
from bayesrecon.evaluate import clopper_pearson, cosine_similarity
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network

HERE = Path(__file__).resolve().parent
PAGE = """# The record deleted from a small network

Made by `python benchmarks/network_deletion.py`. Digits of 8 by 8 pixels, {private} private and {public} public records,
a tanh network with {hidden} hidden units and weight decay 1 on the summed loss; after each of {count} deletions it is
trained on from its old parameters to a relative gradient of at most {gradient:.0e}. Cosine similarity of pixels; *avg*
is the mean public image, *maxdiff* the public image whose probabilities change most. The metric of the match was
chosen with deletions of another split.

| median cosine, HRec | avg | maxdiff | above both | label right | with a warning |
| ---: | ---: | ---: | ---: | ---: | ---: |
| {found:.3f} | {avg:.3f} | {maxdiff:.3f} | {above} | {label} | {warned} |

Of the {below} that are not above both, {mistaken} have another label; {silent} of those {below} came without a warning:
the warnings are no calibrated statement.
"""


def output(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] + params["c"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deletions", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=8)
    options = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    x, rng, hidden = x / 8 - 1, np.random.default_rng(50), options.hidden
    order = rng.permutation(len(x))
    data, public = ({"x": x[part], "y": y[part]} for part in (order[:900], order[900:]))
    start = {"w": rng.normal(size=(64, hidden)) / 8, "b": np.zeros(hidden)}
    start |= {"v": rng.normal(size=(hidden, 10)) / 3, "c": np.zeros(10)}
    model = from_loss(
        output,
        lambda out, label: jax.nn.logsumexp(out) - out[label],
        lambda params: 0.5 * sum(jnp.sum(v**2) for v in params.values()),
        params=start,
        record={"x": (64,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(10))},
        name="digits",
    )
    before = train_network(model, start, data).release
    held, attack, rows = parameters(model, before), HRec(public=public), []
    likely = jax.nn.softmax(output(held, public["x"]))
    for row in rng.choice(900, options.deletions, replace=False):
        after = train_network(model, held, {k: np.delete(v, row, axis=0) for k, v in data.items()})
        found = bayesrecon.reconstruct(bayesrecon.deletion(before, after.release), attack=attack, total=900)
        moved = jax.nn.softmax(output(parameters(model, after.release), public["x"])) - likely
        guesses = found.record["x"], public["x"].mean(axis=0), public["x"][np.abs(moved).sum(axis=1).argmax()]
        cosines = cosine_similarity(np.stack(guesses), np.tile(data["x"][row], (3, 1)))
        rows.append(
            [*map(float, cosines), int(found.record["y"] == data["y"][row]), len(found.warnings), after.gradient]
        )
    (HERE / "network_deletion.json").write_text(json.dumps(rows) + "\n")
    a, sizes = np.array(rows), {"private": 900, "public": len(x) - 900, "hidden": hidden, "count": len(rows)}
    shown = {"found": np.median(a[:, 0]), "avg": np.median(a[:, 1]), "maxdiff": np.median(a[:, 2])}
    above, label = share(a[:, 0] > a[:, 1:3].max(axis=1)), share(a[:, 3] > 0)
    warned = int((a[:, 4] > 0).sum())
    lost, wrong, quiet = a[:, 0] <= a[:, 1:3].max(axis=1), a[:, 3] == 0, a[:, 4] == 0
    shown |= {"below": int(lost.sum()), "mistaken": int((lost & wrong).sum()), "silent": int((lost & quiet).sum())}
    text = PAGE.format(**sizes, **shown, gradient=a[:, 5].max(), above=above, label=label, warned=warned)
    (HERE / "NETWORK_DELETION.md").write_text(text)


def parameters(model, release):
    return {k: np.asarray(v) for k, v in model.constrain(release.theta[0]).items()}


def share(right):
    return "{:.1%} ({:.1%} to {:.1%})".format(*clopper_pearson(int(right.sum()), len(right)))


if __name__ == "__main__":
    main()
