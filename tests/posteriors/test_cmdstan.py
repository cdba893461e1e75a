"""CmdStan's CSV files: right values, one line of complaint about damaged ones."""

import pathlib
import tempfile
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import BETA, CHAINS, DRAWS, LP, SIGMA, draws_or_complaint, refused, same

from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.formats.cmdstan import read_cmdstan
from bayesrecon.untrusted import cmdstan_file

pytestmark = pytest.mark.small

HEADER = """\
# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = linear_model
# start_datetime = 2025-03-01 10:00:00 UTC
# method = sample (Default)
#   sample
#     num_samples = {samples}
#     num_warmup = {warmup}
#     save_warmup = {save} (Default)
#     thin = {thin} (Default)
#     adapt
#       engaged = true (Default)
#       delta = 0.8 (Default)
#     algorithm = {algorithm} (Default)
#       hmc
#         engine = nuts (Default)
#     num_chains = 1 (Default)
# id = 1 (Default)
# data
#   file = data.json
# init = 2 (Default)
# random
#   seed = 1234
# output
#   file = output.csv (Default)
#   save_cmdstan_config = false (Default)
# stanc_version = stanc3 v2.36.0
# stancflags =
"""


ADAPTATION = """\
# Adaptation terminated
# Step size = 0.787025
# Diagonal elements of inverse mass matrix:
# 0.511, 1.02
"""


TIMING = """\
#
#  Elapsed Time: 0.003 seconds (Warm-up)
#                0.006 seconds (Sampling)
#                0.009 seconds (Total)
#
"""


# Stan writes matrices column by column.
COLUMNS = [
    "lp__",
    "accept_stat__",
    "energy__",
    "sigma",
    *(f"beta.{i}.{j}" for j in (1, 2, 3) for i in (1, 2)),
]


TABLE = np.concatenate(
    [
        LP[..., None],
        np.ones((CHAINS, DRAWS, 2)),
        SIGMA[..., None],
        BETA.swapaxes(2, 3).reshape(CHAINS, DRAWS, 6),
    ],
    axis=-1,
)


def lines(rows):
    return "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())


def stan_csv(rows, columns=COLUMNS, *, before=None, samples=DRAWS, warmup=1000, save=0, thin=1, algorithm="hmc"):
    saved = "" if before is None else lines(before)
    head = HEADER.format(samples=samples, warmup=warmup, save=save, thin=thin, algorithm=algorithm)
    return head + ",".join(columns) + "\n" + saved + ADAPTATION + lines(rows) + TIMING


@pytest.fixture
def chains(tmp_path):
    paths = [tmp_path / f"linear-{c + 1}.csv" for c in range(CHAINS)]
    for path, rows in zip(paths, TABLE, strict=True):
        path.write_text(stan_csv(rows))
    return paths


def test_cmdstan(chains):
    draws = read_draws(chains)
    same(draws)
    assert (draws.name, draws.attributes) == ("linear", {})
    one = read_draws(str(chains[1]))
    np.testing.assert_array_equal(one.values["beta"], BETA[1:2])
    assert one.name == "linear-2"
    assert read_draws(chains[:1], name="mine").name == "mine"


@pytest.mark.parametrize("save", ["1", "true"])
@pytest.mark.parametrize("warmup, thin, saved", [(4, 1, 4), (5, 2, 3), (1, 10, 1), (0, 1, 0)])
def test_cmdstan_drops_saved_warmup(tmp_path, save, warmup, thin, saved):
    path = tmp_path / "fit.csv"
    before = np.full((saved, TABLE.shape[-1]), 99.0)
    path.write_text(stan_csv(TABLE[0], before=before, warmup=warmup, save=save, thin=thin, samples=DRAWS * thin))
    np.testing.assert_array_equal(read_cmdstan(path).values["sigma"], SIGMA[:1])


def test_cmdstan_exact_sampler_has_no_density_and_no_warmup(tmp_path):
    path = tmp_path / "fit.csv"
    path.write_text(stan_csv(TABLE[0], algorithm="fixed_param", save=1, warmup=3))
    draws = read_cmdstan(path)
    np.testing.assert_array_equal(draws.values["sigma"], SIGMA[:1])
    assert draws.log_density is None


def test_cmdstan_keeps_every_digit_and_special_values(tmp_path):
    path = tmp_path / "fit.csv"
    tricky = np.array([[0.1 + 0.2, 1e-310], [np.nextafter(1, 2), 5e300], [np.nan, np.inf]])
    path.write_bytes(b"\xef\xbb\xbf" + ("a,b\r\n" + lines(tricky).replace("\n", "\r\n\r\n")).encode())
    draws = read_cmdstan(path)
    np.testing.assert_array_equal(draws.values["a"][0], tricky[:, 0])
    np.testing.assert_array_equal(draws.values["b"][0], tricky[:, 1])
    assert draws.log_density is None


def fit_of(chains, **more):
    return types.SimpleNamespace(runset=types.SimpleNamespace(csv_files=[str(path) for path in chains]), **more)


