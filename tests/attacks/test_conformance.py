"""Every attack that discovery finds keeps the same promises."""

import re
import sys
from functools import cache
from pathlib import Path
from typing import get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import released
import statsmodels.api as sm
from numpyro import distributions as dist
from sklearn.linear_model import LogisticRegression, Ridge

import bayesrecon
from bayesrecon.attacks.attack import Attack, attacks
from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.knowledge import KNOWS
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import dirac, from_draws, from_sklearn, outputs
from bayesrecon.types import (
    ApproximatedPair,
    Approximation,
    DrawsPair,
    LogDensity,
    OptimisedFit,
    OptimisedMode,
    PosteriorDraws,
    Summary,
    TrainedPair,
    TrainedParameter,
    VariationalOptimum,
    shortly,
)

pytestmark = pytest.mark.usefixtures("hardly_optimised")

TRIED = (
    PosteriorDraws,
    TrainedParameter,
    Approximation,
    VariationalOptimum,
    Summary,
    OptimisedFit,
    OptimisedMode,
    LogDensity,
    DrawsPair,
    TrainedPair,
    ApproximatedPair,
    Outputs,
)
DERIVED = (Approximation, VariationalOptimum, Summary, OptimisedFit, OptimisedMode, LogDensity)
GROUPS, DRAWN = 4, 400
Y = np.array([1.0, -2.0, 0.5, 3.0])
X = np.random.default_rng(1).normal(size=(300, 3))
RESPONSE = X @ [1.0, -1.0, 0.5] + 0.3 * np.random.default_rng(2).normal(size=300)

OPTIONS = {
    "weighted-records": {"n": 8},
    "score-matching": {"n": 6, "steps": 20, "start": "located"},
    "gradient-matching": {"n": 4, "steps": 20, "restarts": 2},
    "hrec": {"public": {"x": X[100:], "y": RESPONSE[100:]}},
    "posterior-sampling": {"components": 2, "warmup": 8, "draws": 8, "calibration": 20, "checked": 0, "scale": 1.0},
    "output-inversion": {"starts": 1, "steps": 5, "calibration": 20, "checked": 4},
    "trained-decoding": {"decoder": lambda z: z[:, :1] * np.ones(3)},
}
"""Small settings; an attack that needs none is tried as it is."""

KNOWN = {"single-records": {"known": {"group": np.arange(GROUPS)}, "unit": "group"}}


