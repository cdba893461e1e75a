"""A guarantee of differential privacy: noise, sensitivity, budgets, and the posterior that knows the noise."""

import json
import math
import random
from fractions import Fraction
from functools import partial

import jsonschema
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy.stats import norm

import bayesrecon
from bayesrecon.disclosure.sanitising import guaranteed as guaranteeing
from bayesrecon.disclosure.sanitising.discrete_noise import discrete_gaussian, epsilon_of, rho_of
from bayesrecon.disclosure.sanitising.guaranteed import Promise, noisy_totals
from bayesrecon.disclosure.sanitising.ledger import Guarantee, Whose, opened_ledger
from bayesrecon.disclosure.sanitising.noisy_posterior import law_of
from bayesrecon.disclosure.sanitising.public_features import GRID, finite_features, public_ranges
from bayesrecon.errors import BayesreconError
from bayesrecon.games import OutputPerturbation
from bayesrecon.games.data import Records
from bayesrecon.games.lower_limits import composed, from_below, one_run
from bayesrecon.games.private import minimiser
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.results.base import schema
from bayesrecon.results.mechanism import Mechanism, epsilon_of_shift
from bayesrecon.results.sanitised import Guaranteed

DOMAIN = {"x": (-1.0, 1.0), "y": (-4.0, 4.0)}
DELTA = 1e-6
COEF, SIGMA = np.array([0.3, -0.6]), 0.5


def program(x, y=None):
    coef = numpyro.sample("coef", dist.Normal(0, 1).expand((2,)).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-0.7, 0.5))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(coef[0] + coef[1] * x, sigma), obs=y)


@pytest.fixture(scope="module")
def model():
    return bayesrecon.models.from_numpyro(program, record={"x": (), "y": ()})


@pytest.fixture(scope="module")
def features(model):
    with x64():
        return finite_features(model, public_ranges(model, DOMAIN))


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(0, 0.4, n), -1, 1)
    return {"x": x, "y": COEF[0] + COEF[1] * x + SIGMA * rng.normal(size=n)}


def gaussian_epsilon(rho, delta):
    return epsilon_of_shift(math.sqrt(2 * rho), delta)


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(5)])
def test_the_noise_is_the_discrete_gaussian(variance):
    below = random.Random(7).randrange
    values = np.array([discrete_gaussian(variance, below) for _ in range(1500)])
    support = np.arange(-30, 31)
    mass = np.exp(-(support**2) / (2 * float(variance)))
    expected = 1500 * mass / mass.sum()
    observed = np.array([(values == k).sum() for k in support])
    common = expected > 5
    assert ((observed - expected)[common] ** 2 / expected[common]).sum() < 2.5 * common.sum() + 10
    assert observed[~common].sum() < 40


@pytest.mark.parametrize("rho", [0.001, 0.0243559703595, 0.5, 1.539278763866729, 6.0])
def test_rho_becomes_an_epsilon_between_that_of_a_gaussian_and_the_simple_bound(rho):
    found = epsilon_of(rho, DELTA)
    assert gaussian_epsilon(rho, DELTA) < found < rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert epsilon_of(rho_of(found, DELTA), DELTA) == pytest.approx(found, rel=1e-9)


def test_rho_becomes_the_epsilon_of_another_package():
    """Numbers of dp_accounting's RDP accountant over 4000 orders."""
    for rho, epsilon in ((0.0243559703595, 1.0000006), (0.185069840653, 3.0000002), (0.5, 5.2215346)):
        assert epsilon_of(rho, DELTA) == pytest.approx(epsilon, rel=2e-6)


def test_the_features_of_a_regression_are_its_moments(features):
    assert features.names == ("1", "x", "y", "x * x", "x * y", "y * y")
    assert features.squared_sensitivity(False) == 6


@pytest.mark.parametrize("by_replacing", [False, True])
def test_no_pair_of_records_moves_the_totals_by_more_than_the_sensitivity(features, by_replacing):
    rng = np.random.default_rng(0)
    corners = features.ranges.clipped({k: rng.choice([-9.0, 0, 9], 200) for k in DOMAIN})
    inside = features.ranges.clipped({k: rng.uniform(-4, 4, 200) for k in DOMAIN})
    records = {k: np.concatenate([corners[k], inside[k]]) for k in DOMAIN}
    whole = np.array([features.totals({k: v[i : i + 1] for k, v in records.items()}) for i in range(400)], float)
    moved = whole[:, None] - whole if by_replacing else whole
    largest = (moved**2).sum(axis=-1).max() / GRID**2
    assert 0.5 * features.squared_sensitivity(by_replacing) < largest <= features.squared_sensitivity(by_replacing)


