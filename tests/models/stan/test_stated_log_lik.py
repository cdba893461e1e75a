"""`log_lik` of a program, where it has one, says what a record is, and is compared with its term."""

import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from bayesrecon.models import from_stan, stan_data

TEXT = """
data {{ int<lower=0> N; int<lower=0> M; vector[N] y; vector[M] z; }}
parameters {{ real a; real<lower=0> s; }}
model {{ y ~ normal(a, s); z ~ normal(a, 2); }}
generated quantities {{
  vector[{count}] log_lik;
  real drawn = normal_rng(a, s);
  for (n in 1:{count}) log_lik[n] = {term};
}}
"""
OF_Y, OF_Z = "normal_lpdf(y[n] | a, s)", "normal_lpdf(z[n] | a, 2)"
M, N = {"M": 2, "z": [0.5, 1.0]}, {"N": 3, "y": [0.1, 0.2, 0.4]}


def notes(count, term, **options):
    return " ".join(from_stan(TEXT.format(count=count, term=term), **options).notes)


@pytest.mark.parametrize(("count", "term", "fields", "constants"), [("N", OF_Y, ["y"], M), ("M", OF_Z, ["z"], N)])
def test_its_count_is_that_of_records(count, term, fields, constants):
    model = from_stan(TEXT.format(count=count, term=term), constants=constants)
    assert list(model.fields) == fields
    assert "log_lik" not in " ".join(model.notes)
    _, records = stan_data(TEXT.format(count=count, term=term), {**N, **M})
    assert list(records) == ["kind", *fields, *({"y", "z"} - {*fields})]  # beside data at hand none is a constant


@pytest.mark.slow
def test_what_it_says_otherwise_is_noted():
    assert "log_lik has an entry for each of N, but the records are M" in notes("N", OF_Y, constants=N, record="M")
    assert "log_lik differs from a record's term" in notes("N", "normal_lpdf(y[n] | a, 1)", constants=M)
    assert "log_lik differs from a record's term" in notes("N", "2 * normal_lpdf(y[n] | a, s)", constants=M)
    assert "log_lik" not in notes("N", "normal_lpdf(y[n] | a, s) + 3", constants=M)  # a constant


def test_what_cannot_be_run_is_said():
    assert "log_lik could not be compared" in notes("N", "normal_lpdf(y[n] | a, s) + normal_rng(0, 1)", constants=M)
