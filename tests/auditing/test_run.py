"""`audit`: findings, remedies, scores, the report, the cleaned copy, and the command."""

import json
from html.parser import HTMLParser

import fits
import numpy as np
import pytest
import xarray as xr
from command import Outcome

import bayesrecon
from bayesrecon.attacks.sidechannels.resolution import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.plots.report import audit_page
from bayesrecon.results.audit import Audit, Finding, Item, Remedy, Thresholds

MODEL = load("kidscore_momiq")
DATA = fits.records()
DRAWS = fits.draws(DATA)
HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def everything():
    """A dictionary of draws with every side channel, at the digits that samplers print."""
    return {
        **DRAWS,
        "__log_density__": round_to(fits.lp(DATA, DRAWS), 8),
        "log_lik": round_to(fits.log_lik(DATA, DRAWS), 6),
        "kid_score_rep": round_to(fits.replicated(DATA, DRAWS), 6),
    }


@pytest.fixture(scope="module")
def full(everything):
    return bayesrecon.audit(everything, MODEL, data=DATA, remedies=False)


def by_kind(found):
    return {f.kind: f for f in found}


def test_every_channel_is_found(full):
    kinds = by_kind(full)
    assert set(kinds) == {"log-likelihood", "predictive", "log-density", "draws"}
    assert kinds["log-likelihood"].severity == "high"
    assert kinds["log-density"].severity == "medium"
    assert [f.severity for f in full] == sorted((f.severity for f in full), key=["high", "medium", "low"].index)
    assert full.severity == "high"
    assert full.fails("high")
    assert full.fails("low")
    assert full.warnings == ()


def test_findings_are_scored(full):
    kinds = by_kind(full)
    score = kinds["log-likelihood"].score
    assert (score.matched, score.total) == (fits.SIZE, fits.SIZE)
    assert score.null < 0.5 < score.lower
    assert set(score.median_error) == set(DATA)
    for item in kinds["log-density"].evidence:
        assert abs(item.estimate - item.truth) < 4.5 * item.se
    for item in kinds["draws"].evidence:
        assert abs(item.estimate - item.truth) < 6 * item.se


def test_without_data_nothing_is_scored(everything):
    found = bayesrecon.audit({k: v for k, v in everything.items() if k != "kid_score_rep"}, MODEL, remedies=False)
    assert all(f.score is None for f in found)
    assert all(item.truth is None for f in found for item in f.evidence)


def test_the_data_do_not_change_the_attack(everything, full):
    """Wrong private data score differently; what was recovered is the same to the last bit."""
    wrong = {k: v + 100 for k, v in DATA.items()}
    other = by_kind(bayesrecon.audit(everything, MODEL, data=wrong, remedies=False))
    for kind, finding in by_kind(full).items():
        assert [(i.name, i.estimate, i.se) for i in finding.evidence] == [
            (i.name, i.estimate, i.se) for i in other[kind].evidence
        ]
    assert other["log-likelihood"].score.matched == 0


def test_results_are_plain(full):
    document = json.loads(json.dumps(full.to_dict(), allow_nan=False))
    assert document["version"] == bayesrecon.__version__
    assert document["thresholds"]["exact_count"] == 0.5
    assert document["settings"]["model"] == "kidscore_momiq"
    assert len(document["findings"]) == len(full)
    # The document is no second copy of the data.
    assert all(len(v) <= 10 for f in document["findings"] for v in f["records"].values())
    frame = full.to_dataframe()
    assert list(frame["severity"]) == [f.severity for f in full]
    assert "log densities" in full._repr_html_()
    assert full.plot() is not None


def tried(finding):
    return [r for r in finding.remedies if r.measured is not None]


@pytest.mark.slow
def test_remedies_are_tried(everything):
    found = by_kind(bayesrecon.audit(everything, MODEL))
    for kind in ("log-likelihood", "log-density"):
        assert len(tried(found[kind])) >= 4
        for r in tried(found[kind]):
            assert r.measured > r.before * 0.9
            assert 0.75 < r.predicted / r.measured < 1.25
    assert any(r.action == "publish summaries (means, intervals) instead of draws" for r in found["draws"].remedies)


