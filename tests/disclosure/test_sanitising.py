"""Sanitised draws: the distribution of the tilts, the secret and its ledger, and what is never told."""

import dataclasses
import inspect
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from command import SIZE, X, Y, exact_draws

import bayesrecon
from bayesrecon.disclosure.sanitising import sanitise
from bayesrecon.disclosure.sanitising.sanitise import tilted_mode
from bayesrecon.disclosure.sanitising.secret import hash_of_data, hash_of_model, keyed
from bayesrecon.disclosure.sanitising.supported import check_worth, is_supported, with_widest_cap, worth_for
from bayesrecon.disclosure.sanitising.tilted_draws import chosen, distinct, redrawn
from bayesrecon.disclosure.sanitising.tilts import divergences, tilt_at, tilt_distribution, unit_blocks
from bayesrecon.divergence.score import log_liks
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.results.sanitised import Sanitised

DATA = {"mom_iq": X, "kid_score": Y}
K = 0.1


@pytest.fixture(scope="module")
def model():
    return bayesrecon.models.load("kidscore_momiq")


@pytest.fixture(scope="module")
def release(model):
    return from_draws(exact_draws(2, 2000), model, name="exact")


@pytest.fixture(scope="module")
def tilts(release):
    with x64():
        return tilt_distribution(solve_release(release), K, np.random.default_rng(0), SIZE)


@pytest.fixture(scope="module")
def safe(release):
    return bayesrecon.sanitise(release, unsafe_seed=0)


@pytest.mark.slow
def test_the_distribution_is_the_one_that_is_stated(tilts):
    """In whitened directions, normal with variances `1 / (1 / k^2 + 1 / s_i^2)`."""
    alive = tilts.scatters > 1e-9 * tilts.scatters[-1]
    assert alive.sum() == 6
    variances = 1 / (1 / K**2 + 1 / tilts.scatters[alive])
    weights = tilts.weights(np.random.default_rng(1).normal(size=(len(tilts.scatters), 4000)))
    # Delta_i = <f_i, g>, with f_i the unit directions of the posterior.
    directions = tilts.multiple * (tilts.values @ tilts.vectors[:, alive]) / np.sqrt(tilts.scatters[alive])
    delta = directions.T @ (tilts.values @ weights) / len(tilts.values)
    covariance = delta @ delta.T / 4000
    np.testing.assert_allclose(np.diag(covariance), variances, rtol=0.12)  # five standard errors of a variance
    correlation = covariance / np.sqrt(np.outer(variances, variances))
    assert np.abs(correlation - np.diag(np.diag(correlation))).max() < 5 / np.sqrt(4000)
    np.testing.assert_allclose(tilts.cost, variances.sum() / 2, rtol=1e-6)
    np.testing.assert_allclose(tilts.effective_rank, (tilts.scatters / (tilts.scatters + K**2)).sum(), rtol=1e-9)


@pytest.mark.slow
def test_a_wider_cap_is_more_records(tilts):
    wider = tilts.with_cap(16)
    np.testing.assert_allclose(wider.scatters, 16 * tilts.scatters)
    assert tilts.cost < wider.cost < 6 * K**2 / 2
    assert (tilts.variances <= tilts.scatters).all()
    assert (tilts.variances <= K**2 * (1 + 1e-12)).all()


def test_a_record_moves_by_its_own_likelihood(tilts):
    """With many draws by at least `sd(l) / k`, and by no more than so many draws tell."""
    records = {"mom_iq": X[:20], "kid_score": Y[:20]}
    with x64():
        own = np.asarray(log_liks(tilts.model, tilts.theta, records)).std(axis=0)
        far, near = tilts.with_cap(64).shift(records, 1e9), tilts.shift(records, 1e-6)
    assert (far >= own / K * (1 - 1e-6)).all()
    np.testing.assert_allclose(far, own / K, rtol=0.1)
    np.testing.assert_allclose(near, 1e-3 * own, rtol=1e-3)