@pytest.mark.slow
def test_indicators_of_levels_count_once():
    def by_group(g, y=None):
        mean = numpyro.sample("mean", dist.Normal(0, 1).expand((4,)).to_event(1))
        with numpyro.plate("records", g.shape[0]):
            numpyro.sample("y", dist.Normal(mean[g], 1.0), obs=y)

    model = bayesrecon.models.from_numpyro(by_group, {"g": (), "y": ()}, domain={"g": [0, 1, 2, 3]})
    with x64():
        found = finite_features(model, public_ranges(model, {"y": (-5, 5)}))
        assert {"1", "g = 1", "g = 2", "g = 3", "y", "g = 3 * y"} <= set(found.names)
        assert found.squared_sensitivity(False) == 4  # 1, g, y, g y: one level of g at a time
        law_of(model, found)


def test_missing_ranges_are_refused_by_name(model, tmp_path):
    with pytest.raises(BayesreconError, match="range of x and y: state domain="):
        bayesrecon.sanitise(model=model, data=data(10), ledger=tmp_path / "l.json", epsilon=1.0, delta=DELTA)
    with pytest.raises(BayesreconError, match="range of y: "):
        bayesrecon.sanitise(
            model=model, data=data(10), ledger=tmp_path / "l.json", epsilon=1.0, delta=DELTA, domain={"x": (-1, 1)}
        )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epsilon": 1.0}, "epsilon= and delta="),
        ({"domain": DOMAIN}, "epsilon= and delta="),
        ({"epsilon": -1.0, "delta": DELTA}, "epsilon=-1.0: expected a positive number"),
        ({"epsilon": 0.0, "delta": DELTA}, "epsilon=0.0: expected a positive number"),
        ({"epsilon": 1.0, "delta": 0.5}, "delta=0.5"),
        ({"epsilon": 1.0, "delta": DELTA, "worth": 100.0}, "without worth"),
        ({"epsilon": 1.0, "delta": DELTA, "unit": "person"}, "most_per_unit"),
        ({"epsilon": 1.0, "delta": DELTA, "unit": "person", "most_per_unit": 2, "replace": True}, "replace="),
    ],
)
def test_what_makes_no_guarantee_is_refused(model, options, told):
    with pytest.raises(BayesreconError, match=told):
        bayesrecon.sanitise(model=model, data=data(10), **options)


def test_nothing_that_is_said_depends_on_the_values(features):
    """Clipped, infinite and missing values are neither counted nor refused."""
    clean, wild = data(50), data(50)
    wild["y"][:3] = [np.inf, -1e300, 1e9]
    wild["x"][4] = np.nan
    asked = Promise(1.0, DELTA, DOMAIN)
    (one, sd), (other, same) = (noisy_totals(features, asked, table, lambda variance: 0) for table in (clean, wild))
    assert sd == same
    assert one[0] == 50
    assert other[0] == 49  # a record with a missing value is left out
    assert np.isfinite(other).all()


def test_a_unit_counts_with_few_records_and_together(features):
    table = {**data(90), "person": np.repeat(np.arange(9), 10)}
    asked = Promise(1.0, DELTA, DOMAIN, unit="person", most_per_unit=3)
    assert len(asked.counted(table)["x"]) == 27
    _, of_a_record = noisy_totals(features, Promise(1.0, DELTA, DOMAIN), table, lambda variance: 0)
    _, of_a_person = noisy_totals(features, asked, asked.counted(table), lambda variance: 0)
    assert of_a_person == pytest.approx(3 * of_a_record)


# An auditor against planted bugs


def worlds(features, rounds, release, epsilon=1.0):
    """Outputs `(rounds, 6)` of a mechanism without and with one record, the most influential one."""
    first = data(20)
    second = {k: np.append(v, DOMAIN[k][k == "x"]) for k, v in first.items()}
    asked, rng = Promise(epsilon, DELTA, DOMAIN), np.random.default_rng(1)

    def noise(variance):
        return np.rint(rng.normal(0, math.sqrt(variance), rounds))  # of all rounds at once

    return [release(asked, table, noise).T for table in (first, second)]


def plain(features):
    return lambda asked, table, noise: noisy_totals(features, asked, table, noise)[0]


def test_the_mechanism_keeps_its_promise_and_the_audit_is_sharp(features):
    found = from_below(*worlds(features, 100_000, plain(features)))
    assert not found.refutes(1.0)
    assert found.epsilon > 0.8  # a normal distribution of this rho has 0.93


def smaller(features):
    return lambda asked, table, noise: noisy_totals(features, asked, table, lambda v: noise(v / 12))[0]


def clipped_after(features):
    def release(asked, table, noise):
        x, y = (np.asarray(table[k]) for k in DOMAIN)  # y is said to lie in [-1, 1]
        totals = np.stack([np.ones_like(y), x, y, x * x, x * y, y * y]).sum(axis=1)
        variance = features.variance(asked.rho, features.squared_sensitivity(False))
        return np.clip(totals[:, None] + np.array([noise(variance) for _ in totals]) / GRID, -50, 50)

    return release


