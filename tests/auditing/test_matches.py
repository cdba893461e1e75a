"""Matches with private columns: copies are found, and what has nothing to do with a column is not."""

import hiding
import numpy as np
import pytest
from scipy import stats

import bayesrecon
from bayesrecon.evaluate.column_matches import Matching

_RNG = np.random.default_rng(4)


def _matched(column, change, others=49, items=20):
    columns = {f"other{k}": _RNG.normal(size=len(column)) for k in range(others)}
    found = Matching({**columns, "own": column}, items)(change(column))
    return found is not None and found.startswith("'own'")


def _reals(size):
    return np.round(_RNG.normal(size=size), 6)


def _ages(size):
    return _RNG.integers(18, 90, size)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        (_reals(8), np.copy),
        (_reals(8), np.sort),
        (_ages(20), np.copy),
        (_ages(20), np.sort),
        (_RNG.integers(0, 2, 91), np.copy),
        (_reals(20), lambda x: np.round(x, 2)),
        (_reals(20), lambda x: x + 0.05 * x.std() * _RNG.normal(size=len(x))),
        (_reals(20), lambda x: 3 - 2 * x),
        (_reals(20), np.cumsum),
        (_reals(20), np.diff),
        (_reals(20), lambda x: x.argsort().argsort()),
        (_RNG.integers(0, 5, 80), lambda x: np.eye(5)[x]),
        (_RNG.permutation(50), np.copy),
        (np.sort(_RNG.choice(500, 50, replace=False)), lambda x: x / 7),
        (_ages(80), lambda x: x[30:40]),
        (_reals(80), lambda x: np.tile(_RNG.permutation(x), 100)),
        (_reals(80), lambda x: np.append(x[::-1], 1e300)),
        (_reals(80), lambda x: x[::2] + 1j * x[1::2]),
        (np.where(_RNG.random(80) < 0.2, np.nan, _reals(80)), np.copy),
    ],
)
def test_copies_are_found(column, change):
    assert _matched(column, change)