@pytest.mark.slow
def test_tilted_draws_are_those_of_the_altered_data(tilts, release, model):
    """What is recovered of them is that of the data with the tilt beside them."""
    tilts, _ = with_widest_cap(tilts, "exact")
    before = bayesrecon.recover(release)
    gap = []
    for seed in range(8):
        secret = keyed(b"test", str(seed))
        tilt = tilts.drawn(secret.generator("tilt"))
        with x64():
            g = tilt_at(model, release.theta, tilt)
        kept = release.take(np.sort(chosen(g, 1000, secret.generator("draws"))))
        found = bayesrecon.recover(kept)
        error = np.hypot(found["n"].se, before["n"].se)
        gap.append((found["n"].estimate - before["n"].estimate - tilt.weights.sum()) / error)
    gap = np.array(gap)
    assert np.sqrt((gap**2).mean()) < 2.2  # chi-square with eight degrees of freedom, false alarm 1e-6
    assert tilts.scatter(np.ones((len(tilts.scatters), 1)))[0] > 3 * before["n"].se


def test_draws_are_chosen_once_each_and_by_the_tilt():
    rng = np.random.default_rng(0)
    g = 0.3 * rng.normal(size=20_000)
    kept = chosen(g, 5000, np.random.default_rng(1))
    assert len(set(kept.tolist())) == 5000
    assert np.any(np.diff(kept) < 0)
    # E[g] of the tilted distribution is Var(g) for a normal g.
    assert abs(g[kept].mean() - 0.09) < 5 * 0.3 / np.sqrt(5000)
    fewer = chosen(g, 1000, np.random.default_rng(1))
    assert set(fewer.tolist()) <= set(kept.tolist())  # two publications of the same draws tell no more than the larger


def test_costs_are_those_of_normal_laws():
    """KL(exp(a x) phi || phi) is a^2 / 2."""
    x = np.random.default_rng(0).normal(size=(200_000, 1))
    np.testing.assert_allclose(divergences(0.3 * x), 0.045, rtol=0.03)


@pytest.mark.slow
def test_new_draws_of_nuts_are_of_the_tilted_posterior(tilts, release, model):
    tilt = tilts.with_cap(16).drawn(np.random.default_rng(5))
    with x64():
        g = tilt_at(model, release.theta, tilt)
        drawn = redrawn(model, DATA, tilt, np.asarray(release.theta), 2000, 3)
    weights = np.exp(g - g.max())
    mean = weights @ release.theta / weights.sum()
    sd = release.theta.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - mean) / sd < 0.15).all()
    assert len(np.unique(drawn, axis=0)) == 2000


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_mode_of_a_tilted_posterior_is_that_of_the_altered_data(tilts, release, model, seed):
    """Its equations are exact: what they tell of n is that of the data with the tilt beside them, and nothing else."""
    tilt = tilts.drawn(np.random.default_rng([seed, 7]))
    with x64():
        mode = tilted_mode(model, DATA, tilt, np.asarray(release.theta), "mode")
    found = bayesrecon.recover(mode)
    count = SIZE + tilt.weights.sum()
    assert abs(tilt.weights.sum()) > 1
    np.testing.assert_allclose(found["n"].estimate, count, rtol=1e-6)
    total = X.sum() + tilt.weights @ tilt.records["mom_iq"]
    np.testing.assert_allclose(found["mean(mom_iq)"].estimate * count, total, rtol=1e-5)


def test_a_mode_without_its_data_is_refused(release, model):
    theta = np.asarray(release.theta)
    mode = bayesrecon.posteriors.gaussian(model, theta.mean(axis=0), np.cov(theta.T), jacobian=True)
    with pytest.raises(BayesreconError, match=r"supply the private records \(data=\)"):
        bayesrecon.sanitise(mode, unsafe_seed=0)


@pytest.mark.slow
def test_a_mode_is_sanitised_with_its_data(release, model):
    theta = np.asarray(release.theta)
    mode = bayesrecon.posteriors.gaussian(model, theta.mean(axis=0), np.cov(theta.T), jacobian=True)
    safe = bayesrecon.sanitise(mode, data=DATA, unsafe_seed=0)
    assert safe.draws == 0
    assert safe["n"].se == safe["n"].scatter > 5
    assert 0 < abs(bayesrecon.recover(safe.release)["n"].estimate - SIZE) < 6 * safe["n"].scatter
    table = safe.table()
    np.testing.assert_allclose(np.diag(table.iloc[:, 2:]), table["sd"] ** 2)
    assert "published mode with its covariance is" in safe.sentence
    with pytest.raises(BayesreconError, match="a mode has no draws"):
        bayesrecon.sanitise(mode, data=DATA, draws=100, unsafe_seed=0)