def reused(features):
    def release(asked, table, noise):
        drawn = []

        def same(variance):
            drawn.append(noise(variance)) if not drawn else None
            return drawn[0]

        return noisy_totals(features, asked, table, same)[0]

    return release


def from_the_data(features):
    """Ranges that are the extremes of the data: the record that is added changes the basis of everybody."""

    def release(asked, table, noise):
        ends = {k: (float(np.min(v)), float(np.max(v))) for k, v in table.items()}
        scaled = {
            k: DOMAIN[k][0] + (np.asarray(v) - ends[k][0]) / (ends[k][1] - ends[k][0]) * np.ptp(DOMAIN[k])
            for k, v in table.items()
        }
        return noisy_totals(features, asked, scaled, noise)[0]

    return release


@pytest.mark.parametrize("bug", [smaller, clipped_after, reused, from_the_data])
def test_a_planted_bug_is_caught(features, bug):
    assert from_below(*worlds(features, 20_000, bug(features))).refutes(1.0)


def test_noise_in_floating_point_is_told_by_the_values_that_it_reaches(features):
    """Mironov's attack: floating-point numbers near one are multiples of 2^-53, those near zero are not."""
    noise = np.random.default_rng(0).laplace(size=1000) * 1e-3

    def share_on(grid, outputs):
        return np.mean(np.asarray(outputs) / grid % 1 == 0)

    assert share_on(2.0**-53, 1.0 + noise) == 1
    assert share_on(2.0**-53, 0.0 + noise) < 0.1
    first, second = data(20), data(21)
    asked = Promise(1.0, DELTA, DOMAIN)
    for table in (first, second):  # with whole numbers, both data sets reach the same values
        outputs = [noisy_totals(features, asked, table, discrete_gaussian)[0] for _ in range(5)]
        assert share_on(1 / GRID, outputs) == 1
        assert share_on(2 / GRID, outputs) < 1


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_a_private_learner_is_audited_from_below(scale):
    """One that divides its noise by fifty is refuted."""

    def mechanism(records, seed):
        best = minimiser(learner.signed(records), learner.penalty, 0.0, learner.tolerance)
        return np.ravel(best + scale * (learner.fit(records, 2, seed).theta - best))

    learner, x = OutputPerturbation(epsilon=2.0, penalty=0.1), np.linspace(-1, 1, 20)[:, None]
    one, other = (Records(x, np.r_[np.ones(19, int), last]) for last in (0, 1))
    worlds = (np.array([mechanism(data, 2 * i + k) for i in range(400)]) for k, data in enumerate((one, other)))
    assert from_below(*worlds).refutes(2.0) is (scale < 1)


def test_one_run_and_compositions():
    assert one_run(1000, 500) == 0
    assert one_run(1000, 731) < math.log(0.731 / 0.269)
    assert composed(1.0, 3, DELTA) == 3
    assert composed(0.05, 400, DELTA) < 0.05 * 400


def test_shifts_in_epsilon():
    mu, epsilon = 1.6, epsilon_of_shift(1.6)
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-6, rel=1e-6)
    assert epsilon_of_shift(0.0) == 0


# The ledger


def test_epsilons_add_up_in_rho_and_never_to_a_worth(tmp_path):
    path, one, anybody = tmp_path / "ledger.json", Guarantee(rho_of(1.0, DELTA), DELTA), Whose()
    with opened_ledger(path) as book:
        book.enter_guarantee(anybody, one, "model", 2.0)
        book.enter_guarantee(anybody, one, "model", None)
        after = book.guaranteed(anybody)
        assert after.rho == 2 * one.rho
        assert 1.0 < after.epsilon < 2.0
        assert book.account(anybody).spent == 0
    with opened_ledger(path) as book:
        with pytest.raises(BayesreconError, match="the budget of epsilon 2 does not allow") as caught:
            book.enter_guarantee(anybody, Guarantee(rho_of(2.0, DELTA), DELTA), "model", None)
        assert "state budget=" in str(caught.value)
        for month in ("january", "february"):
            book.enter_guarantee(Whose(part=month), Guarantee(one.rho / 10, DELTA), "model", None)
        assert book.guaranteed(anybody).rho == pytest.approx(2.1 * one.rho)
        mixed = book.guaranteed(anybody, Guarantee(one.rho, DELTA, replace=True))
        assert mixed.rho == pytest.approx(9.4 * one.rho)  # a replacement is a removal and an addition
        assert mixed.replace


# The posterior that knows the noise, and what reads it