@pytest.mark.slow
def test_remedies_of_an_ordinary_file(tmp_path):
    """A NumPyro fit in single precision, saved by ArviZ: predictions hold against the private data."""
    import arviz
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    from bayesrecon.models import from_numpyro

    def program(x, y=None):
        intercept = numpyro.sample("intercept", dist.Normal(0, 100))
        slope, sigma = numpyro.sample("slope", dist.Normal(0, 10)), numpyro.sample("sigma", dist.HalfNormal(20))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(intercept + slope * x, sigma), obs=y)

    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, 60).round(1)
    data = {"x": x, "y": (3 + 0.5 * x + rng.normal(0, 4, 60)).round(1)}
    mcmc = MCMC(
        NUTS(program), num_warmup=500, num_samples=500, num_chains=2, chain_method="sequential", progress_bar=False
    )
    mcmc.run(jax.random.key(0), **data, extra_fields=("potential_energy",))
    arviz.from_numpyro(mcmc, log_likelihood=True).to_netcdf(str(tmp_path / "fit.nc"))
    found = by_kind(bayesrecon.audit(tmp_path / "fit.nc", from_numpyro(program, {"x": (), "y": ()}), data=data))
    remedies = [r for kind in ("log-likelihood", "log-density", "draws") for r in tried(found[kind])]
    assert len(remedies) >= 20
    # Errors that fewer draws leave share the file's own, which is one draw of a random number.
    ratios = {(r.action, r.statistic): r.predicted / r.measured for r in remedies}
    assert all(0.75 < q < 1.25 for (action, _), q in ratios.items() if "digits" in action), ratios
    assert np.mean([0.75 < q < 1.25 for q in ratios.values()]) > 0.9, ratios


def test_thresholds_decide(everything):
    plain = {k: v for k, v in everything.items() if k in ("beta", "sigma", "__log_density__")}
    strict = Thresholds(exact_count=1e-9)
    found = by_kind(bayesrecon.audit(plain, MODEL, remedies=False, thresholds=strict))
    assert found["log-density"].title == "log densities give statistics of the data"


def test_log_densities_of_another_model_are_a_warning(everything):
    rng = np.random.default_rng(0)
    wrong = {**DRAWS, "__log_density__": everything["__log_density__"] + np.round(rng.normal(size=(2, 300)), 3)}
    found = bayesrecon.audit(wrong, MODEL, remedies=False)
    assert "log-density" not in by_kind(found)
    assert any("not the log density of kidscore_momiq" in w for w in found.warnings)


def test_a_model_that_does_not_match_is_told(everything):
    """The score identity fails: which parameters, and by how much."""
    skewed = np.random.default_rng(0).exponential(0.1, DRAWS["beta"].shape)
    found = bayesrecon.audit({"beta": skewed, "sigma": DRAWS["sigma"]}, MODEL, remedies=False)
    told = " ".join(found.warnings)
    assert "draws and model disagree" in told
    assert "beta[1]" in told
    with pytest.raises(BayesreconError, match="lack parameter"):
        bayesrecon.audit({"alpha": DRAWS["sigma"]}, MODEL)


def test_without_a_model_columns_are_looked_at(everything):
    found = bayesrecon.audit({k: everything[k] for k in ("beta", "sigma", "log_lik")})
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("log-likelihood", "medium")
    assert finding.evidence[0] == Item("n", float(fits.SIZE), 0.0)
    assert "without a model" in found.warnings[0]


# Plain copies