@pytest.mark.slow
def test_bits_of_a_response_are_those_of_a_normal_channel(tilts, release):
    """Of a regression whose noise scale is known, a response is a signal along the gradient; draws alone give more."""
    with x64():
        records = {k: v[:6] for k, v in DATA.items()}
        predict = responses(release, ())
        hidden, plain = tilts.with_cap(64).bits(records, predict, 1000, 4000)
        more, same = tilts.with_cap(64).bits(records, predict, 100, 4000)
    assert (hidden < plain).all()
    assert (more < hidden).all()
    np.testing.assert_array_equal(same, plain)
    # One direction of signal-to-noise ratio r carries log2(1 + r) / 2; shifts are root mean squares over responses.
    one = tilts.with_cap(64).shift(records, 1000)
    assert (hidden < 4 * np.log2(1 + np.square(one).max())).all()


@pytest.mark.slow
def test_private_records_have_an_upper_limit_of_bits(release):
    safe = bayesrecon.sanitise(release, data=DATA, unsafe_seed=0)
    assert len(safe.bits) == len(safe.bits_of_draws) == 128
    assert (safe.bits < safe.bits_of_draws).all()
    assert safe.to_dict()["bits"] == pytest.approx(list(safe.bits))
    assert bayesrecon.sanitise(release, unsafe_seed=0).bits is None


@pytest.mark.slow
def test_what_is_made(safe, release):
    assert isinstance(safe, Sanitised)
    assert safe.release.size == safe.draws == 1000
    assert safe.worth == 100
    rows = {row.tobytes() for row in np.asarray(release.theta)}
    assert all(row.tobytes() in rows for row in np.asarray(safe.release.theta))
    assert safe.release.log_density is None
    assert np.ptp(safe.release.weights) == 0
    assert (
        90 < safe["n"].equivalent_draws < 100 + 400 / safe.cap
    )  # one draw's error of n is that of 355 times as many records
    assert safe["n"].se > safe["n"].scatter > 0
    assert safe.cost <= 0.05
    assert abs(safe.measured_cost / safe.cost - 1) < 0.2
    assert "worth 100" in safe.sentence
    assert safe.attributes == {"bayesrecon_sanitised": f"worth 100 draws, cap {safe.cap}"}
    again = bayesrecon.recover(safe)  # it is taken for its draws
    assert again.consistent
    assert again["n"].verdict == "determined"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws(safe, release):
    again = bayesrecon.sanitise(release, unsafe_seed=0)
    np.testing.assert_array_equal(again.release.theta, safe.release.theta)
    other = bayesrecon.sanitise(release, unsafe_seed=1)
    assert set(map(bytes, np.asarray(other.release.theta))) != set(map(bytes, np.asarray(safe.release.theta)))


@pytest.mark.slow
def test_the_page_is_made_of_what_is_published(safe, release):
    """The same page from the sanitised draws alone: it tells no more than they do."""
    with x64():
        page = sanitise.public_numbers(safe.release, K, safe.cap)
    for one, other in zip(page.statistics, safe.statistics, strict=True):
        assert (one.name, one.verdict) == (other.name, other.verdict)
        assert [one.scatter, one.se, one.equivalent_draws] == pytest.approx(
            [other.scatter, other.se, other.equivalent_draws], rel=1e-9
        )
    for one, other in zip(page.changes, safe.changes, strict=True):
        assert one.name == other.name
        assert dataclasses.astuple(one)[1:] == pytest.approx(dataclasses.astuple(other)[1:], rel=1e-9)
    source = inspect.getsource(sanitise._result)
    assert "public_numbers(safe," in source


def test_it_comes_back_from_a_file(safe, tmp_path):
    back = bayesrecon.load_result(safe.save(tmp_path / "page.npz"))
    assert back.to_dict() == safe.to_dict()
    assert back.release is None
    assert len(safe.to_dataframe()) == len(safe.statistics)
    assert json.loads(json.dumps(safe.to_dict())) == safe.to_dict()


