"""HRec on small networks: digits, one record deleted, the network trained on to its optimum. Makes NETWORK_DELETION.md.

python -m benchmarks.deletion.network_deletion [--deletions 30]
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks.deletion.prepared import changed_most
from bayesrecon.evaluate import clopper_pearson, cosine_similarity
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network
from benchmarks.study import Study, table
from tests.support.networks import decay_of, output, softmax

PRIVATE, CANDIDATES, SURE = 900, 20, 0.9
COSINES = ("HRec", "avg", "MaxDiff", "MaxDiff of probabilities")
PAGE = """# The record deleted from a small network

Made by `python -m benchmarks.deletion.network_deletion`. Deleted digits of 8 by 8 pixels are reconstructed
from small networks. There are {private} private records. The networks are trained with weight decay 1 on the summed
loss. After each of {count} deletions, training continues from the old parameters to a relative gradient of at most
{gradient:.0e}. Options were chosen on other splits than this one.

* Values are median cosine similarities of pixels.
* *Avg* is the mean public image. *MaxDiff* is the public image whose outputs change most (Euclidean norm over classes),
  the published baseline for linear models. *Of probabilities* is the public image whose probabilities change most.
* *Above both* is the share of deletions in which HRec beats both avg and MaxDiff; the second time with MaxDiff of
  probabilities.
* *Stated* is the mean probability of the label that HRec found. *Sure* counts probabilities above {sure}, and *right*
  is the share of those that are right.
* *Which of {candidates}*: `infer_deletion` chooses among the deleted record and others that stay. Shown are the share
  of correct choices and the mean stated probability.

{table}
"""
HEAD = ("network", "parameters", "public records", "HRec", "avg", "MaxDiff", "of probabilities", "above both")
HEAD += ("of probabilities", "label right", "stated", "sure", "right", "with a warning")
HEAD += (f"which of {CANDIDATES}", "stated")


def convolution(params, x):
    image = x.reshape(1, 1, 8, 8)
    seen = jax.lax.conv_general_dilated(image, params["w"], (2, 2), "SAME")[0] + params["b"][:, None, None]
    return jnp.tanh(seen).reshape(-1) @ params["v"] + params["c"]


def digits_model(output, start, name):
    """The summed loss of ten classes with weight decay."""
    return from_loss(
        output, softmax, lambda params: decay_of(params, 1.0), params=start, record={"x": (64,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(10))}, name=name,
    )  # fmt: skip


def split():
    x, y = load_digits(return_X_y=True)
    x, rng = x / 8 - 1, np.random.default_rng(50)
    order = rng.permutation(len(x))
    return [{"x": x[part], "y": y[part]} for part in (order[:PRIVATE], order[PRIVATE:])], rng


def starts(rng):
    """Networks, where their training starts, and how many public records the attack has."""
    layers = {"w": rng.normal(size=(64, 8)) / 8, "b": np.zeros(8), "v": rng.normal(size=(8, 10)) / 3, "c": np.zeros(10)}
    filters = {"w": rng.normal(size=(4, 1, 3, 3)) / 3, "b": np.zeros(4)}
    filters |= {"v": rng.normal(size=(64, 10)) / 8, "c": np.zeros(10)}
    yield "8 hidden units, tanh", output, layers, (897, 300, 100, 40)
    yield "4 filters of 3 by 3, tanh", convolution, filters, (897,)


def main():
    parser = STUDY.parser(__doc__, deletions=30)
    options = STUDY.given(parser)
    (data, public), rng = split()
    found = {}
    for name, network, start, sizes in starts(rng):
        model = digits_model(network, start, name)
        before = train_network(model, start, data).release
        rows = rng.choice(PRIVATE, options.deletions, replace=False)
        held, afters = parameters(model, before), []
        for row in rows:
            kept = {k: np.delete(v, row, axis=0) for k, v in data.items()}
            afters.append(train_network(model, held, kept))
        for size in sizes:
            some = {k: v[:size] for k, v in public.items()}
            found[f"{name} | {model.dimension} | {size}"] = [
                attacked(network, model, before, after, data, int(row), some)
                for row, after in zip(rows, afters, strict=True)
            ]
            STUDY.keep(found)


def attacked(network, model, before, after, data, row, public):
    pair = bayesrecon.deletion(before, after.release)
    result = bayesrecon.reconstruct(pair, attack=HRec(public=public), total=PRIVATE)
    outputs = (answers(network, parameters(model, r), public["x"]) for r in (pair.before, pair.after))
    furthest = changed_most(*outputs, classes=True)
    baselines = public["x"].mean(axis=0), *(public["x"][i] for i in furthest.values())
    guesses = np.stack([result.record["x"], *baselines])
    others = np.setdiff1d(np.random.default_rng(row).choice(PRIVATE, CANDIDATES, replace=False), row)
    table = {k: v[np.append(row, others[: CANDIDATES - 1])] for k, v in data.items()}
    which = bayesrecon.infer_deletion(pair, table, public=public, total=PRIVATE).probability
    cosines = map(float, cosine_similarity(guesses, np.tile(data["x"][row], (len(guesses), 1))))
    return dict(zip(COSINES, cosines, strict=True)) | {
        "label right": int(result.record["y"] == data["y"][row]), "stated": result.probability,
        "warnings": len(result.warnings), "named": int(which.argmax() == 0), "stated of named": float(which.max()),
        "gradient": after.gradient,
    }  # fmt: skip


def answers(output, params, x):
    return np.asarray(jax.vmap(lambda one: output(params, one))(x))


def page(found):
    lines = []
    for name, rows in found.items():
        of = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        cells = [f"{np.median(of[key]):.3f}" for key in COSINES]
        cells += [share(of["HRec"] > np.maximum(of["avg"], of[other])) for other in COSINES[2:]]
        sure, right = of["stated"] > SURE, of["label right"] > 0
        cells += [share(right), f"{of['stated'].mean():.1%}", f"{sure.sum()}", share(right[sure])]
        cells += [f"{(of['warnings'] > 0).sum()}", share(of["named"] > 0), f"{of['stated of named'].mean():.1%}"]
        lines.append([name, *cells])
    every = [row for rows in found.values() for row in rows]
    sizes = {"private": PRIVATE, "candidates": CANDIDATES, "sure": SURE, "count": len(rows)}
    return PAGE.format(**sizes, gradient=max(row["gradient"] for row in every), table=table(HEAD, lines))


STUDY = Study(__file__, page)


def parameters(model, release):
    return {k: np.asarray(v) for k, v in model.constrain(release.theta[0]).items()}


def share(right):
    return "{:.1%} ({:.1%} to {:.1%})".format(*clopper_pearson(int(right.sum()), len(right))) if len(right) else ""


if __name__ == "__main__":
    main()