def arviz_tree(**posterior_attributes):
    names = [f"{HOSTILE} Ölaf {i}" for i in range(fits.SIZE)]
    posterior = {
        "sigma": (("chain", "draw"), DRAWS["sigma"]),
        "beta": (("chain", "draw", "beta_dim_0"), DRAWS["beta"]),
        "x_used": (("chain", "draw", "child"), np.broadcast_to(DATA["mom_iq"], (2, 300, fits.SIZE)).copy()),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, {"child": names}, posterior_attributes),
            "observed_data": xr.Dataset({"kid_score": ("child", DATA["kid_score"])}, {"child": names}),
            "warmup_posterior": xr.Dataset({"sigma": (("chain", "draw"), DRAWS["sigma"][:, :10])}),
        }
    )


def test_copies_are_found():
    tree = arviz_tree(
        source="/home/alice/study/kids.csv",
        contact="alice@example.org",
        rows=json.dumps(DATA["mom_iq"].tolist()),
        author="Alice",
        seed=7,
        created_at="2024-01-01",
    )
    private = {**DATA, "name": np.array([f"{HOSTILE} Ölaf {i}" for i in range(fits.SIZE)])}
    found = bayesrecon.audit(tree, data=private)
    told = {f.title: f for f in found}
    assert told["observed_data/kid_score holds data as they are"].severity == "high"
    assert "private column 'kid_score'" in told["observed_data/kid_score holds data as they are"].summary
    assert told["posterior/x_used is the same in every draw"].severity == "high"
    assert told["the coordinate 'child' holds the private column 'name'"].severity == "high"
    assert told["the attribute 'rows' holds the private column 'mom_iq'"].severity == "high"
    assert told["the attribute 'contact' holds an e-mail address"].severity == "high"
    assert told["the attribute 'author' holds a name"].severity == "medium"
    assert told["the attribute 'source' holds a path of the machine it was made on"].severity == "low"
    assert any("random seed" in title for title in told)
    assert "warm-up draws are in the file" in told
    assert not any("created_at" in title for title in told)


def test_a_file_without_copies_is_clean():
    assert bayesrecon.audit(DRAWS).severity == "info"
    assert bayesrecon.audit(DRAWS).findings == ()


def test_comments_of_cmdstan(tmp_path):
    comments = ["model = kids", "data", "  file = /home/alice/kids.json", "  seed = 4711"]
    paths = fits.write_cmdstan(tmp_path, fits.scalar_columns(**DRAWS), comments)
    told = {f.title: f.summary for f in bayesrecon.audit(paths)}
    assert "/home/alice/kids.json" in told["the comment header holds file names of the machine it was made on"]
    assert "4711" in told["the comment header holds the random seed"]
    assert "30.1" in told["the comments hold step size and mass matrix of the warm-up"]


def test_only_data_groups():
    tree = xr.DataTree.from_dict({"observed_data": xr.Dataset({"y": ("i", np.arange(4.0))})})
    found = bayesrecon.audit(tree, MODEL)
    assert found.severity == "high"
    assert any("no draws" in w for w in found.warnings)


def test_a_file_without_anything_is_no_clean_file():
    tree = xr.DataTree.from_dict({"prior": xr.Dataset({"y": (("chain", "draw"), np.zeros((1, 4)))})})
    with pytest.raises(BayesreconError, match="no group 'posterior'"):
        bayesrecon.audit(tree)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"mom_iq": [1.0]}, "no column 'kid_score'"),
        ({"mom_iq": [1.0, np.nan], "kid_score": [1.0, 2.0]}, "missing values"),
        ({"mom_iq": [1.0, 3.0], "kid_score": [1.0]}, "different lengths"),
        (5, "expected columns or the path"),
    ],
)
def test_private_data_that_do_not_fit(data, words):
    with pytest.raises(BayesreconError, match=words):
        bayesrecon.audit(DRAWS, MODEL, data=data)


# The report


