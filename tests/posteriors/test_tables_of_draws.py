"""Tables of draws of CmdStan and R: odd columns, chains that were killed, other methods, compressed files."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors import formats
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.untrusted import packed

pytestmark = pytest.mark.small

RNG = np.random.default_rng(7)
ROWS = np.round(RNG.normal([-12, 1, 0.5, 3], [1, 0.1, 0.05, 0.2], size=(40, 4)), 6)
SAMPLE = "# method = sample (Default)\n#   sample\n#     num_samples = 40\n"


def table(rows, header="lp__,coef.1,coef.2,sigma", head=SAMPLE, more=""):
    return head + header + "\n" + "".join(",".join(map(repr, row)) + more + "\n" for row in rows.tolist())


def test_a_complex_number_and_a_tuple_beside_parameters(tmp_path):
    path = tmp_path / "chain.csv"
    path.write_text(table(ROWS, "lp__,coef.1,coef.2,sigma,z.real,z.imag,pair:1,pair:2.1", more=",1,2,3,4"))
    draws = read_draws(path)
    assert list(draws.values) == ["coef", "sigma"]
    np.testing.assert_array_equal(draws.values["coef"][0], ROWS[:, 1:3])
    found = read_contents([path])
    assert {v.name: v.shape for v in found.group("posterior")} == {"z": (2,), "pair": (2,), "coef": (2,), "sigma": ()}
    assert list(found.draws.values) == ["coef", "sigma"]
    assert "z, pair" in found.notes[0]


def test_data_in_a_tuple_are_found(tmp_path):
    path = tmp_path / "chain.csv"
    ages = [41.0, 17.0, 63.0, 28.0, 35.0, 52.0]
    header = "lp__,coef.1,coef.2,sigma," + ",".join(f"kept:1.{i + 1}" for i in range(6))
    path.write_text(table(ROWS, header, more="," + ",".join(map(str, ages))))
    found = audit([path])
    assert found.severity == "high"
    assert "posterior/kept" in found.findings[0].title


def test_missing_values_are_not_numbers(tmp_path):
    path = tmp_path / "chain.csv"
    text = table(ROWS, "lp__,coef.1,coef.2,sigma,ratio", more=",1.5")
    path.write_text(text.replace(",1.5", ",NA", 1))
    ratio = read_draws(path).values["ratio"][0]
    assert np.isnan(ratio[0])
    assert (ratio[1:] == 1.5).all()
    np.testing.assert_array_equal(read_contents([path]).draws.values["ratio"][0], ratio)


@pytest.mark.parametrize("yes, no", [("true", "false"), ("TRUE", "FALSE"), ("True", "False")])
def test_truth_values_are_one_and_zero(tmp_path, yes, no):
    path = tmp_path / "chain.csv"
    head, *lines = table(ROWS, "lp__,coef.1,coef.2,sigma", head="").splitlines()
    words = [yes if i % 3 else no for i in range(len(lines))]
    path.write_text("\n".join([head + ",accepted", *(f"{li},{w}" for li, w in zip(lines, words, strict=True))]) + "\n")
    expected = [float(w == yes) for w in words]
    assert read_draws(path).values["accepted"][0].tolist() == expected
    assert read_contents([path]).draws.values["accepted"][0].tolist() == expected


def chains(tmp_path, second):
    paths = [tmp_path / "a_1.csv", tmp_path / "a_2.csv"]
    paths[0].write_text(table(ROWS))
    paths[1].write_text(second)
    return paths


def test_chains_of_unequal_length(tmp_path):
    paths = chains(tmp_path, table(ROWS[::-1][:25]))
    refused("leave out the chain that was killed", read_draws, paths)
    found = read_contents(paths)
    assert found.draws.values["sigma"].shape == (2, 25)
    np.testing.assert_array_equal(found.draws.values["sigma"], [ROWS[:25, 3], ROWS[::-1][:25, 3]])
    assert "40, 25 draws" in found.notes[0]
    assert found.unread[0].where == "a_1.csv: 15 draws"
    assert audit(paths).verdict == "incomplete"


def test_a_chain_that_was_killed_within_a_row(tmp_path):
    paths = chains(tmp_path, table(ROWS[::-1])[:-8])
    refused("was the chain killed", read_draws, paths)
    found = read_contents(paths)
    assert found.draws.values["sigma"].shape == (2, 39)
    assert "a_2.csv ends in the middle of a row" in found.notes[0]
    np.testing.assert_array_equal(found.draws.values["sigma"][1], ROWS[::-1][:39, 3])


def test_a_chain_killed_early_costs_few_draws(tmp_path):
    found = read_contents(chains(tmp_path, table(ROWS[:1])))
    assert found.draws.values["sigma"].shape == (1, 40)
    assert [one.where for one in found.unread] == ["a_2.csv: 1 draws"]


def test_generated_quantities(tmp_path):
    """CmdStan writes what is generated, and nothing of the parameters."""
    path = tmp_path / "gq.csv"
    head = "# method = generate_quantities\n#   generate_quantities\n#     fitted_params = fit.csv\n"
    terms = RNG.normal(size=(40, 5))
    path.write_text(table(terms, ",".join(f"log_lik.{i + 1}" for i in range(5)), head))
    refused("pass the file of the sampler", read_draws, path)
    assert [v.group for v in read_contents([path]).variables] == ["log_likelihood"]
    found = audit([path])
    assert found.severity == "high"
    assert found.findings[0].where == ("log_likelihood/log_lik",)
    assert not any("recognised" in finding.title for finding in found.findings)


@pytest.mark.parametrize("method", ["laplace", "pathfinder", "variational", "optimize", "log_prob"])
def test_other_methods_are_looked_at_and_are_no_draws(tmp_path, method):
    path = tmp_path / "fit.csv"
    head = f"# method = {method}\n#   {method}\n# y: 41, 63, 17, 28\n"
    rows = ROWS if method != "optimize" else ROWS[:1]
    path.write_text(table(rows, head=head))
    found = audit(str(path))
    assert found.verdict == "incomplete"
    assert found.draws == 0
    assert any(method in missed.reason for missed in found.not_run)
    assert any("comments" in finding.where for finding in found.findings)


def test_log_densities_of_an_approximation_are_not_passed_over(tmp_path):
    """`log_p__` is the log density of the posterior at draws of another law, `log_q__` that of the law."""
    path = tmp_path / "fit.csv"
    path.write_text(table(ROWS, "log_p__,log_q__,mu,sigma", "# method = pathfinder\n"))
    found = audit(str(path))
    assert any("sample_stats/log_p__" in missed.where for missed in found.not_run)
    assert not any("sample_stats/log_q__" in place for place in found.unrecognised)


def test_a_diagnostic_file_holds_unconstrained_parameters(tmp_path):
    path = tmp_path / "diagnostics.csv"
    path.write_text(table(np.ones((40, 7)) * ROWS[:, :1], "lp__,mu,sigma,p_mu,p_sigma,g_mu,g_sigma", ""))
    refused("diagnostic file", read_draws, path)
    found = audit(str(path))
    assert found.draws == 0
    assert any("unconstrained" in missed.reason for missed in found.not_run)


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def zstandard(content):
    return pytest.importorskip("zstandard").compress(content)


@pytest.mark.parametrize("suffix", [*PACKERS, ".zst"])
def test_compressed(tmp_path, suffix):
    plain, path = tmp_path / "chain.csv", tmp_path / f"chain.csv{suffix}"
    plain.write_text(table(ROWS))
    pack = PACKERS.get(suffix, zstandard)
    path.write_bytes(pack(plain.read_bytes()))
    draws = read_draws(path)
    assert draws.name == "chain"
    np.testing.assert_array_equal(draws.values["coef"], read_draws(plain).values["coef"])
    found = read_contents([path])
    assert found.comments == read_contents([plain]).comments
    assert found.files[0].size == path.stat().st_size
    np.testing.assert_array_equal(found.draws.log_density, draws.log_density)
    path.write_bytes(path.read_bytes()[:-12])
    refused("damaged", read_draws, path)
    path.write_bytes(b"nothing of that kind")
    refused("damaged", read_draws, path)
    path.write_bytes(pack(bytes(packed.FREE + 1)))
    refused("unpacks to more than 32 MiB", read_draws, path)
    path.write_bytes(b"")
    refused("empty|damaged", read_draws, path)


def r_table(names, values, chains=2):
    """As `write.csv(as_draws_df(fit), row.names = FALSE)` writes it."""
    count = len(values) // chains
    quoted = [f'"{name}"' for name in (*names, "lp__", ".chain", ".iteration", ".draw")]
    rows = [
        ",".join([*map(repr, row), repr(-float(i)), str(i // count + 1), str(i % count + 1), str(i + 1)])
        for i, row in enumerate(values.tolist())
    ]
    return "\n".join([",".join(quoted), *rows, ""])


BRMS = ["b_Intercept", "b_x", "b_x:z", "sd_g__Intercept", "sigma", "r_g[ann,Intercept]", "r_g[bob,Intercept]", "Z[1]"]
BRMS += ["Z[2]"]


def test_draws_of_r(tmp_path):
    path = tmp_path / "draws.csv"
    values = RNG.normal(size=(40, len(BRMS)))
    path.write_text(r_table(BRMS, values))
    draws = read_draws(path)
    assert list(draws.values) == [*BRMS[:-2], "Z"]
    assert draws.values["Z"].shape == (2, 20, 2)
    for k, name in enumerate(BRMS[:-2]):
        np.testing.assert_array_equal(draws.values[name].ravel(), values[:, k])
    np.testing.assert_array_equal(draws.log_density.ravel(), -np.arange(40.0))
    found = read_contents([path])
    assert found.draws.values["Z"].shape == (2, 20, 2)
    assert not found.entries
    assert found.coordinates["posterior/r_g"].tolist() == ["ann", "bob"]


def test_rows_with_names(tmp_path):
    """`write.csv(as_draws_df(fit))` numbers the rows in a column without a name."""
    path = tmp_path / "draws.csv"
    lines = r_table(["mu"], RNG.normal(size=(40, 1))).splitlines()
    path.write_text("\n".join([f'"",{lines[0]}', *(f'"{i + 1}",{line}' for i, line in enumerate(lines[1:]))]) + "\n")
    assert list(read_draws(path).values) == ["mu"]
    assert {v.name for v in read_contents([path]).variables} == {"mu", "lp__"}


def test_a_column_that_does_not_count_is_looked_at(tmp_path):
    path = tmp_path / "draws.csv"
    lines = r_table(["mu"], RNG.normal(size=(40, 1))).splitlines()
    ages = RNG.integers(18, 90, size=40)
    path.write_text(
        "\n".join([lines[0], *(line.rpartition(",")[0] + f",{a}" for line, a in zip(lines[1:], ages, strict=True))])
    )
    found = read_contents([path])
    np.testing.assert_array_equal(next(v for v in found.variables if v.name == ".draw").values, ages)


def test_suffixes_of_two_parts():
    assert formats.suffix_of("a.b.csv.gz") == ".csv.gz"
    assert formats.suffix_of("a.tar.gz") == ".gz"


@pytest.mark.slow
def test_comments_of_a_law_are_looked_at_with_its_model(tmp_path):
    """The law is attacked as what it is, and its file holds more."""
    path = tmp_path / "fit.csv"
    rng = np.random.default_rng(1)
    beta, sigma = rng.normal([26, 0.6], [6, 0.06], (400, 2)), np.exp(rng.normal(2.9, 0.035, 400))
    rows = np.column_stack([np.zeros((400, 2)), beta, sigma])
    head = "# method = laplace\n#   laplace\n# y: 41, 63, 17, 28\n"
    path.write_text(table(rows, "log_p__,log_q__,beta.1,beta.2,sigma", head=head))
    found = audit(str(path), "kidscore_momiq", remedies=False)
    assert any("comments" in finding.where for finding in found.findings)
    assert not any(missed.where == ("draws",) for missed in found.not_run)
    assert found.files[0]["size"] == path.stat().st_size
