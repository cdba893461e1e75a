"""The page of `sanitise.py`."""

from typing import Any

from benchmarks.study import table

INTRODUCTION = """# Sanitised draws: what they hide, and what they cost

Made by `python -m benchmarks.draws.sanitise`. `bayesrecon sanitise` publishes posterior draws for data that were
altered at random, once. This page compares its statements with simulations. The worth is 100 draws, or the smallest
supported worth if 100 costs too much.
"""
COSTS = """
## Costs

The distribution of the tilts is computed from half of the draws and compared with the other half. *Near* is the share
of random tilts whose cost, averaged with that of the opposite tilt, is within 20 % of its second-order approximation.
*All near* counts posteriors for which this holds for 95 % of {secrets} tilts. *Ratio* is the median of the average
cost over the prediction. For some posteriors `sanitise` refuses to publish anything: *no count*, the number of records
is not determined and no data were given; *checks*, draws and model do not pass the checks; *theory*, the cost of tilts
does not follow the theory at ten times the worth; *other*, all other reasons. Spectra that decay are those of
logistic, Poisson, ordered and negative binomial regressions with one to five covariates; effects of groups are
hierarchies with a parameter for each of five to twelve groups and one for their scatter.
"""
REFUSED = {
    "no count": "number of records is not determined",
    "checks": "draws and model disagree",
    "theory": "do not cost what the theory says",
}
"""What a refusal says, by the word of its column."""
SECRETS = """
## Many secrets

One data set of 400 records, a regression, {secrets} secrets, and a run of an exact sampler of its own for each, of
which {published:,} draws, a quarter, are published. *Stated* is the scatter of tilts with the draws' own error,
*measured* the root mean square error of `recover`, and *p* that of a chi-square test, two-sided. *100 draws* is the
error that 100 plain draws leave. All statistics together, whitened by the covariance that is stated: p {together:.2f}.
"""
MANY = """
With {published:,} published draws, exact ones of the tilted posterior, and {secrets} secrets the draws' own error is
all but gone, and that of the tilts is not. All statistics together: p {together:.2f}.
"""
EARLIER = """
Somebody who has 100 plain draws of another run, published earlier, as well: worths add.
"""
KNOWS = """
Somebody who knows one statistic exactly takes its share of the error off the others. *Measured / stated* is the range
over the others, *p* the smallest of five.
"""
OTHERS = """
Somebody who knows all the others exactly:
"""
CHECKS = """
Checks of draws and model failed on {failed:.1%} of the sanitised releases ({low:.1%} to {high:.1%}) and on {plain:.1%}
of plain ones with as many draws ({plain_low:.1%} to {plain_high:.1%}).

What readers get wrong, root mean square in posterior standard deviations, the worst coordinate:
"""
RECORDS = """
## One record, by somebody who knows all others

Sanitised draws of the data with and without one record. *Stated* is its shift, *measured* how far apart the best linear
statistic of the published draws is, in its standard deviations, over {secrets} secrets each (standard error about
{error:.2f}). Records are the median, the 95 % quantile and the largest of 400.
"""
BITS = """
## Bits of a response

The response of one record is drawn anew with each of {secrets} secrets. *Stated* is the upper limit of the bits of it
that anybody gets of the sanitised draws who knows all other records and this one's covariate; *measured* what linear
regression on the draws' best statistics gets, each prediction made without the one it is of; *plain draws* the limit of
10,000 draws of the posterior itself. Records are the median, the 95 % quantile and the largest of 100 by that limit.
"""
REMEDIES = """
## Other remedies

The same data and 2500 draws, {sets} runs: sanitised at so much worth; thinned to so many draws; rounded to a step, or
with normal noise, of so many posterior standard deviations. *Error of n* is that of `recover`, *informed* that of
somebody who knows how the remedy moves it on average.
"""


def page(rows: dict[str, Any]) -> str:
    """All parts that were measured."""
    found = [INTRODUCTION]
    for name, part in (
        ("costs", _costs),
        ("secrets", _secrets),
        ("many", _many),
        ("records", _records),
        ("bits", _bits),
        ("remedies", _remedies),
    ):
        if name in rows:
            found += part(rows[name])
    return "\n".join(found) + "\n"