class Page(HTMLParser):
    """What a browser would see: tags, their attributes, and the text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


def test_hostile_text_stays_text():
    finding = Finding(
        HOSTILE,
        "high",
        HOSTILE,
        (HOSTILE,),
        HOSTILE,
        HOSTILE,
        (Item(HOSTILE, 1.0),),
        (Remedy(HOSTILE, HOSTILE, 1.0, 2.0, 3.0),),
        {HOSTILE: np.arange(3.0), "two": np.arange(3.0)},
        {HOSTILE: np.ones(3), "two": np.ones(3)},
    )
    settings = {HOSTILE: HOSTILE}
    files = ({"path": HOSTILE, "size": 1, "sha256": HOSTILE},)
    page = Page(audit_page(Audit((finding,), HOSTILE, HOSTILE, HOSTILE, 5, files, settings, warnings=(HOSTILE,))))
    assert not {"script", "img", "iframe", "object", "embed", "link", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "".join(page.words).count(HOSTILE) > 10


def test_the_report_stands_alone(full, tmp_path):
    path = full.save_report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("svg") >= 2
    assert page.tags.count("article") == len(full)
    links = [v for k, v in page.attributes if k in ("src", "href", "xlink:href", "action", "data") and v]
    assert all(v.startswith(("#", "data:")) for v in links)
    assert "@import" not in text
    assert "url(http" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


# The command


def audit_file(tmp_path, everything):
    tree = arviz_tree(source="/home/alice/kids.csv")
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"lp": (("chain", "draw"), everything["__log_density__"])}))
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    return path


def test_command_with_report_and_cleaned_copy(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    options = ("--model", "kidscore_momiq", "--no-remedies", "--fix", "safe.nc", "--keep-draws", 200, "--digits", 4)
    outcome = run("audit", path, *options, "--html", "report.html", "--out", "audit.json", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["severity"] == "high"
    assert found["fixed"]["severity"] == "low"
    assert [f["kind"] for f in found["fixed"]["findings"]] == ["draws"]
    assert found["files"][0]["path"] == str(path)
    assert json.loads((tmp_path / "audit.json").read_text()) == found
    assert (tmp_path / "report.html").stat().st_size > 5_000
    with xr.open_datatree(tmp_path / "safe.nc", engine="h5netcdf") as safe:
        assert list(safe.children) == ["posterior"]
        assert set(safe["posterior"].data_vars) == {"beta", "sigma"}
        assert safe["posterior"].sizes["chain"] * safe["posterior"].sizes["draw"] == 200
        assert not safe["posterior"].attrs
        sigma = safe["posterior"]["sigma"].values
        np.testing.assert_array_equal(sigma, round_to(sigma, 4))


def test_exit_codes(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    table = run("audit", path)
    assert table.code == 0
    assert "high" in table.out
    assert run("audit", path, "--fail-on", "high").code == 1
    np.savez(tmp_path / "clean.npz", **DRAWS)
    clean = run("audit", "clean.npz", "--fail-on", "low")
    assert clean.code == 0
    assert "nothing found" in clean.out
    both = run("audit", "clean.npz", path, "--json")
    assert json.loads(both.out)["name"] == "clean, posterior"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.nc",), "missing.nc"),
        (("clean.npz", "--fail-on", "awful"), "low, medium or high"),
        (("clean.npz", "--html", "a.pdf"), ".html"),
        (("clean.npz", "--fix", "clean.npz"), "name another"),
        (("clean.npz", "--keep-draws", "5"), "belong to --fix"),
        (("clean.npz", "--settings", "{}", "--known", "x.csv"), "name it with --model"),
        (("clean.npz", "clean.npz"), "given twice"),
        (("clean.npz", "--model", "eight_schools_noncentered"), "eight_schools_noncentered"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, arguments, words):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    code, out, err = run("audit", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert err.count("\n") == 1
    assert words in err


def test_nothing_half_written(run, tmp_path):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    outcome: Outcome = run("audit", "clean.npz", "--fix", "safe.nc", "--keep-draws", "100000")
    assert outcome.code == 2
    assert not (tmp_path / "safe.nc").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["clean.npz"]
