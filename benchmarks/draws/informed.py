"""The informed adversary: all records of a logistic regression known but one, beside a packaged peer.

python -m benchmarks.draws.informed            # closed form, all 569 breast-cancer records
python -m benchmarks.draws.informed --peer 3   # and the peer on three of them; seconds a record

The peer is no dependency: `pip install adversarial-robustness-toolbox` (its `DatabaseReconstruction`).
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import bayesrecon
from bayesrecon.evaluate import bootstrap
from bayesrecon.posteriors import from_sklearn


def closed_form(x, y, solver, tolerance, rows=None):
    """Errors, right labels, conditioning, seconds each and stated errors of records, each in turn the unknown one."""
    rows = range(len(x)) if rows is None else rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = from_sklearn(LogisticRegression(tol=tolerance, solver=solver, max_iter=100_000).fit(x, y))
    errors, labels, conditioning, stated = [], 0, [], []
    keep = ~np.eye(len(x), dtype=bool)
    bayesrecon.missing_record(release, {"x": x[keep[0]], "y": y[keep[0]]})
    start = time.perf_counter()
    for i in rows:
        found = bayesrecon.missing_record(release, {"x": x[keep[i]], "y": y[keep[i]]}, tolerance=tolerance)
        errors.append(np.sqrt(np.mean((found.record["x"] - x[i]) ** 2)))
        labels += found.record["y"] == y[i]
        conditioning.append(found.amplification)
        stated.append(found.error)
    return np.array(errors), labels, np.array(conditioning), (time.perf_counter() - start) / len(rows), np.array(stated)


def peer(x, y, i):
    """The peer's reconstruction of record i: RMSE and seconds, or None where it is not installed."""
    try:
        from art.attacks.inference.reconstruction import DatabaseReconstruction
        from art.estimators.classification.scikitlearn import ScikitlearnLogisticRegression
    except ImportError:
        return None
    model = LogisticRegression(tol=1e-10, solver="newton-cg", max_iter=1000).fit(x, y)
    others = np.arange(len(x)) != i
    start = time.perf_counter()
    attack = DatabaseReconstruction(ScikitlearnLogisticRegression(model=model))
    found, _ = attack.reconstruct(x[others], np.eye(2)[y[others]])
    return np.sqrt(np.mean((np.ravel(found) - x[i]) ** 2)), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", type=int, default=0, help="run the peer on so many records")
    parser.add_argument("--solvers", default="newton-cg,newton-cholesky,lbfgs")
    options = parser.parse_args()
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    for solver in options.solvers.split(","):
        errors, labels, conditioning, seconds, _ = closed_form(x, y, solver, 1e-10)
        centre, tail = bootstrap(errors), np.quantile(errors, 0.9)
        print(f"{solver}: median RMSE {centre.estimate:.1e} ({centre.lower:.1e} to {centre.upper:.1e}), ", end="")
        print(f"90 % quantile {tail:.1e}, labels {labels} of {len(x)}, ", end="")
        print(f"median conditioning {np.median(conditioning):.1e}, {1e3 * seconds:.2f} ms a record")
    for i in np.random.default_rng(0).choice(len(x), options.peer, replace=False):
        found = peer(x, y, int(i))
        if found is None:
            print("the peer is not installed: pip install adversarial-robustness-toolbox")
            return
        release = from_sklearn(LogisticRegression(tol=1e-10, solver="newton-cg", max_iter=1000).fit(x, y))
        own = bayesrecon.missing_record(release, {"x": np.delete(x, i, 0), "y": np.delete(y, i)})
        error = np.sqrt(np.mean((own.record["x"] - x[i]) ** 2))
        mean = np.sqrt(np.mean((x.mean(axis=0) - x[i]) ** 2))
        print(
            f"record {i}: closed form RMSE {error:.1e}; peer RMSE {found[0]:.2f} in {found[1]:.0f} s; "
            f"mean record {mean:.2f}"
        )


if __name__ == "__main__":
    main()
