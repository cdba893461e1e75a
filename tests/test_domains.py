"""Domains of fields: draws lie inside, and what is stated narrows them."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from written import refused

from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain
from bayesrecon.stated_domains import parse

pytestmark = pytest.mark.small

DOMAINS = [
    REAL,
    POSITIVE,
    BINARY,
    COUNT,
    parse("unit", "f"),
    parse("integer", "f"),
    parse((-3.0, 5.0), "f"),
    parse((-math.inf, -2.0), "f"),
    parse((1e6, 1e6 + 1), "f"),
    parse([0.5, 7, -1], "f"),
    Domain("integer", 3.0, 9.0),
    Domain("integer", -math.inf, 4.0),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("centre, scale", [(0.0, 1.0), (1e5, 0.01), (-1e5, 1e4), (4.0, 0.0), (0.5, 1e8)])
def test_draws_lie_inside(domain, centre, scale):
    values = domain.draw(np.random.default_rng(0), (300, 2), centre, scale)
    assert values.shape == (300, 2)
    assert values.dtype == domain.dtype
    assert domain.contains(values).all()


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_broad_draws_lie_inside_and_differ(domain):
    values = domain.draw_broad(np.random.default_rng(0), (300,))
    assert values.dtype == domain.dtype
    assert domain.contains(values).all()
    assert len(np.unique(values)) >= (len(domain.levels) if domain.kind == "levels" else 7)
    if domain.kind != "levels" and math.isinf(domain.low) and math.isinf(domain.high):
        assert np.abs(values).max() > 1e4
        assert np.abs(values).min() < 1


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_draws_are_of_the_same_seed_alike(domain):
    one, two = (domain.draw(np.random.default_rng(5), (20,), 1.0, 1.0) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert len(np.unique(domain.draw(np.random.default_rng(5), (200,), 4.0, 1.0))) > 1


def test_draws_have_the_moments_asked_for():
    """Within 5 standard errors of 20,000 draws: the real line, a half-line and an open interval."""
    for domain, centre, scale in ((REAL, -4.0, 2.0), (POSITIVE, 3.0, 0.5), (Domain("interval", 0.0, 10.0), 4.0, 1.0)):
        values = domain.draw(np.random.default_rng(1), (20_000,), centre, scale)
        deviations = values - values.mean()
        assert abs(values.mean() - centre) < 5 * scale / math.sqrt(20_000)
        kurtosis = (deviations**4).mean() / values.var() ** 2
        assert abs(values.var() / scale**2 - 1) < 5 * math.sqrt((kurtosis - 1) / 20_000)


def test_values_of_a_closed_interval_lie_on_its_ends_too():
    """Censored values do; a sixteenth of generic ones, within 5 standard errors, and on either end."""
    rng = np.random.default_rng(2)
    for domain in (parse((0, 10), "f"), parse((-math.inf, 2.0), "f")):
        for values in (domain.draw(rng, (8000, 2), 1.0, 0.5), domain.draw_broad(rng, (8000, 2))):
            ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
            for end in ends:
                share = 1 / 16 / len(ends)
                assert abs((values == end).mean() - share) < 5 * math.sqrt(share / 16_000)


def test_counts_with_a_total():
    """Every combination of three counts that sum to four is drawn."""
    domain = Domain("integer", 0.0, 4.0, total=4)
    for values in (
        domain.draw(np.random.default_rng(0), (900, 3), 1.0, 1.0),
        domain.draw_broad(np.random.default_rng(0), (900, 3)),
    ):
        assert values.dtype == np.int64
        assert domain.contains(values).all()
        assert (values.sum(axis=1) == 4).all()
        assert len(np.unique(values, axis=0)) == math.comb(6, 2)


@pytest.mark.parametrize(
    "domain, inside, outside",
    [
        (REAL, [-1e300, 0.0], [math.nan, math.inf, -math.inf]),
        (POSITIVE, [0.0, 1e300], [-1e-300, math.inf, math.nan]),
        (BINARY, [0, 1], [0.5, -1, 2, math.nan]),
        (COUNT, [0, 7, 1e6], [-1, 0.5, math.inf, math.nan]),
        (parse((-1, 2), "f"), [-1, 0.3, 2], [-1.01, 2.01, math.nan]),
        (parse([2.5, 1], "f"), [1, 2.5], [1.5, 0]),
    ],
)
def test_contains(domain, inside, outside):
    np.testing.assert_array_equal(domain.contains(np.array(inside, float)), np.ones(len(inside), bool))
    np.testing.assert_array_equal(domain.contains(np.array(outside, float)), np.zeros(len(outside), bool))


def test_domains_are_parsed_from_names_pairs_and_lists():
    assert parse("positive", "f") == POSITIVE == parse(POSITIVE, "f")
    assert parse((0, 1), "f") == parse("unit", "f")
    assert parse([3, 1, 1, 2], "f").levels == (1.0, 2.0, 3.0)
    assert parse(np.array([0.0, 1.0]), "f") == BINARY
    assert [parse(name, "f").discrete for name in ("real", "binary", "count", "integer", "unit")] == [
        False,
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(FrozenInstanceError):
        REAL.low = 0.0


@pytest.mark.parametrize(
    "spec, match",
    [
        ("reel", r"domain of field 'f': 'reel' is not one of real, positive, .*\(low, high\) or \[values\]"),
        (3, r"domain of field 'f': expected a name \(real, .*\), \(low, high\) or \[values\], got 3"),
        (None, "expected a name"),
        (["a", "b"], "expected a name"),
        ((1, None), "expected a name"),
        ((1,), r"\(low, high\) with low < high, got \(1,\)"),
        ((1, 2, 3), "low < high"),
        ((), "low < high"),
        ((2, 1), "low < high"),
        ((1, 1), "low < high"),
        ((math.nan, 1), "low < high"),
        ([], "domain of field 'f': the list of values is empty"),
        ([1.0, math.nan], "domain of field 'f'"),
        ([1.0, math.inf], "domain of field 'f'"),
    ],
)
def test_parse_refuses(spec, match):
    refused(match, parse, spec, "f")


@pytest.mark.parametrize(
    ("domain", "kind"),
    [
        (Domain("levels", levels=(0.0, 3.0)), "i"),
        (BINARY, "i"),
        (Domain("levels", levels=(0.5, 1.0)), "f"),
        (COUNT, "f"),
    ],
)
def test_whole_levels_are_integers(domain, kind):
    """Counts stay: attacks move them as real numbers."""
    assert domain.typed(np.array([[0.0, 3.0]])).dtype.kind == kind
    assert domain.typed(1.0).dtype.kind == kind
    assert domain.typed(np.array([True])).dtype.kind == "b"
