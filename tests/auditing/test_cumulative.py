"""What outputs determine together: only of the same records, each error once, and every interval holds."""

from dataclasses import replace

import numpy as np
import pytest

from bayesrecon import recover
from bayesrecon.auditing import cumulative
from bayesrecon.auditing.look import Asked, Determined, Released
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell
from bayesrecon.results.row import Row

RNG = np.random.default_rng(3)
N = 200
X, Z = RNG.normal(50, 9, N), RNG.normal(3, 1, N)
Y = 20 + 0.5 * X + 2 * Z + RNG.normal(0, 4, N)
DOMAIN = {"x": (0, 120), "z": (0, 120)}


SHOWN = np.random.default_rng(5).normal(size=(400, 2))


def table(columns, y=Y, digits=6):
    """A printed regression, with n."""
    import pandas as pd

    z = np.column_stack([np.ones(len(y)), *columns.values()])
    b = np.linalg.lstsq(z, y, rcond=None)[0]
    s = np.sqrt(((y - z @ b) ** 2).sum() / (len(y) - z.shape[1]))
    se = s * np.sqrt(np.diag(np.linalg.inv(z.T @ z)))
    rows = [[cell(v, digits), cell(e, digits)] for v, e in zip(b, se, strict=True)]
    rows += [[cell(s, digits), ""], [str(len(y)), ""]]
    return pd.DataFrame(rows, ["const", *columns, "sigma", "N"], ["coef", "se"])


def tables(**printed):
    return [Released(name, from_table(one, "ols", name=name)) for name, one in printed.items()]


def together(released, *before, **knows):
    asked = Asked(knows=knows, earlier=tuple(one.name for one in before))
    return [f for f in cumulative.find([*before, released], asked) if f.kind == cumulative.KIND]


def test_three_tables_of_the_same_people_determine_more_than_each():
    *before, new = tables(one=table({"x": X}), two=table({"z": Z}), both=table({"x": X, "z": Z}))
    (found,) = together(new, *before, domain=DOMAIN)
    assert (
        "with the 2 earlier outputs 10 of 10 statistics are determined; this output alone determines 1" in found.summary
    )
    assert "not established" in found.summary  # the new table by itself could be of other people
    truth = {"mean(x)": X.mean(), "var(z)": Z.var(), "cov(x,y)": np.cov(X, Y, bias=True)[0, 1], "mean(y)": Y.mean()}
    truth["cov(x,z)"] = np.cov(X, Z, bias=True)[0, 1]  # by the normal equations, which need all three
    items = {item.name: item for item in found.evidence}
    for name, true in truth.items():
        assert items[name].lower <= true <= items[name].upper
    (found,) = together(before[1], before[0], domain=DOMAIN)
    assert found.summary.startswith("with the earlier output of the same records 9 of 9 statistics")


def test_covariances_follow_from_larger_tables_with_their_errors():
    told = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        mix, size = rng.normal(size=(3, 3)), 10 ** rng.uniform(-1, 2, 3)
        columns = dict(zip("abc", ((rng.normal(size=(150, 3)) @ mix.T + rng.normal(size=3)) * size).T, strict=True))
        y = sum(v / v.std() for v in columns.values()) + rng.normal(size=150)
        wide = [{"a", "b"}, {"a", "b", "c"}][: 1 + seed % 2]
        printed = {name: table({name: v}, y, 4 + seed) for name, v in columns.items()}
        printed |= {str(i): table({k: columns[k] for k in sorted(some)}, y) for i, some in enumerate(wide)}
        rows = {r.name: r for r in recover([one.release for one in tables(**printed)])}
        for a, b in ("ab", "ac", "bc"):
            row = rows.get(f"cov({a},{b})")
            if row is not None and row.estimate is not None:
                told += 1
                assert row.lower <= np.cov(columns[a], columns[b], bias=True)[0, 1] <= row.upper
    assert told > 6


