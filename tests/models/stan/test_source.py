"""What is read off a program: records, constants, sizes, and what is refused with its line."""

import json

import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

import bayesrecon
from bayesrecon.cli.inputs import load_model, with_constants
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_stan
from bayesrecon.posteriors.conversion import release_of
from bayesrecon.verbs.verb import deletion

REGRESSION = """data { int N; int K; matrix[N, K] X; vector[N] y; real<lower=0> width; }
parameters { vector[K] b; }
model { b ~ normal(0, width); y ~ normal(X * b, 1); }"""


def test_sizes_come_from_the_draws_and_constants_from_a_file(tmp_path):
    program, draws, constants = (tmp_path / name for name in ("program.stan", "draws.csv", "constants.json"))
    program.write_text(REGRESSION)
    draws.write_text("lp__,b.1,b.2\n-1.0,0.5,0.25\n-2.0,0.25,0.5\n")
    constants.write_text(json.dumps({"width": 2.5}))
    settings = with_constants({}, str(constants), str(program))
    model = load_model(str(program), settings, [str(draws)])
    assert model.fields["X"].shape == (2,)
    with pytest.raises(BayesreconError, match="width: pass constants="):
        load_model(str(program), {}, [str(draws)])


def test_parameters_of_each_record_are_named_by_a_unit():
    program = """data { int J; vector[J] y; vector<lower=0>[J] s; } parameters { real mu; real<lower=0> tau;
    vector[J] theta; } model { theta ~ normal(mu, tau); y ~ normal(theta, s); }"""
    model = from_stan(program, constants={"J": 3})
    assert tuple(model.fields) == ("unit", "y", "s")
    assert model.coordinates[2:] == ("theta_raw[1]", "theta_raw[2]", "theta_raw[3]")


REFUSED = {
    "a process": ("y ~ normal(a + mean(y), 1);", 'line 3: records are coupled here.*record="all"'),
    "a mean": ("y ~ normal(a, 1 + sd(y));", "line 3: records are coupled here"),
    "a constant": ("a ~ normal(0, 1); target += sum(y);", "does not depend on any parameter"),
    "a function": ("y ~ normal(nothing(a), 1);", "line 3, column 20: there is no function nothing"),
    "a word": ("y ~~ normal(a, 1);", "line 3, column 12"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_its_line(name):
    statement, what = REFUSED[name]
    with pytest.raises(BayesreconError, match=what):
        from_stan("data { int N; vector[N] y; }\nparameters { real a; }\nmodel { " + statement + " }")


def test_a_branch_on_a_record_chooses():
    program = """data { int N; array[N] int<lower=0> y; } parameters { real a; real<lower=0, upper=1> p; }
    model { a ~ normal(0, 1);
    for (n in 1:N) { if (y[n] == 0) target += log(p); else target += log1m(p) + y[n] * a; } }"""
    model = from_stan(program)
    params = {"a": 0.5, "p": 0.25}
    for y, expected in ((0, np.log(0.25)), (3, np.log(0.75) + 1.5)):
        assert float(model.log_lik_at(params, {"y": y})) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_draws_tell_the_sizes_of_a_program_that_is_named_by_its_path(tmp_path):
    """In Python as on the command line."""
    path = tmp_path / "line.stan"
    path.write_text(
        "data { int N; int K; matrix[N, K] x; vector[N] y; } parameters { vector[K] b; real<lower=0> sigma; } "
        "model { y ~ normal(x * b, sigma); }"
    )
    rng = np.random.default_rng(0)
    draws = {"b": rng.normal(size=(2, 50, 3)), "sigma": rng.gamma(9, size=(2, 50))}
    assert release_of(draws, str(path)).model.fields["x"].shape == (3,)
    found = bayesrecon.audit(draws, path, remedies=False)
    assert found.used.fields["x"].shape == (3,)
    again = {k: v + 0.01 for k, v in draws.items()}
    assert deletion(draws, again, model=path).after.model.fields["x"].shape == (3,)


def test_lists_of_sizes_are_told_by_what_they_are_sizes_of():
    """As brms writes the bases of a smooth."""
    program = """
    data { int N; vector[N] y; int nb; array[nb] int knots; matrix[N, knots[1]] A; matrix[N, knots[2]] B; }
    parameters { vector[knots[1]] a; vector[knots[2]] b; } model { y ~ normal(A * a + B * b, 1); }
    """
    model = from_stan(program, sizes={"a": (3,), "b": (2,)})
    assert {name: field.shape for name, field in model.fields.items()} == {"y": (), "A": (3,), "B": (2,)}
