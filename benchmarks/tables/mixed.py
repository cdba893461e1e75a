"""What a table of a mixed model gives away: statsmodels `MixedLM` by maximum likelihood. Makes the page MIXED.md.

python -m benchmarks.tables.mixed [--sets 30]
"""

import argparse
import warnings

import numpy as np
import statsmodels.api as sm

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_statsmodels
from benchmarks.study import HERE, table

PAGE = HERE / "MIXED.md"
ROUNDING = 1e-7  # of what statsmodels computes where the distribution of the slopes is nearly singular
INTRODUCTION = """# What a table of a mixed model gives away

Made by `python -m benchmarks.tables.mixed`. The data are simulated. statsmodels' `MixedLM` is fitted by maximum
likelihood with two covariates and 20 to 100 groups. If groups have only a random intercept and equal sizes, their
number is recovered together with the means over groups. Otherwise the numbers of groups and rows are taken from the
summary, and means and second moments are weighted as in the fit. *Determined*: of {statistics} statistics of every
data set; *held*: limits that hold the true value to {rounding:.0e} of its size, since those of exact numbers are
points; *error*: of an estimate relative to the root mean square of what is summed. *Refused*: fits that ended at a
variance of zero or had not converged.
"""

KINDS = ("an intercept each, five rows", "an intercept each, one to nine rows", "a slope too, one to nine rows")


def simulated(rng, kind):
    count = int(rng.integers(20, 101))
    sizes = rng.integers(1, 10, count) if kind else np.full(count, 5)
    group = np.repeat(np.arange(count), sizes)
    x = rng.normal([2.0, -1.0], [1.0, 3.0], (len(group), 2)) + rng.normal(size=(count, 2))[group]
    deviation = rng.uniform(0.3, 1.5)
    y = 1 + x @ [0.5, -0.2] + deviation * rng.normal(size=count)[group] + rng.normal(size=len(group))
    if kind == 2:
        y += 0.7 * rng.normal(size=count)[group] * x[:, 0]
    return np.column_stack([x, y]), group, sizes


def truth_of(kind, values, group, sizes, law):
    """What is summed over groups: by name, one value a group."""
    if kind == 2:
        products = []
        for g, m in enumerate(sizes):
            rows = np.column_stack([np.ones(m), values[group == g]])
            products.append(rows.T @ np.linalg.solve(np.eye(m) + rows[:, :2] @ law @ rows[:, :2].T, rows))
        pairs = zip(*np.tril_indices(4), strict=True)
        return {f"mean(products[{k + 1}])": np.array(products)[:, i, j] for k, (i, j) in enumerate(pairs)}
    ratio = float(law[0, 0])
    weight = sizes / (1 + sizes * ratio) if len(set(sizes)) > 1 else np.ones(len(sizes))
    means = np.array([values[group == g].mean(axis=0) for g in range(len(sizes))])
    names = ("x1", "x2", "y")
    found = {f"mean({name})": weight * means[:, j] for j, name in enumerate(names)}
    if len(set(sizes)) == 1:
        return found
    found["mean(weight)"] = weight
    apart = values - means[group]
    scatter = np.array([apart[group == g].T @ apart[group == g] for g in range(len(sizes))])
    products = scatter + weight[:, None, None] * means[:, :, None] * means[:, None]
    pairs = zip(*np.tril_indices(3), strict=True)
    return found | {f"mean(products[{k + 1}])": products[:, i, j] for k, (i, j) in enumerate(pairs)}


def study(kind, sets):
    verdicts, held, errors, refused, failed = [], [], [], 0, 0
    for seed in range(sets):
        rng = np.random.default_rng([kind, seed])
        values, group, sizes = simulated(rng, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            design = sm.add_constant(values[:, :2])
            random = design[:, :2] if kind == 2 else None
            result = sm.MixedLM(values[:, 2], design, groups=group, exog_re=random).fit(reml=False)
        try:
            found = bayesrecon.recover(from_statsmodels(result))
        except BayesreconError as error:
            print(seed, error)
            refused += 1
            continue
        failed += bool(found.failures)
        truth = truth_of(kind, values, group, sizes, np.asarray(result.cov_re) / result.scale)
        if not kind:  # elsewhere the number of groups is told
            truth["n"] = np.full(len(sizes), len(sizes))
        for name, each in truth.items():
            row = found[name]
            verdicts.append(row.verdict == "determined")
            if row.lower is not None:
                size = np.sqrt(np.mean(each**2))
                held.append(row.lower - ROUNDING * size <= each.mean() <= row.upper + ROUNDING * size)
                errors.append(abs(row.estimate - each.mean()) / size)
    row = (KINDS[kind], sets, refused, failed, f"{sum(verdicts)} of {len(verdicts)}", f"{sum(held)} of {len(held)}")
    return (*row, f"{np.median(errors):.0e}", f"{max(errors):.0e}"), len(verdicts) // max(1, sets - refused)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=30)
    sets = parser.parse_args().sets
    rows, numbers = zip(*(study(kind, sets) for kind in range(len(KINDS))), strict=True)
    head = ("groups", "sets", "refused", "failed", "determined", "held", "median error", "largest")
    text = INTRODUCTION.format(statistics=", ".join(str(n) for n in numbers), rounding=ROUNDING)
    PAGE.write_text(text + "\n" + table(head, rows) + "\n")
    print(table(head, rows))


if __name__ == "__main__":
    main()