def test_as_many_join_as_leave_and_nothing_is_pooled():
    other = np.roll(np.append(X, 61.0), -1)[:N], np.roll(np.append(Y, 50.0), -1)[:N]
    before, new = tables(march=table({"x": X}), april=table({"x": other[0]}, other[1]))
    (found,) = together(new, before, domain={"x": (0, 120)})
    assert found.severity == "info"
    assert "1 earlier output is of other records" in found.summary
    assert "not pooled" in found.summary


@pytest.mark.parametrize("coarse", [False, True])
def test_other_people_are_never_the_same_records(coarse):
    """Of one population and as many: also if a covariate is 0 or 1, and if all values are whole."""
    rng, released = np.random.default_rng(4), {}
    for i in range(25):
        x, noise = rng.integers(2, size=60) if coarse else rng.normal(50, 9, 60), rng.normal(0, 4, 60)
        released[str(i)] = table({"x": x.astype(float)}, np.round(20 + x + noise) if coarse else 20 + x + noise)
    *before, new = tables(**released)
    (found,) = together(new, *before, domain={"x": (0, 120)})
    assert "24 earlier outputs are of other records" in found.summary


def draws(mean, se, count=40, worth=None, shown=None, name="draws", ess=4000.0, measure=None):
    """What draws determine: one statistic, and the draws."""
    rows = tuple(
        Row(f"mean({k})", m, se, m - 1.96 * se, m + 1.96 * se, se, 1.0, "determined", ess) for k, m in enumerate(mean)
    )
    shown = np.random.default_rng(list(name.encode())).normal(size=(count, 2)) if shown is None else shown
    return Released(name, None, determined=Determined(rows, shown, worth, measure=measure))


def pooled(rng, measures, worth=None, kinds=10, named=False, same=False):
    """Ten outputs of data whose means are zero: the narrowing, and the share of intervals that hold.

    Args:
        named: whether the measures have names.
        same: whether all show the same draws.
    """
    hits, ratio, counted = [], [], []
    for trial in range(6):
        moved = rng.normal(0, (4000 / (worth or 1)) ** 0.5, (measures, 20))  # of measures, each worth so many draws
        error = rng.normal(0, 1, (kinds, 20))
        outputs = [
            draws(
                error[0 if same else i] + (0 if worth is None else moved[i % measures]),
                1.0,
                worth=worth,
                name=f"{trial} {i}",
                measure=f"measure {i % measures}" if named else None,
                shown=SHOWN if same else None,
            )
            for i in range(kinds)
        ]
        *_, found = together(outputs[-1], *outputs[:-1])  # of all that may be of the same records
        hits += [item.lower <= 0 <= item.upper for item in found.evidence]
        ratio += [item.se for item in found.evidence]
        counted.append(found.summary.count("counts once") + found.summary.count("count once"))
    return np.mean(hits), np.mean(ratio), np.mean(counted)


def test_ten_posteriors_of_the_same_data_are_averaged():
    held, error, once = pooled(np.random.default_rng(0), 10)
    assert 0.93 < held < 0.97
    assert error == pytest.approx(10**-0.5)
    assert once == 0


def test_ten_measures_are_averaged_and_one_is_not():
    """Independent measures average out. Outputs with one measure share its error, however many there are."""
    held, error, once = pooled(np.random.default_rng(1), 10, worth=100.0)
    assert held > 0.93
    assert error == pytest.approx((41 / 10) ** 0.5, rel=0.02)
    assert once == 0
    (found,) = together(*(draws([0.1 * i], 1.0, worth=100.0, name=f"{i}") for i in range(3)))
    assert found.severity == "info"
    assert "share errors and count once" in found.summary
    held, error, once = pooled(np.random.default_rng(2), 2, worth=100.0)
    assert held > 0.93
    assert error > (41 / 2) ** 0.5 - 0.1
    assert once == 1