def _costs(part: dict[str, Any]) -> list[str]:
    head = (
        "posteriors",
        "number",
        *REFUSED,
        "other",
        "near",
        "all near",
        "ratio",
        "largest cost, nats",
        "largest worth",
    )
    rows = []
    for kind, one in part["summary"].items():
        done = one["posteriors"] - one["refused"]
        cells = ("", "", "", "", "")
        if done:
            cells = (f"{one['near']:.1%}", f"{one['all near']}/{done}", f"{one['ratio']:.2f}",
                     f"{one['largest cost']:.3f}", f"{one['worth']:.0f}")  # fmt: skip
        rows.append((kind, one["posteriors"], *_refused(part["rows"], kind), *cells))
    return [COSTS.format(secrets=part["secrets"]), table(head, rows)]


def _refused(rows: list[dict[str, Any]], kind: str) -> list[str]:
    said = [row["refused"] for row in rows if "refused" in row and kind in (row["kind"], "all")]
    counts = [sum(words in one for one in said) for words in REFUSED.values()]
    return [str(n or "") for n in (*counts, len(said) - sum(counts))]


def _statistics(rows: list[dict[str, Any]], *more: str) -> str:
    cells = [
        (one["name"], *(f"{one[k]:.3g}" for k in ("stated", "measured")), f"{one['p']:.2f}",
         *(f"{one['hundred']:.3g}" for _ in more))
        for one in rows
    ]  # fmt: skip
    return table(("statistic", "stated", "measured", "p", *more), cells)


def _informed(part: dict[str, Any]) -> list[str]:
    known = [
        (one["known"], f"{one['least']:.2f} to {one['most']:.2f}", f"{one['p']:.2f}") for one in part["knows"]
    ]  # fmt: skip
    return [KNOWS, table(("known", "measured / stated", "p"), known), OTHERS, _statistics(part["knows all others"])]


def _many(part: dict[str, Any]) -> list[str]:
    return [MANY.format(**part), _statistics(part["statistics"]), *_informed(part)]


def _secrets(part: dict[str, Any]) -> list[str]:
    earlier = [(one["name"], *(f"{one[k]:.3g}" for k in ("stated", "measured"))) for one in part["earlier"]]
    (failed, low, high), (plain, plain_low, plain_high) = part["failed"], part["failed plain"]
    read = [(name, *(f"{v:.2f}" for v in one.values())) for name, one in part["readers"].items()]
    told = CHECKS.format(failed=failed, low=low, high=high, plain=plain, plain_low=plain_low, plain_high=plain_high)
    return [
        SECRETS.format(**part),
        _statistics(part["statistics"], "100 draws"),
        *_informed(part),
        EARLIER,
        table(("statistic", "stated", "measured"), earlier),
        told,
        table(("release", "mean", "sd", "5 %", "95 %"), read),
    ]


def _records(part: dict[str, Any]) -> list[str]:
    names = {0.5: "median", 0.95: "95 %", 1.0: "largest"}
    rows = [(names[one["share"]], f"{one['stated']:.2f}", f"{one['measured']:.2f}") for one in part["rows"]]
    return [RECORDS.format(**part), table(("record", "stated", "measured"), rows)]


def _bits(part: dict[str, Any]) -> list[str]:
    names = {0.5: "median", 0.95: "95 %", 1.0: "largest"}
    rows = [(names[one["share"]], *(f"{one[k]:.2f}" for k in ("stated", "measured", "plain"))) for one in part["rows"]]
    return [BITS.format(**part), table(("record", "stated", "measured", "plain draws"), rows)]


def _remedies(part: dict[str, Any]) -> list[str]:
    rows = [
        (f"{one['remedy']}, {one['size']:g}", *("" if one[k] is None else f"{one[k]:.3g}" for k in ("error",
        "informed")),
         *(f"{one[k]:.2f}" for k in ("mean", "sd", "low", "high")))
        for one in part["rows"]
    ]  # fmt: skip
    return [REMEDIES.format(**part), table(("remedy", "error of n", "informed", "mean", "sd", "5 %", "95 %"), rows)]