def _unrelated(size, length, rng):
    """Arrays that a sampler writes, and grids."""
    return {
        "running": np.arange(length),
        "as many": np.arange(size) + 1,
        "warm-up": 1000 + np.arange(size),
        "a grid": np.linspace(0, 1, size),
        "logarithms": np.logspace(0, 3, size),
        "ranks": rng.permutation(size),
        "ranks with ties": stats.rankdata(np.round(rng.normal(size=size), 1)),
        "draws": rng.normal(size=length),
        "sorted draws": np.sort(rng.normal(size=size)),
        "rounded draws": np.round(rng.normal(size=size), 2),
        "a walk": np.cumsum(rng.normal(size=length)),
        "counts": rng.poisson(3, size),
        "tree depths": rng.integers(2, 5, length),
        "steps": 2 ** rng.integers(2, 6, size) - 1,
        "divergences": rng.random(size) < 0.1,
        "chains": np.repeat(np.arange(4), -(-size // 4))[:size],
        "ages": rng.integers(18, 90, size),
        "indicators": np.eye(4)[rng.integers(0, 4, size)],
    }


def _false_matches(size, length, rng, others):
    columns = hiding.numbers_of_records(size, rng)
    kinds = (
        lambda: rng.integers(0, 2, size),
        lambda: rng.integers(1, 6, size),
        lambda: rng.normal(size=size),
        lambda: np.sort(rng.choice(5 * size, size, replace=False)),
    )
    columns |= {f"c{k}": kinds[k % len(kinds)]() for k in range(others)}
    arrays = _unrelated(size, length, rng)
    named = Matching(columns, len(arrays))
    return [(name, found) for name, values in arrays.items() if (found := named(values))]


def test_exact_copies_are_found_from_eight_records_on():
    for size in range(8, 16):
        assert all(_matched(_reals(size), change) for change in (np.copy, np.sort)), size
    for size in range(20, 40, 5):
        assert all(_matched(_ages(size), change) for change in (np.copy, np.sort)), size


def _drifting(size, rng):
    """Columns, and arrays, that rise or drift, or are regular."""
    return {
        "sorted": np.sort(rng.normal(size=size)),
        "times": np.cumsum(rng.gamma(2, size=size)),
        "a walk": np.cumsum(rng.normal(size=size)),
        "a line with noise": np.arange(size) + rng.normal(size=size),
        "days": np.sort(rng.integers(18_000, 19_000, size)),
        "sorted groups": np.sort(rng.integers(0, 8, size)),
        "blocks": np.repeat(rng.normal(size=-(-size // 10)), 10)[:size],
        "visits": np.arange(size) % 4,
    }


@pytest.mark.parametrize("size", [91, 2000])
def test_what_rises_or_drifts_has_no_match_for_that(size):
    rng = np.random.default_rng(size)
    named = Matching(_drifting(size, rng))
    assert not [(name, found) for name, values in _drifting(size, rng).items() if (found := named(values))]


@pytest.mark.parametrize("size", [5, 20, 91])
def test_what_has_nothing_to_do_with_a_column_is_no_match(size):
    assert not _false_matches(size, 250, np.random.default_rng(size), others=8)


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.parametrize("size", [5, 20, 91, 250])
def test_false_matches_are_rare(size):
    """One audit in a thousand may have one. With that rate, one in 60 has probability 0.06, and two 0.002."""
    audits = [_false_matches(size, 250, np.random.default_rng([size, k]), others=41) for k in range(60)]
    assert sum(map(bool, audits)) <= 1


def test_a_clean_file_is_low_whatever_numbers_the_records(tmp_path):
    path = hiding.write(hiding.groups(), tmp_path / "clean.nc")
    ids = hiding.numbers_of_records(hiding.SIZE, np.random.default_rng(1))
    assert bayesrecon.audit(path, data={**hiding.DATA, **ids}, remedies=False).severity == "low"


PLACES = {
    "the draws": ((2, 20), np.s_[:]),
    "their beginning": ((2, 200), np.s_[0, :40]),
    "one draw of a vector": ((2, 200, 40), np.s_[0, 7]),
}


@pytest.mark.parametrize("place", PLACES)
def test_values_of_people_among_draws_are_found(place, tmp_path):
    rng = np.random.default_rng(5)
    ages = rng.normal(50, 10, 40).round(6)
    shape, where = PLACES[place]
    who = rng.normal(50, 10, shape)
    clean = {"mu": rng.normal(size=shape[:2]), "who": who.copy()}
    who[where] = ages.reshape(who[where].shape)
    for values, severity in ((clean, "low"), ({**clean, "who": who}, "high")):
        np.savez(tmp_path / "fit.npz", **values)
        assert bayesrecon.audit(tmp_path / "fit.npz", data={"age": ages}, rows="draws").severity == severity


@pytest.mark.parametrize("kind", ["<f8", ">f4", "words"])
def test_what_no_reader_knows_is_searched_for_the_table(kind, tmp_path):
    rng = np.random.default_rng(5)
    ages, around = rng.normal(50, 10, 40).round(6), rng.bytes(100_001)
    words = " and ".join(f"a person aged {age:.6f}" for age in ages).encode()
    held = words if kind == "words" else around + ages.astype(kind).tobytes() + b"end"
    for content, severity in ((held, "high"), (around, "info")):
        (tmp_path / "file.foo").write_bytes(content)
        found = bayesrecon.audit(tmp_path / "file.foo", data={"age": ages, "row": np.arange(40.0)})
        assert (found.severity, found.verdict) == (severity, "incomplete")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [np.nan] * 9,
        [np.inf, 1.0, 2.0, 3.0],
        [1e308, -1e308, 0.0, 5.0],
        [2.0] * 9,
        b"",
        b"\x00\xff" * 50,
        b"1e999 2 3 4 5",
    ],
    ids=str,
)
def test_numbers_of_any_kind_are_compared(values):
    assert Matching({"age": _RNG.normal(50, 10, 9), "row": np.arange(9.0)})(values, sampled=True) is None