@pytest.mark.slow
def test_the_secret_is_a_function_of_what_is_sanitised(model):
    key = b"0" * 32
    first = keyed(key, "data", "model", "100.0")
    assert first == keyed(key, "data", "model", "100.0")
    others = [keyed(key, "data", "model", "101.0"), keyed(key, "other", "model", "100.0"), keyed(b"1" * 32, "data")]
    assert len({one.seed for one in [first, *others]}) == 4
    draws = [one.generator(what).normal() for one in (first, *others) for what in ("tilt", "draws")]
    assert len(set(draws)) == len(draws)
    assert hash_of_data(DATA) == hash_of_data({k: v[::-1] for k, v in DATA.items()})
    assert hash_of_data(DATA) != hash_of_data({**DATA, "kid_score": np.where(np.arange(SIZE) == 7, Y + 1e-9, Y)})
    assert hash_of_data({"a": [0.0, -0.0], "t": ["x", "y"]}) == hash_of_data({"t": ["y", "x"], "a": [0, 0]})
    assert hash_of_data({"a": [0.0], "b": [1.0]}) != hash_of_data({"a": [1.0], "b": [0.0]})
    other = replace(model, log_prior_at=lambda params: 1.01 * model.log_prior_at(params))
    assert hash_of_model(model) == hash_of_model(replace(model)) != hash_of_model(other)


@pytest.mark.slow
def test_the_budget_binds_whatever_the_table_looks_like(model, tmp_path):
    """Another run of the sampler takes the stored tilt: one that is nearly the same would reveal both."""
    ledger = tmp_path / "ledger.json"
    runs = [exact_draws(2, 1200), {k: v[:, ::-1] * (1 + 1e-6) for k, v in exact_draws(2, 1200).items()}]
    options = {"model": model, "ledger": ledger}
    first, again = (bayesrecon.sanitise(one, data=DATA, **options) for one in runs)
    assert [(one.account, one.spent, one.budget, one.left) for one in (first, again)] == [("default", 100, 100, 0)] * 2
    assert any("sanitised under this model before" in w for w in again.warnings)
    assert len(first.shifts) == SIZE
    dummy = {**DATA, "dummy": np.ones(SIZE)}
    for data in (dummy, {k: v * (1 + 1e-12) for k, v in DATA.items()}, None):
        with pytest.raises(BayesreconError, match="nothing is left of the budget of 100 draws'"):
            bayesrecon.sanitise(runs[0], data=data, **options)
    other = bayesrecon.sanitise(runs[0], data=dummy, account="others", **options)
    assert (other.account, other.spent) == ("others", 100)
    assert any("its people must be in no other account" in w for w in other.warnings)
    assert any("the same records were also released in account default: are these" in w for w in other.warnings)


@pytest.mark.slow
def test_trials_and_failures_spend_nothing(release, tmp_path):
    ledger = tmp_path / "ledger.json"
    options = {"data": DATA, "ledger": ledger, "budget": 250}
    trial = bayesrecon.sanitise(release, dry_run=True, **options)
    assert trial.release is None
    assert (trial.spent, trial.left) == (100, 150)
    with pytest.raises(BayesreconError, match="has no draws"):
        trial.table()

    def disk_full(result):
        assert result.release.size == 1000
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        bayesrecon.sanitise(release, accept=disk_full, **options)
    assert not ledger.exists()
    bayesrecon.sanitise(release, **options)
    kept = ledger.read_bytes()
    bayesrecon.sanitise(release, worth=150, dry_run=True, **options)
    assert ledger.read_bytes() == kept


def named(error, option):
    """The number that a message names for an option."""
    found = re.search(rf"{option}=([0-9.e+]+)", str(error))
    return None if found is None else float(found[1])