@pytest.fixture(scope="module")
def model():
    """One record a group, whose mean is the group's own."""

    def program(group, y):
        mu = numpyro.sample("mu", dist.Normal(0, 10).expand((GROUPS,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu[group], 1), obs=y)

    return from_numpyro(program, {"group": (), "y": ()}, domain={"group": list(range(GROUPS))})


@pytest.fixture(scope="module")
def releases(model):
    """A small release of every kind, its posterior sampled exactly."""
    rng = np.random.default_rng(0)

    def sampled(y, precision):
        centre = precision / (precision + 0.01) * y
        return from_draws({"mu": centre + rng.normal(size=(2, DRAWN, GROUPS)) * (precision + 0.01) ** -0.5}, model)

    once, twice = np.ones(GROUPS), np.array([2.0, 1.0, 1.0, 1.0])
    one, two = (from_sklearn(Ridge(1.0).fit(X[i:100], RESPONSE[i:100])) for i in (0, 1))
    return {
        PosteriorDraws: sampled(Y, once),
        TrainedParameter: dirac(model, {"mu": Y / 1.01}),
        **{kind: released.release_of(kind) for kind in DERIVED},
        DrawsPair: bayesrecon.deletion(sampled(Y, twice), sampled(Y, once)),
        TrainedPair: bayesrecon.deletion(one, two),
        ApproximatedPair: bayesrecon.deletion(
            *(sm.OLS(RESPONSE[i:100], sm.add_constant(X[i:100, 0])).fit() for i in (0, 1))
        ),
        Outputs: outputs(lambda x: jnp.tanh(x[:, :2]), np.tanh(X[0, :2]), public=X[1:]),
    }


HEAVY = {
    *("posterior-sampling", "output-inversion", "score-matching", "single-records", "tilt"),
    *(OptimisedFit, OptimisedMode, VariationalOptimum, LogDensity),
}
"""What is compiled for seconds, and kinds on the way of which another kind has gone already."""

TAKEN = [(name, made, [kind for kind in TRIED if issubclass(kind, made.takes)]) for name, made in attacks().items()]
CASES = [
    pytest.param(
        made,
        kind,
        id=f"{name}, {shortly(kind.what)}",
        marks=[pytest.mark.slow] * (i > 0 or bool({name, kind} & HEAVY)),
    )
    for name, made, kinds in TAKEN
    for i, kind in enumerate(kinds)
]
"""Every attack on every kind; on the first of them by default."""


def carried_out(made, release, **more):
    return bayesrecon.reconstruct(
        release, attack=made(**OPTIONS.get(made.name, {})), **KNOWN.get(made.name, {}), **more
    )


def numbers(result):
    return {k: v for k, v in result.to_dict().items() if k != "seconds"}


def test_all_are_found():
    assert {
        "weighted-records",
        "score-matching",
        "single-records",
        "gradient-matching",
        "hrec",
        "tilt",
        "difference",
    } <= set(attacks())
    for name, made in attacks().items():
        assert issubclass(made, Attack)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert made.summary
        assert made.takes
        assert set(made.uses) <= set(KNOWS)
        assert made.__dataclass_params__.frozen
        assert all(made.__dataclass_fields__[option].metadata["help"] for option in made.options())


@pytest.fixture(scope="module")
def first(releases):
    """What an attack finds when it is carried out for the first time."""
    return cache(lambda made, kind: carried_out(made, releases[kind], key=3))


@pytest.mark.parametrize(("made", "kind"), CASES)
def test_a_key_gives_one_result_and_progress_reaches_one(made, kind, releases, first):
    told = []
    again = carried_out(made, releases[kind], key=3, progress=lambda *now: told.append(now))
    assert type(again) is get_type_hints(made.run)["return"]
    assert numbers(again) == numbers(first(made, kind))
    assert numbers(carried_out(made, releases[kind], key=jax.random.key(3)))
    assert told[-1] == ("done", 1.0)
    assert all(0 <= fraction <= 1 for _, fraction in told)


@pytest.mark.parametrize(("made", "kind"), CASES)
def test_its_result_comes_back_from_its_file(made, kind, first, tmp_path):
    found = first(made, kind)
    back = bayesrecon.load_result(found.save(tmp_path / "found.npz"))
    assert type(back) is type(found)
    assert back.to_dict() == found.to_dict()
    assert back.to_dataframe().equals(found.to_dataframe())
    assert repr(back) == repr(found)


COMPILED = []


@pytest.fixture(scope="module")
def compiled():
    def listen(event, seconds, **rest):
        if event.endswith("backend_compile_duration"):
            COMPILED.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return COMPILED


@pytest.mark.parametrize(("made", "kind"), CASES)
def test_a_second_call_compiles_nothing(made, kind, releases, first, compiled):
    first(made, kind)
    compiled.clear()
    carried_out(made, releases[kind], key=3)
    if compiled:  # the first call was long ago: another file has dropped compiled programs since
        compiled.clear()
        carried_out(made, releases[kind], key=3)
    assert not compiled


@pytest.mark.parametrize("made", attacks().values(), ids=lambda made: made.name)
def test_other_releases_are_refused(made, releases):
    for kind in [kind for kind in releases if not issubclass(kind, made.takes)]:
        told = f"{made.__name__} takes .*, and this is {kind.what}"
        with pytest.raises(bayesrecon.BayesreconError, match=told) as caught:
            carried_out(made, releases[kind])
        assert "\n" not in str(caught.value)
    with pytest.raises(bayesrecon.BayesreconError, match="expected a release"):
        carried_out(made, {"mu": 1.0})


@pytest.mark.parametrize("made", attacks().values(), ids=lambda made: made.name)
def test_what_it_has_no_use_for_is_refused(made, releases):
    release = next(releases[kind] for kind in TRIED if issubclass(kind, made.takes))
    for name in set(KNOWS) - set(made.uses):
        with pytest.raises(bayesrecon.BayesreconError, match=f"{made.__name__} has no use for {name}="):
            bayesrecon.reconstruct(release, attack=made(), **{name: 1.0})


def test_verbs_are_short():
    import inspect

    for name in bayesrecon.__all__:
        value = getattr(bayesrecon, name)
        if inspect.isfunction(value):
            assert len(inspect.signature(value).parameters) <= 10, name


@pytest.mark.slow
def test_the_page_on_adding_an_attack(releases, tmp_path, monkeypatch, run):
    """The skeleton of the page is found, listed by the command line's table of options, and runs."""
    page = (Path(__file__).resolve().parents[2] / "docs/add_an_attack.md").read_text(encoding="utf-8")
    (skeleton,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert skeleton.count("\n") <= 40
    (tmp_path / "nearest.py").write_text(skeleton)
    package = __import__("bayesrecon.attacks").attacks
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    attacks.cache_clear()
    command = "bayesrecon.cli.commands.reconstruct"  # its options were listed when it was imported
    sys.modules.pop(command, None)
    try:
        made = attacks()["mean-record"]
        found = bayesrecon.reconstruct(releases[PosteriorDraws], attack=made(digits=2))
        assert found.record["y"] == round(bayesrecon.recover(releases[PosteriorDraws])["mean(y)"].estimate, 2)
        back = bayesrecon.load_result(found.save(tmp_path / "found.npz"))
        assert back.record == found.record
        with pytest.raises(bayesrecon.BayesreconError, match="MeanRecord takes posterior draws, and this is"):
            bayesrecon.reconstruct(releases[TrainedParameter], attack=made())
        listed = run("reconstruct", "--attack", "mean-record").out
        assert "--digits" in listed
        assert "Digits to round to." in listed
        values = {"beta": np.random.default_rng(0).normal([26, 0.6], [0.2, 0.01], (2, 200, 2))}
        np.savez("draws.npz", sigma=np.random.default_rng(1).normal(18, 0.5, (2, 200)), **values)
        asked = ("reconstruct", "draws.npz", "--model", "kidscore_momiq", "--attack", "mean-record")
        assert "the mean record" in run(*asked, "--digits", 1).out
        for option, text in (("--out", "a Guess is written to .csv"), ("--plot", "a Guess cannot be plotted")):
            refused = run(*asked, option, {"--out": "a.nc", "--plot": "a.png"}[option])
            assert (refused.code, text in refused.err) == (2, True)
    finally:
        attacks.cache_clear()
        sys.modules.pop(command, None)


def unchanged(model):
    """Pairs around no deletion, by type: the same records in another order, from another start, or sampled again."""
    rng, order = np.random.default_rng(5), np.random.default_rng(6).permutation(100)
    x, y, label = X[:100], RESPONSE[:100], (RESPONSE[:100] > 0).astype(int)
    line = [sm.OLS(y[rows], sm.add_constant(x[rows, 0])).fit() for rows in (np.arange(100), order)]
    exact, loose = ({"solver": "newton-cholesky", "tol": 1e-12}, {"solver": "lbfgs", "tol": 1e-4})
    fits = [
        *((Ridge(1.0).fit(x, y), Ridge(1.0).fit(x[order], y[order])),),
        *((Ridge(1.0).fit(x, y), Ridge(1.0, solver="lsqr", tol=1e-6).fit(x, y)),),
    ]
    for one, two in ((exact, exact), (exact, loose), (loose, exact)):
        fits.append((LogisticRegression(**one).fit(x, label), LogisticRegression(**two).fit(x[order], label[order])))
    elsewhere = LogisticRegression(warm_start=True, **loose)
    elsewhere.coef_, elsewhere.intercept_ = rng.normal(size=(1, x.shape[1])), np.ones(1)
    elsewhere.classes_ = np.arange(2)
    fits.append((LogisticRegression(**loose).fit(x, label), elsewhere.fit(x, label)))
    draws = [from_draws({"mu": Y / 1.01 + rng.normal(size=(2, DRAWN, GROUPS)) / 1.01**0.5}, model) for _ in range(2)]
    trained = [bayesrecon.deletion(*map(from_sklearn, pair)) for pair in fits]
    return {
        TrainedPair: trained,
        ApproximatedPair: [bayesrecon.deletion(*line)],
        DrawsPair: [bayesrecon.deletion(*draws)],
    }


@pytest.mark.parametrize(
    "made",
    [made for made in attacks().values() if {*made.takes} & {TrainedPair, ApproximatedPair, DrawsPair}],
    ids=lambda made: made.name,
)
def test_where_nothing_was_deleted_no_record_is_named_without_a_doubt(made, model):
    for kind, pairs in unchanged(model).items():
        for pair in pairs if issubclass(kind, made.takes) else ():
            labelled = pair.before.model.linear is not None and pair.before.model.linear.labels
            public = {"x": X[100:], "y": (RESPONSE[100:] > 0).astype(int) if labelled else RESPONSE[100:]}
            options = {"public": public} if "public" in made.options() else {}
            try:
                found = bayesrecon.reconstruct(pair, attack=made(**options))
            except bayesrecon.BayesreconError as refused:
                assert re.search("identical|not by a single one", str(refused))
            else:
                assert found.doubts
                assert "nothing can be said" in repr(found) if not found.record else "in doubt" in repr(found)