NAMED = {
    "ten": ((10, 100.0, 10, True), (41 / 10) ** 0.5, 0),
    "ten, too small to differ clearly": ((10, 4000.0, 10, True), (2 / 10) ** 0.5, 0),
    "two, too small to differ clearly": ((2, 4000.0, 10, True), (1 / 2 + 1 / 10) ** 0.5, 1),
    "ten of the same draws": ((10, 4000.0, 10, True, True), (2 / 10 + 1) ** 0.5, 0),
}


@pytest.mark.parametrize("case", NAMED)
def test_named_measures_are_averaged_and_equal_names_count_once(case):
    how, error, once = NAMED[case]
    held, found, counted = pooled(np.random.default_rng(2), *how)
    assert held > 0.93
    assert found == pytest.approx(error, rel=0.02)
    assert counted == once


def test_an_unnamed_measure_may_be_any_of_the_named_ones():
    """It adds nothing to them, and a name that the outputs contradict is none."""
    named = [draws([0.1 * i], 1.0, worth=100.0, name=str(i), measure=str(i)) for i in range(4)]
    (alone,) = together(*named)
    (more,) = together(*named, draws([0.0], 1.0, worth=100.0, name="unnamed"))
    assert more.evidence[0].se == alone.evidence[0].se == pytest.approx((41 / 4) ** 0.5)
    assert "unnamed shares its errors" in more.summary
    (one,) = together(*(draws([0.1 * i], 1.0, worth=100.0, name=str(i), measure="0") for i in range(4)))
    assert (one.severity, one.title) == ("info", "the 3 earlier outputs add nothing to what 0 determines")
    assert one.summary.startswith("with the 3 earlier outputs of the same records")
    far = draws([9.0], 1.0, worth=100.0, name="far", measure="0")
    (found,) = together(far, named[0])
    assert found.evidence[0].se == pytest.approx((41 / 2) ** 0.5)


COPIES = {"the same": SHOWN, "thinned": SHOWN[::10], "rounded": np.round(SHOWN, 2), "in another order": SHOWN[::-1]}


@pytest.mark.parametrize("copy", COPIES)
def test_the_same_draws_count_once(copy):
    (found,) = together(draws([0.0], 1.0, shown=SHOWN), draws([0.1], 1.0, shown=COPIES[copy], name="copy"))
    assert found.severity == "info"
    assert "copy shares its errors with another one and counts once" in found.summary
    assert found.summary.startswith("with the earlier output of the same records")
    other = draws([0.1], 1.0, shown=np.random.default_rng(6).normal(size=(400, 2)), name="other")
    (found,) = together(draws([0.0], 1.0, shown=SHOWN), other)
    assert found.severity == "low"


def test_a_table_of_draws_is_not_taken_for_other_draws():
    without = draws([0.1], 1.0, name="table")
    without = replace(without, determined=replace(without.determined, draws=None))
    (found,) = together(draws([0.0], 1.0), without)
    assert found.severity == "info"
    assert "counts once" in found.summary


def test_epsilon_bounds_what_guaranteed_draws_add():
    guarded = draws([0.1], 1.0, name="private")
    guarded = replace(guarded, determined=replace(guarded.determined, guaranteed=True))
    (found,) = together(draws([0.0], 1.0), guarded)
    assert "bounded by the epsilon" in found.summary


def test_parts_of_an_account_are_of_other_people():
    january, february = (replace(draws([0.1 * i], 1.0, name=str(i)), part=str(i)) for i in range(2))
    (found,) = together(draws([0.0], 1.0), january, february)
    assert "2 earlier outputs" not in found.summary
    assert "1 is of part 1, and 0 of part 0" in found.summary


def test_an_entry_without_statistics_is_said():
    found = together(draws([0.0], 1.0), Released("old", None))
    assert "old: the ledger does not know what they determine" in found[0].summary


def test_draws_that_differ_are_of_other_records():
    (found,) = together(draws([0.0, 0.0], 1.0), draws([9.0, 0.0], 1.0, name="other"))
    assert "mean(0) is 0 in draws and 9 in other" in found.summary or "mean(0) is 9 in other" in found.summary
    assert not found.evidence
