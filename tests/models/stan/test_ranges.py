"""Whole numbers without bounds: what a program tells of them, and what is presumed and said so."""

import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

import bayesrecon
from bayesrecon.domains import Domain
from bayesrecon.model import Field
from bayesrecon.models import from_stan, stan_data
from bayesrecon.models.stan.program_fields import columns
from bayesrecon.models.stan.ranges import presumed_notes, with_ranges
from bayesrecon.models.stan.source import read_program

PROGRAM = """data {{ int N; vector[N] y; array[N] int g; }}
parameters {{ real a; real b; real c; }}
model {{ for (n in 1:N) y[n] ~ normal(a + {mean}, 1); }}"""


OPEN = Domain("integer")


def told(mean, declared=OPEN):
    """The range of g, and the notes on it."""
    program = read_program(PROGRAM.format(mean=mean))
    fields = with_ranges(program, columns(program, "N"), {"y": Field(), "g": Field(domain=declared)})
    return fields["g"].domain, presumed_notes(program, fields)


@pytest.mark.parametrize(
    ("mean", "declared", "levels"),
    [
        ("b * (g[n] == 2) + c * (g[n] == 3)", None, (1, 2, 3)),
        ("b * (g[n] == 1)", None, (0, 1)),
        ("b * (g[n] == 0)", None, (0, 1)),
        ("b * (1 == g[n])", None, (0, 1)),
        ("b * (g[n] > 2)", None, (2, 3)),
        ("b * (2 >= g[n])", None, (2, 3)),
        ("b * (g[n] < 2) + c * (g[n] == 4)", None, (1, 2, 3, 4)),
        ("b * (g[n] == 1) + c * (g[n] == 3)", None, (1, 2, 3)),
        ("b * (g[n] == -1)", None, (-1, 0)),
        ("(g[n] ? b : c)", None, (0, 1)),
        ("b * (g[n] == 1) + c * (g[n] == 2)", Domain("integer", 1), (1, 2, 3)),
        ("b * (g[n] == 3)", Domain("integer", 1), (1, 2, 3)),
        ("b * (g[n] == 3)", Domain("integer", high=5), (2, 3, 4, 5)),
    ],
)
def test_a_range_is_presumed_where_only_comparisons_read_it(mean, declared, levels):
    domain, (note,) = told(mean, declared=declared or OPEN)
    assert domain.levels == levels
    assert domain.presumed
    assert "g has no bounds" in note
    assert domain.words in note


@pytest.mark.parametrize("mean", ["b * g[n]", "b * g[n] + c * (g[n] == 2)", "b * (g[n] == 2) + c * (g[n] == 200)"])
def test_nothing_is_presumed_where_the_number_itself_counts_or_too_many_are_possible(mean):
    domain, notes = told(mean)
    assert domain.kind == "integer"
    assert not domain.presumed
    assert not notes


def test_declared_bounds_and_stated_domains_are_no_presumptions():
    text = PROGRAM.format(mean="b * (g[n] == 2)")
    model = from_stan(text, domain={"g": [1, 2, 7]})
    assert model.fields["g"].domain.levels == (1, 2, 7)
    assert not told("b * (g[n] == 2)", declared=Domain("integer", 1, 40))[0].presumed
    assert not any("presumed" in note for note in model.notes)


def test_data_that_are_there_overrule_what_was_presumed():
    text = PROGRAM.format(mean="b * (g[n] == 2) + c * (g[n] == 3)")
    for g, levels in (([1, 2, 3], (1, 2, 3)), ([1, 2, 5], ())):
        model, records = stan_data(text, {"N": 3, "y": [0.1, 0.2, 0.3], "g": g})
        assert records["g"].tolist() == g
        assert model.fields["g"].domain.levels == levels


def test_laws_tell_where_whole_numbers_lie():
    text = "data { int N; vector[N] x; array[N] int m; array[N] int y; } parameters { real a; } model { y ~ %s; }"
    open_ = Field(domain=Domain("integer"))
    for law in ("bernoulli_logit(a * x)", "binomial_logit(m, a * x)"):
        program = read_program(text % law)
        fields = with_ranges(program, columns(program, "N"), {"x": Field(), "m": open_, "y": open_})
        if law.startswith("bernoulli"):
            assert fields["y"].domain.levels == (0, 1)
    assert (fields["y"].domain.low, fields["m"].domain.low) == (0, 0)
    assert not any(f.domain.presumed for f in fields.values())


@pytest.mark.parametrize(
    "term", ["log(y[n]) ~ normal(a, 1)", "y[n] ~ lognormal(a, b)", "x[n] ~ normal(a * sqrt(y[n]), 1)"]
)
def test_there_is_no_density_where_there_is_no_logarithm(term):
    text = "data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; } model { for (n in 1:N) %s; }"
    fields = {"x": Field(), "y": Field()}
    program = read_program(text % term)
    found = with_ranges(program, columns(program, "N"), fields)
    assert (found["y"].domain, found["x"].domain) == (Domain("interval", 0.0), Domain())
    assert not found["y"].domain.presumed
    for guard in ("y[n] > 0", "x[n] > 0"):
        guarded = read_program(text % f"if ({guard}) {term}")
        assert with_ranges(guarded, columns(guarded, "N"), fields) == fields


def test_a_result_says_what_was_presumed_until_it_is_stated():
    rng = np.random.default_rng(0)
    g = rng.integers(1, 4, 60)
    x = np.stack([np.ones(60), g == 2, g == 3], axis=1)
    precision = x.T @ x
    y = x @ [1.0, 0.5, -0.5] + rng.normal(size=60)
    beta = rng.multivariate_normal(np.linalg.solve(precision, x.T @ y), np.linalg.inv(precision), size=(2, 500))
    draws = dict(zip("abc", np.moveaxis(beta, -1, 0), strict=True))
    model = from_stan(PROGRAM.format(mean="b * (g[n] == 2) + c * (g[n] == 3)"))
    presumed = bayesrecon.recover(draws, model=model)
    assert "g is one of 1, 2, 3 (presumed)" in presumed.condition
    assert "(presumed)" in presumed.to_dict()["condition"]
    assert any("g has no bounds" in line for line in presumed.warnings)
    assert presumed["n[g=2]"].estimate == pytest.approx(np.sum(g == 2), abs=4 * presumed["n[g=2]"].se)
    stated = bayesrecon.recover(draws, model=model, domain={"g": (1, 3)})
    assert "presumed" not in stated.condition
    assert stated["n[g=2]"].estimate == pytest.approx(presumed["n[g=2]"].estimate, rel=1e-9)
    with pytest.raises(bayesrecon.BayesreconError, match="which was presumed: state another with domain="):
        bayesrecon.recover(draws, model=model, known={"g": g + 3})
