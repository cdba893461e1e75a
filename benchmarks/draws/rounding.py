"""What draws whose digits were cut tell, as the page benchmarks/ROUNDING.md.

python -m benchmarks.draws.rounding [simulated] [kidiq-kidscore_momiq] [--digits 2 3] [--draws 1000] [--repetitions 30]

Releases are exact draws of a regression on 434 records that resembles `kidiq-kidscore_momiq`, whose intercept and slope
vary together, and blocks of posteriordb's reference draws of that posterior itself.
"""

from collections.abc import Iterator

import jax
import numpy as np

import bayesrecon
from bayesrecon.digits import round_to
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import load
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.types import Release
from benchmarks import references
from benchmarks.study import Study, share
from tests.support import conjugate

DIGITS, DRAWS, RECORDS = (0, 2, 3, 4, 5), (1000, 4000, 10000), 434

INTRODUCTION = """# Draws whose digits were cut

Made by `python -m benchmarks.draws.rounding`. Posterior draws are rounded and attacked. *Share* is the largest share
of a posterior variance that rounding adds; without a correction, totals would be wrong by as much. *Failed* is the
share of releases in which a check failed. The other columns are for releases that passed: mean and standard deviation
of the errors of n in standard errors, the relative standard error of n, and the coverage of the 95 % intervals of all
statistics. The Clopper-Pearson intervals of the coverage assume independence, which does not hold within a release.
Seeds are those of the draws. Every release is drawn anew, and blocks of reference draws are disjoint.

| posterior | digits | draws | share | releases | failed | mean z | sd z | se of n | covered | 95 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""

Case = tuple[dict[str, float], Release]


def simulated(draws: int, digits: int, repetitions: int) -> Iterator[Case]:
    rng = np.random.default_rng(draws)
    x = rng.normal(100, 15, (RECORDS, 1))
    y = 26 + 0.6 * x[:, 0] + 18 * rng.normal(size=RECORDS)
    truth = true_statistics(conjugate.regression_model(), {"x": x, "y": y})
    for _ in range(repetitions):
        values = conjugate.sample_regression(x, y, draws, rng)
        yield truth, from_draws(printed(values, digits), conjugate.regression_model())


def reference(draws: int, digits: int, repetitions: int) -> Iterator[Case]:
    release, _, truth = references.reference("kidiq-kidscore_momiq")
    with x64():
        values = {k: np.asarray(v) for k, v in jax.vmap(release.model.constrain)(np.asarray(release.theta)).items()}
    for at in range(min(repetitions, release.size // draws)):
        block = {k: v[at :: release.size // draws][None] for k, v in values.items()}
        yield truth, from_draws(printed(block, digits), load("kidscore_momiq"))


def printed(values: dict[str, np.ndarray], digits: int) -> dict[str, np.ndarray]:
    return {k: round_to(v, digits) for k, v in values.items()} if digits else values


def row(name: str, digits: int, draws: int, cases: Iterator[Case]) -> str:
    z, inside, failed, shares, errors = [], [], [], [], []
    for key, (truth, release) in enumerate(cases):
        with x64():
            rounding = rounding_of(release)
        shares.append(rounding.share if rounding else 0.0)
        found = bayesrecon.recover(release, key=key)
        failed.append(not found.consistent)
        if found.consistent:
            rows = {r.name: r for r in found if r.name in truth and r.se}
            z.append((rows["n"].estimate - truth["n"]) / rows["n"].se)
            errors.append(rows["n"].se / truth["n"])
            inside += [r.lower <= truth[k] <= r.upper for k, r in rows.items()]
    sd = f"{np.std(z):.2f}" if len(z) > 2 else ""
    told = (f"{np.mean(z):+.2f}", sd, f"{np.mean(errors):.2%}") if inside else ("",) * 3
    cells = (name, str(digits or "all"), str(draws), f"{np.mean(shares):.2%}", str(len(failed)))
    return " | ".join((*cells, f"{np.mean(failed):.0%}", *told, *share(inside)[1:]))


def page(held: dict[str, str]) -> str:
    order = [f"{n} {k} {t}" for n in POSTERIORS for k in DIGITS for t in DRAWS]
    return INTRODUCTION + "".join(f"| {held[one]} |\n" for one in order if one in held)


STUDY = Study(__file__, page)
POSTERIORS = {"simulated": simulated, "kidiq-kidscore_momiq": reference}


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("posteriors", nargs="*", default=list(POSTERIORS), help=", ".join(POSTERIORS))
    parser.add_argument("--digits", type=int, nargs="*", default=DIGITS, help="0: all")
    parser.add_argument("--draws", type=int, nargs="*", default=DRAWS)
    parser.add_argument("--repetitions", type=int, default=30, help="releases a row")
    given = STUDY.given(parser)
    for name in given.posteriors:
        for digits in given.digits:
            for draws in given.draws:
                line = row(name, digits, draws, POSTERIORS[name](draws, digits, given.repetitions))
                print(line, flush=True)
                STUDY.add(**{f"{name} {digits} {draws}": line})


if __name__ == "__main__":
    main()
