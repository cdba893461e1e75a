"""A release says what it is: one type a kind, and hardly a condition elsewhere that asks which."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import released

import bayesrecon
from bayesrecon import releases
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.kinds import kind as kinds
from bayesrecon.types import (
    Approximation,
    OptimisedFit,
    PosteriorDraws,
    StatedLimits,
    Summary,
    TrainedParameter,
    VariationalOptimum,
)

ROOT = Path(__file__).resolve().parent.parent
TYPES = (
    "Release|PosteriorDraws|OneAtom|Trained|TrainedParameter|OptimisedMode|Derived|Approximation|VariationalOptimum|Summary"
    "|OptimisedFit|LogDensity|StatedLimits|Deletion|DrawsPair|TrainedPair|ApproximatedPair|Outputs"
)
ASKED = (
    r"^(?!.*\"\"\")\s*(if|elif|while|assert|.*\b(if|and|or|not)\b)\b.*(\b(self|given|release|result|embedding)\.)?"
    r"\btemperature\b(?! 0)",
    rf"\b(isinstance|issubclass)\([^#]*(\b({TYPES})\b|takes|, kind\))",
    rf"\btype\(\w+\) is( not)? ({TYPES})\b|\.pair is not ",
    r"\b(if|elif|and|or|not)\b.*\brelease\.(limits|refined|matched|ascent|directions|noise|metric) is\b",
)
"""Lines that ask which kind a release is of, as `grep -rnE` finds them in the package: flags and types."""

MAY_ASK = re.compile(r"temperature|isinstance|issubclass|type\(|\.pair is|release\.")
"""What stands in every such line, and is quickly looked for."""

MOST = 15


def asking():
    """`file:line` of every condition on the kind of a release in the package."""
    found = []
    for folder in ("bayesrecon", "models", "posteriors"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if MAY_ASK.search(line) and any(re.search(pattern, line) for pattern in ASKED):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    return found


def test_hardly_anything_asks_which_kind_a_release_is_of():
    found = asking()
    assert len(found) < MOST, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "    if not release.temperature:",
        "        if embedding.temperature and total == 1:",
        "    return 0 if self.temperature else 1",
        "    if isinstance(release, Release) and model is None:",
        "    if release.noise is not None:",
        "    drawn = issubclass(kind, PosteriorDraws)",
        "    if type(pair) is DrawsPair:",
    ],
)
def test_a_planted_condition_is_found(line):
    assert any(re.search(pattern, line) for pattern in ASKED)


@pytest.mark.parametrize("kind", released.KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_says_what_it_is(kind):
    """One line, its own fields, and its own equations."""
    release = released.release_of(kind)
    assert type(release) is kind
    assert repr(release).startswith(f"{kind.__name__}({release.name!r}: ")
    assert "\n" not in kind.what
    assert kinds.kind_of(release).of is kind
    for flag in ("metric", "noise", "limits", "ascent", "matched", "refined"):
        own = {f.name for f in dataclasses.fields(kind)}
        assert hasattr(release, flag) == (flag in own)


def test_what_a_kind_is_called_is_its_own():
    assert len({kind.what for kind in released.KINDS}) == len(released.KINDS) == 9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Approximation, Summary, OptimisedFit, VariationalOptimum], ids=lambda k: k.__name__)
def test_the_number_of_records_of_every_approximation(kind):
    """A normal law with known variance: its mean and variance tell how many numbers there were, and their mean."""
    found = bayesrecon.recover(released.release_of(kind))
    assert not found.failures
    assert found["n"].lower <= 40 * (1 + 1e-12)  # exact equations are solved to rounding
    assert found["n"].upper >= 40 * (1 - 1e-12)
    assert found["mean(y)"].lower <= released.Y.mean() <= found["mean(y)"].upper


EQUATIONS = {*released.KINDS} - {StatedLimits}
TAKEN = {
    "recover": {*released.KINDS},
    "diagnose": EQUATIONS,
    "witness": EQUATIONS,
    "bound": {PosteriorDraws, Approximation, VariationalOptimum, Summary, OptimisedFit},
    "plan": {PosteriorDraws},
    "missing_record": {TrainedParameter},
}
GIVEN = {"witness": ("y",), "missing_record": ({"y": np.zeros(3)},)}


@pytest.mark.parametrize("kind", released.KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("verb", TAKEN)
def test_a_verb_refuses_other_kinds_in_one_line(verb, kind):
    if kind in TAKEN[verb]:
        return
    with pytest.raises(BayesreconError, match=f"{verb} takes .*, and this is {re.escape(kind.what)}; ") as refused:
        getattr(bayesrecon, verb)(released.release_of(kind), *GIVEN.get(verb, ()))
    assert "\n" not in str(refused.value)


def test_what_is_no_release_is_refused():
    with pytest.raises(BayesreconError, match="expected a release"):
        releases.refuse_others(3, releases.EQUATIONS, "recover", "")


def test_the_model_of_a_release_is_its_own():
    release = released.release_of(PosteriorDraws)
    for verb in (bayesrecon.recover, bayesrecon.diagnose, bayesrecon.plan):
        with pytest.raises(BayesreconError, match="with its own model"):
            verb(release, model="kidscore_momiq")


def test_releases_of_draws_are_audited():
    """As what is published of them: the values of their parameters, and log densities where they have some."""
    release = released.release_of(PosteriorDraws)
    found = bayesrecon.audit(release, remedies=False)
    assert (found.format, found.draws, found.model) == ("release of draws", 800, "level")
    assert [finding.kind for finding in found.findings] == ["draws"]
    log_prior = -0.5 * (np.asarray(release.theta)[:, 0] / released.PRIOR) ** 2
    density = log_prior - 0.5 * ((np.asarray(release.theta) - released.Y) ** 2).sum(axis=1)
    other = bayesrecon.audit(dataclasses.replace(release, log_density=density), remedies=False)
    assert {"draws", "log-density"} <= {finding.kind for finding in other.findings}
