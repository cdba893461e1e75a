"""The default descent beside the published recipe, from the published start, on the last 1,000 reference draws.

python -m benchmarks.draws.reconstruct             # the recipe's total time: steps needed (--steps) times its step time
python -m benchmarks.draws.reconstruct --whole     # M 50 of the recipe run to its end (a quarter of an hour and more)

Needs POSTERIOR_DB_PATH; Both times are after compilation and count everything that depends on the draws.
"""

import json
import resource
import time

import numpy as np

import bayesrecon
from bayesrecon import Metric, ScoreMatching, WeightedRecords
from bayesrecon.posteriors import from_posteriordb
from benchmarks.study import Study

SIZES = (50, 100, 200, 400, 800, 1600)
STATISTICS = ("n", "mean(mom_iq)", "mean(kid_score)", "var(mom_iq)", "var(kid_score)")
STUDY = Study(__file__)


def settled(trace, target):
    """The first row from which all five statistics stay within 1 % of their own minimiser."""
    close = np.all([np.abs(trace[s] / target[s] - 1) < 0.01 for s in STATISTICS], axis=0)
    outside = np.flatnonzero(~close)
    first = 0 if not outside.size else outside[-1] + 1
    return None if first == len(close) else trace.iloc[first]


def default(release, n):
    bayesrecon.reconstruct(release, attack=WeightedRecords(n=n, start="published"), key=1)
    start = time.perf_counter()
    found = bayesrecon.reconstruct(release, attack=WeightedRecords(n=n, start="published"))
    return found, time.perf_counter() - start


def recipe(release, n, steps):
    bayesrecon.reconstruct(release, attack=ScoreMatching(n=n, steps=100))
    found = bayesrecon.reconstruct(release, attack=ScoreMatching(n=n, steps=steps))
    trace = found.trace_dataframe()
    return found, (trace.seconds.iloc[-1] - trace.seconds.iloc[0]) / trace.iteration.iloc[-1]


def wide():
    """Peak memory with 10,000 draws of 10 parameters and 1,600 records."""
    release = from_posteriordb("nes1980-nes")
    start = time.perf_counter()
    found = bayesrecon.reconstruct(release, n=1600)
    return found, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("--steps", type=int, default=149_500, help="steps the recipe needs at M 50")
    parser.add_argument("--whole", action="store_true")
    options = STUDY.given(parser)
    release = from_posteriordb("kidiq-kidscore_momiq", draws=1000)
    best, sizes = {row.name: row.estimate for row in bayesrecon.recover(release)}, {}
    for n in SIZES:
        found, seconds = default(release, n)
        reached = settled(found.trace_dataframe(), best)
        before = seconds - found.trace_dataframe().seconds.iloc[-1]  # the kernel, before the descent
        step = recipe(release, n, 200)[1]
        sizes[f"M {n}"] = {"seconds": seconds, "relative gap": found.relative_gap, "recipe, s a step": step}
        if n == 50:
            fast, slow, how = before + reached.seconds, step * options.steps, "steps needed times step time"
    if options.whole:
        published = Metric("identity", "constrained")
        own = {row.name: row.estimate for row in bayesrecon.recover(release, metric=published)}
        found = bayesrecon.reconstruct(release, attack=ScoreMatching(n=50, steps=int(1.15 * options.steps)))
        reached = settled(found.trace_dataframe(), own)
        if reached is not None:
            slow, how = reached.seconds, f"measured, {int(reached.iteration)} steps"
    STUDY.add(sizes=sizes, recipe={"seconds": slow, "default, seconds": fast, "how": how})
    found, seconds, peak = wide()
    STUDY.add(wide={"seconds": seconds, "relative gap": found.relative_gap, "GiB": peak})
    print(json.dumps(STUDY.kept(), indent=1))


if __name__ == "__main__":
    main()
