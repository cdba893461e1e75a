"""A program is data from a stranger: whatever it says, one line comes back, and soon."""

import time

import jax
import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_stan
from bayesrecon.models.stan.parsing import parse
from bayesrecon.models.stan.posterior import Posterior
from bayesrecon.precision import x64

PROGRAMS = (
    """functions { real f(vector z, int i) { if (i > 1) return sum(z) + f(z, i - 1); return z[1]; } }
data { int<lower=0> N; int K; vector[N] y; matrix[N, K] X; array[N] int<lower=1, upper=3> g; }
transformed data { vector[N] c = y - mean(y); matrix[K, K] Q = crossprod(X); }
parameters { real a; vector[K] b; real<lower=0> s; vector[3] u; simplex[3] t; }
transformed parameters { vector[N] m; for (n in 1:N) { m[n] = a + X[n] * b + u[g[n]] * s; } }
model { a ~ normal(0, 1); b ~ std_normal(); s ~ exponential(1); u ~ normal(0, s); t ~ dirichlet(rep_vector(1, 3));
  y ~ normal(m, s) T[-50, ]; target += f(c, 2) * 0.01; while (a > 1e9) { break; } }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | m[n], s); }""",
    """data { int<lower=0> N; int y[N]; real<lower=0> x[N]; }
parameters { real<lower=0, upper=1> p[2]; ordered[2] k; cholesky_factor_corr[2] L; }
model { for (n in 1:N) { if (y[n] == 0) increment_log_prob(log_mix(p[1], -x[n], normal_log(x[n], k[1], 1)));
  else target += poisson_lpmf(y[n] | exp(k[2])) + log1m(p[2]); } L ~ lkj_corr_cholesky(2); }""",
)
DATA = {"N": 4, "K": 2, "y": [0, 1, 2, 0], "X": [[1, 0.5]] * 4, "g": [1, 2, 3, 1], "x": [0.2, 0.4, 1.0, 2.0]}

WORDS = (
    "[", "]", "(", ")", "{", "}", ";", ",", "<", ">", "=", "~", "'", "^", "\\", ":", "?", "|", ".*", "-", "!", "1e308",
    "-1", "0", "2147483647", "99999999999999999999", "1:0", "vector", "matrix", "int", "real", "array[3]", "target +=",
    "return", "for (i in 1:1000000000)", "while (1)", "f(f(", "__import__('os')", "y[", "rep_matrix(1, 100000, 100000)",
    "a.__class__", "exp", "reject(", '"', "#include <x>", "/*", "\x00", "\u202e", "if (p[1] > 0)", "N", "K", "import",
)  # fmt: skip


def mutated(rng: np.random.Generator) -> str:
    """One of the programs with a few words dropped, doubled, exchanged or put in."""
    words = PROGRAMS[rng.integers(len(PROGRAMS))].split(" ")
    for _ in range(rng.integers(1, 6)):
        at = rng.integers(len(words))
        kind = rng.integers(4)
        if kind == 0:
            del words[at]
        elif kind == 1:
            words.insert(at, words[rng.integers(len(words))])
        elif kind == 2:
            words.insert(at, WORDS[rng.integers(len(WORDS))])
        else:
            letters = list(words[at])
            if letters:
                letters[rng.integers(len(letters))] = WORDS[rng.integers(len(WORDS))]
            words[at] = "".join(letters)
    return " ".join(words)


def meets(text: str) -> float:
    """Seconds until a program was evaluated or refused in one line."""
    began = time.process_time()
    try:
        with x64():
            posterior = Posterior(parse(text), DATA)
            jax.eval_shape(posterior.log_density, np.zeros(posterior.dimension))
    except BayesreconError as error:
        assert "\n" not in str(error)
    return time.process_time() - began


def test_mutated_programs_are_evaluated_or_refused():
    rng = np.random.default_rng(0)
    assert max(meets(mutated(rng)) for _ in range(40)) < 60


@pytest.mark.slow
def test_many_mutated_programs():
    rng = np.random.default_rng(1)
    assert max(meets(mutated(rng)) for _ in range(2_500)) < 60


BOMBS = {
    "brackets": "model { target += " + "(" * 5000 + "1" + ")" * 5000 + "; }",
    "a long sum": "model { target += " + "+".join(["1"] * 5000) + "; }",
    "signs": "model { target += " + "-" * 5000 + "1; }",
    "a loop": "model { for (i in 1:2000000000) target += 1; }",
    "nested loops": "model { for (i in 1:100000) for (j in 1:100000) target += i * j; }",
    "no end": "model { int i = 0; while (i < 1) i = 0; }",
    "recursion": "functions { real f(real x) { return f(x); } } model { target += f(1); }",
    "doubling": "functions { vector f(vector x, int i) { if (i == 0) return x; return f(append_row(x, x), i - 1); } } "
    "model { target += sum(f(rep_vector(1, 10), 39)); }",
    "a size": "model { vector[2000000000] x; target += 1; }",
    "many sizes": "model { for (i in 1:100000) { vector[9000000] x; target += 1; } }",
    "a product": "model { matrix[4000000, 1] x; target += sum(x * x'); }",
    "a file": '#include "/etc/passwd"\nmodel { }',
}


LONG = {"no end", "doubling"}  # what takes seconds to be sure of


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in BOMBS])
def test_bombs_are_refused(name):
    began = time.process_time()

    def run():
        jax.eval_shape(Posterior(parse(BOMBS[name]), {}).log_density, np.zeros(0))

    with x64(), pytest.raises(BayesreconError) as refused:
        run()
    assert "\n" not in str(refused.value)
    assert time.process_time() - began < 60


def test_what_is_no_program_is_refused(tmp_path):
    empty, binary = tmp_path / "empty.stan", tmp_path / "binary.stan"
    empty.write_text("")
    binary.write_bytes(bytes(range(256)))
    for path, what in ((empty, "no parameters|no data"), (binary, "not text"), (tmp_path / "no.stan", "no such file")):
        with pytest.raises(BayesreconError, match=what):
            from_stan(path)