WHOLE = Mechanism(1.0, DELTA, 0.02, "add or remove a record", ("1", "y"), {"y": (0.0, 1.0)}, (10.0, 2.0), (3.0, 3.0))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-2],
        lambda text: text.replace("[10.0, 2.0]", "[10.0]"),
        lambda text: text.replace("10.0", "NaN"),
        lambda text: text.replace("10.0", '"10"'),
        lambda text: text.replace('"rho"', '"more"'),
        lambda text: text.replace("[0.0, 1.0]", "[0.0]"),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_attribute_is_refused(damage):
    assert Mechanism.from_json(WHOLE.to_json()) == WHOLE
    with pytest.raises(BayesreconError, match="is damaged"):
        Mechanism.from_json(damage(WHOLE.to_json()))


@pytest.fixture(scope="module")
def found(model, tmp_path_factory):
    """With the same noise each time: of secret noise, one in twenty 95 % intervals misses."""
    ledger = tmp_path_factory.mktemp("book") / "ledger.json"
    options = {"epsilon": 2.0, "delta": DELTA, "domain": DOMAIN, "ledger": ledger}
    below = random.Random(0).randrange
    with pytest.MonkeyPatch.context() as patched:
        seeded = partial(guaranteeing.guaranteed, noise=lambda variance: discrete_gaussian(variance, below))
        patched.setattr("bayesrecon.disclosure.sanitising.sanitise.guaranteed", seeded)
        return bayesrecon.sanitise(model=model, data=data(3000), draws=1000, **options)


@pytest.mark.slow
def test_draws_are_wider_than_the_plain_posterior_and_carry_their_noise(found, model, tmp_path):
    assert isinstance(found, Guaranteed)
    assert found.mechanism.totals[0] != 3000
    plain_sd = SIGMA / data(3000)["x"].std() / 3000**0.5
    assert 1.2 * plain_sd < found.sds["coef[2]"] < 8 * plain_sd
    assert abs(found.means["coef[2]"] - COEF[1]) < 4 * found.sds["coef[2]"]
    assert found.spent_epsilon == pytest.approx(2.0, rel=1e-6)
    assert "(2, 1e-06)-differentially private" in found.sentence
    assert Mechanism.from_json(found.attributes["bayesrecon_guaranteed"]) == found.mechanism
    recovered = bayesrecon.recover(found.release)
    assert {row.verdict for row in recovered} == {"partly"}
    assert recovered["n"].lower < 3000 < recovered["n"].upper
    assert recovered["mean(y)"].lower < data(3000)["y"].mean() < recovered["mean(y)"].upper
    for verb in (bayesrecon.diagnose, bayesrecon.reconstruct, bayesrecon.plan):
        with pytest.raises(BayesreconError, match="noisy totals"):
            verb(found.release)
    jsonschema.validate(json.loads(json.dumps(found.to_dict())), schema("Guaranteed"))
    back = bayesrecon.load_result(found.save(tmp_path / "found.npz"))
    assert (back.mechanism, back.release) == (found.mechanism, None)


@pytest.mark.slow
def test_a_price_is_what_is_paid(found, model):
    rng, table = np.random.default_rng(0), data(3000)
    x = np.column_stack([np.ones(3000), table["x"]])
    fit, *_ = np.linalg.lstsq(x, table["y"], rcond=None)
    noise = rng.normal(size=(2, 1000, 2)) @ np.linalg.cholesky(np.linalg.inv(x.T @ x)).T
    draws = {"coef": fit + SIGMA * noise, "sigma": SIGMA * (1 + rng.normal(size=(2, 1000)) / 6000**0.5)}
    release = from_draws(draws, model)
    options = {"epsilon": (2.0, 8.0), "delta": DELTA, "domain": DOMAIN}
    cheap, dear = bayesrecon.plan(release, draws=(100,), digits=(3,), summaries=False, **options).prices[::-1]
    assert 1 < cheap.widths["coef[2]"] < dear.widths["coef[2]"]
    assert 0 < cheap.nats < dear.nats
    paid = found.sds["coef[2]"] / np.std(draws["coef"][..., 1])
    assert dear.widths["coef[2]"] == pytest.approx(paid, rel=0.35)


@pytest.mark.slow
@pytest.mark.large
def test_intervals_cover(model):
    """A small version of the benchmark: 40 sets, three parameters drawn from the prior."""
    hits = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        coef, sigma = rng.normal(size=2), np.exp(rng.normal(-0.7, 0.5))
        x = rng.uniform(-1, 1, 2000)
        table = {"x": x, "y": coef[0] + coef[1] * x + sigma * rng.normal(size=2000)}
        with x64():
            theta = guaranteeing.guaranteed(model, table, Promise(1.0, DELTA, {**DOMAIN, "y": (-12, 12)})).release.theta
        low, high = np.quantile(np.asarray(theta), (0.025, 0.975), axis=0)
        truth = np.array([*coef, np.log(sigma)])
        hits += ((low <= truth) & (truth <= high)).sum()
    assert 104 <= hits <= 120  # of 120: 114 expected, 99.9 % within