def test_cmdstanpy_fit(chains, tmp_path):
    same(read_draws(fit_of(chains)))
    names = [name.replace(".", "[", 1).replace(".", ",") + "]" * ("." in name) for name in COLUMNS]
    loaded = {"column_names": tuple(names), "draws": lambda concat_chains: TABLE.swapaxes(0, 1)}
    same(read_draws(fit_of([tmp_path / "gone.csv"], **loaded)))
    same(read_draws(types.SimpleNamespace(**loaded)))
    refused("not a CmdStanPy fit", read_cmdstan, fit_of([tmp_path / "gone.csv"]))
    refused("not a CmdStanPy fit", read_cmdstan, 3)


GOOD = stan_csv(TABLE[0])
ROWS = GOOD.index(lines(TABLE[0]))


@pytest.mark.parametrize(
    "content, match",
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (HEADER, "empty but for comments"),
        (GOOD[:ROWS], "no draws after the header"),
        (GOOD[: GOOD.index(TIMING) - 60], "line 41 has 7 fields under a header of 10"),
        (GOOD[: GOOD.index(TIMING) - 5], "the last row is cut off"),
        (GOOD.replace("lp__,", "lp__,extra__,"), "line 35 has 10 fields under a header of 11"),
        ("a,b\n1,2\n3,x\n", "line 3 holds 'x', which is not a number"),
        ("a,b\n1,2\n3,\n", "line 3 holds '', which is not a number"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields under a header of 2"),
        ("a,b,a\n1,2,3\n", "'a' appears 2 times"),
        ("b.1,b.3\n1,2\n", r"b\[2\] is missing"),
        ("t:1,t:2\n1,2\n", "tuple or a complex"),
        ("z.real,z.imag\n1,2\n", "tuple or a complex"),
        ("lp__,energy__\n1,2\n", "no parameters"),
        ("# method = variational\na\n1\n", "method 'variational', not 'sample'"),
        ("# method = optimize\na\n1\n", "method 'optimize', not 'sample'"),
        ("# save_warmup = 1\n# num_warmup = 2\na\n1\n2\n", "warm-up draws only"),
        ("# save_warmup = 1\n# num_warmup = many\na\n1\n", "num_warmup = 'many'"),
        ("# save_warmup = 1\na\n1\n", "warmup = ''"),
        ("# save_warmup = 1\n# num_warmup = 2\n# thin = 0\na\n1\n", "thin = '0'"),
        (b"\x89HDF\r\n\x1a\n" + bytes(range(256)), "not UTF-8"),
        (b"a,b\n1,2\n\xff,3\n", "not UTF-8"),
        (bytes(1000), "CmdStan|no draws"),
    ],
)
def test_cmdstan_refuses(tmp_path, content, match):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(match, read_cmdstan, path)


def test_cmdstan_refuses_a_giant_header(tmp_path, monkeypatch):
    monkeypatch.setattr(cmdstan_file, "MAX_LINE", 100)
    (tmp_path / "bad.csv").write_text("x" * 101)
    refused("a line of 100 characters", read_cmdstan, tmp_path / "bad.csv", trusted=True)


def test_cmdstan_refuses_chains_that_differ(chains, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(stan_csv(TABLE[0], [*COLUMNS[:-1], "gamma"]))
    refused("not chains of one fit", read_cmdstan, [chains[0], other])
    other.write_text(stan_csv(TABLE[0][:-1]))
    refused("6 draws, but .* has 7", read_cmdstan, [chains[0], other])
    refused("no such file", read_cmdstan, [chains[0], tmp_path / "none.csv"])
    refused("empty list", read_cmdstan, [])


WORDS = "lp__ a b.1 b.2 b.2.1 b.999999999 t:1 # 1 -2.5 nan inf 1e999 x '' \" é = sample"
COMMENTS = "# save_warmup = 1; # num_warmup = 1; # thin = 2; # num_samples = 5; # method = sample"
STAN_TOKENS = st.sampled_from(
    WORDS.split() + [comment + "\n" for comment in COMMENTS.split("; ")] + [","] * 5 + ["\n"] * 5 + ["\r", "\0", " "]
)


@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_any_bytes_as_cmdstan(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(st.binary(max_size=200) | st.lists(STAN_TOKENS, max_size=40).map(lambda tokens: "".join(tokens).encode()))
    def check(content):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "fuzz.csv")
            path.write_bytes(content)
            draws_or_complaint(read_cmdstan, path)

    check()


@pytest.mark.parametrize("read", [read_cmdstan, read_contents])
@pytest.mark.parametrize(
    ("rows", "comments"), [(3, ""), (5, "# save_warmup = 1\n# num_warmup = 2\n"), (2, "# thin = 2\n")]
)
def test_more_draws_than_were_asked_for(tmp_path, read, rows, comments):
    """Runs put together in one file, or rows that somebody added."""
    path = tmp_path / "fit.csv"
    path.write_text(f"# num_samples = 3\n{comments}lp__,mu\n" + "1,2\n" * rows)
    read(path)
    path.write_text(f"# num_samples = 3\n{comments}lp__,mu\n" + "1,2\n" * (rows + 1))
    refused(r"draws, but its comments say num_samples = 3, which leaves [23]", read, path)