@pytest.mark.slow
def test_what_a_refusal_names_works(release, tmp_path):
    options = {"ledger": tmp_path / "ledger.json"}
    bayesrecon.sanitise(release, data=DATA, budget=250.5, **options)
    data = {**DATA, "dummy": np.ones(SIZE)}
    for worth in (40, 170):
        with pytest.raises(BayesreconError) as caught:
            bayesrecon.sanitise(release, data=data, worth=worth, **options)
        cure = re.search(r"use (worth=\S+( with budget=\d+)?)", str(caught.value))[1]
        typed = {k: float(v) for k, v in (word.strip(",").split("=") for word in cure.split(" with "))}
        bayesrecon.sanitise(release, data=data, dry_run=True, **typed, **options)
    with pytest.raises(BayesreconError, match=r"150 is left.*; use worth=150, or state budget=270 or more"):
        bayesrecon.sanitise(release, data=data, worth=170, **options)
    trial = bayesrecon.sanitise(release, data=data, worth=170, budget=270, dry_run=True, **options)
    assert (trial.spent, trial.left) == (270, 0)


REFUSED = {
    "a worth below 100": ({"worth": 50}, "worth=50 is not supported.*use worth=100"),
    "no number": ({"worth": "much"}, "expected a number of draws"),
    "an endless budget": ({"budget": np.inf}, "budget=inf: expected a number of draws"),
    "no name": ({"account": " "}, "account=' ': expected a name"),
    "both": ({"worth": 100, "records": 1.0}, "give one of"),
    "a record that cannot be hidden": ({"records": 0.1}, "a record moves the release by"),
    "too many draws": ({"draws": 3000}, "would reveal the tilt"),
    "too few draws": ({"draws": 50}, "at least 100 are needed"),
    "data of another model": ({"data": {"y": Y}}, "the data lack field"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, release):
    options, told = REFUSED[name]
    with pytest.raises(BayesreconError, match=told) as caught:
        bayesrecon.sanitise(release, unsafe_seed=0, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_repeated_rows_and_other_models_are_refused(release, model):
    often = release.take(np.repeat(np.arange(500), 8))
    with pytest.raises(BayesreconError, match="3500 of 4000 draws repeat another one"):
        bayesrecon.sanitise(often, unsafe_seed=0)
    cut = exact_draws(2, 1000)
    cut["beta"] = np.round(cut["beta"], 2)
    with pytest.raises(BayesreconError):
        bayesrecon.sanitise(cut, model=model, unsafe_seed=0)


@pytest.fixture(scope="module")
def short(tilts):
    """The same distribution, with fewer draws to try it on."""
    return replace(tilts, theta=tilts.theta[::8], values=tilts.values[::8])


REFUSED_TILTS = {
    "too large": lambda short: short.with_size(0.2),
    "too many directions": lambda short: replace(short, scatters=np.full_like(short.scatters, 1.0)),
    "both": lambda short: replace(short, k=0.3, scatters=np.full_like(short.scatters, 1.0)),
    "other costs than in theory": lambda short: replace(short, values=12 * short.values),
}


@pytest.mark.parametrize(
    "reason", ["too large", *(pytest.param(r, marks=pytest.mark.slow) for r in [*REFUSED_TILTS][1:])]
)
def test_a_worth_that_is_named_was_tried(short, reason):
    """By the distribution alone: no secret has a say in it."""
    refused = REFUSED_TILTS[reason](short)
    with pytest.raises(BayesreconError) as caught:
        with_widest_cap(refused, "release")
    worth = named(caught.value, "use worth")
    with_widest_cap(refused.with_size(worth**-0.5), "release")
    assert 100 <= worth < 1e6
    assert worth == 100 or not is_supported(refused.with_size((0.99 * worth) ** -0.5))


@pytest.mark.slow
def test_where_no_worth_is_supported_none_is_named(short):
    with pytest.raises(BayesreconError, match=r"tilts do not cost what the theory says.*no worth up to a million is"):
        with_widest_cap(replace(short, values=1e3 * short.values**3), "release")


def test_the_worth_that_hides_records():
    assert worth_for(1.0, lambda k: 0.02 / k) in (2400, 2500)  # two digits, and no more than hides the record
    assert worth_for(1.0, lambda k: 0.0199 / k) == 2500
    with pytest.raises(BayesreconError, match="a record moves the release by 2 "):
        worth_for(1.0, lambda k: 0.2 / k)
    with pytest.raises(BayesreconError, match="positive number"):
        worth_for(-1.0, lambda k: k)
    for wrong in (np.nan, np.inf, 0, -100, None):
        with pytest.raises(BayesreconError, match="expected a number of draws"):
            check_worth(wrong)


@pytest.mark.slow
def test_a_sampler_that_stays_now_and_then(release):
    """Every second draw where some repeat others, and none twice."""
    at = np.arange(4000)
    at[1::10] = at[::10]
    stays, said = distinct(release.take(at))
    assert stays.size == 2000
    assert "400 of 4000 draws repeat another one: the 2000 distinct draws left are used" in said[0]
    at[1::100] = at[::100]
    few, _ = distinct(release.take(np.sort(np.r_[np.arange(3990), np.arange(10)])))
    assert few.size == 3990
    assert distinct(release) == (release, ())


def test_records_of_one_unit_move_it_together(tilts):
    """By the sum of their log likelihoods: against all of them as one block, in whatever order they are."""
    rng = np.random.default_rng(3)
    units = rng.integers(0, 7, SIZE)
    with x64():
        found = tilts.shift(DATA, 1e4, units)
        single = tilts.shift(DATA, 1e4, np.arange(SIZE))
        np.testing.assert_allclose(single, tilts.shift(DATA, 1e4), rtol=1e-9)
        l = np.asarray(log_liks(tilts.model, tilts.theta, DATA))
        sums = np.stack([(l - l.mean(axis=0))[:, units == u].sum(axis=1) for u in range(7)], axis=1)
    alive = tilts.scatters > 1e-12 * tilts.scatters[-1]
    features = tilts.multiple * (tilts.values @ tilts.vectors[:, alive]) / np.sqrt(tilts.scatters[alive])
    along = features.T @ sums / len(sums)
    rest = np.maximum((sums**2).mean(axis=0) - (along**2).sum(axis=0), 0)
    np.testing.assert_allclose(
        found, np.sqrt((along**2 / (tilts.variances[alive] + 1e-4)[:, None]).sum(axis=0) + 1e4 * rest), rtol=1e-6
    )


def test_blocks_keep_units_whole(monkeypatch):
    monkeypatch.setattr("bayesrecon.disclosure.sanitising.tilts._AT_ONCE", 50)
    units = np.random.default_rng(0).integers(0, 9, 60)
    blocks = list(unit_blocks({"y": np.arange(60.0)}, 10, units))
    assert len(blocks) > 3
    sums = np.concatenate([np.add.reduceat(block["y"], starts) for block, starts in blocks])
    np.testing.assert_array_equal(sums, np.bincount(units, np.arange(60.0)))


@pytest.mark.slow
def test_units_and_the_table(release, tmp_path):
    data = {**DATA, "ward": np.arange(SIZE) % 40}
    safe = bayesrecon.sanitise(release, data=data, records={"ward": 12.0}, unsafe_seed=0)
    assert safe.worth >= 100
    assert max(safe.units["ward"].values()) <= 12.6  # of the draws that are published, some fewer
    assert len(safe.units["ward"]) == 40
    again = bayesrecon.load_result(safe.save(tmp_path / "page.npz"))
    assert again.to_dict()["units"]["ward"]["3"] == safe.units["ward"][3]
    table = safe.table()
    np.testing.assert_allclose(table["sd"] ** 2, np.diag(table[[c for c in table if c.startswith("cov(")]]), rtol=1e-9)
    with pytest.raises(BayesreconError, match="has no draws"):
        again.table()
    with pytest.raises(BayesreconError, match="all records of one ward together move the release by"):
        bayesrecon.sanitise(release, data=data, records={"ward": 0.1}, unsafe_seed=0)
    with pytest.raises(BayesreconError, match="there is no column 'school'"):
        bayesrecon.sanitise(release, data=data, records={"school": 1.0}, unsafe_seed=0)


@pytest.mark.slow
def test_results_do_not_reveal_the_secret(release, tmp_path):
    book = tmp_path / "ledger.json"
    found = bayesrecon.sanitise(release, ledger=book)
    content = json.loads(book.with_name("ledger.json.key").read_text())
    told = json.dumps(found.to_dict()) + found.sentence + repr(found)
    assert content["key"] not in told
    assert content["key"][:16] not in told
