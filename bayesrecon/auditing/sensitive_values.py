"""Values in a file that can be attacked with a model, found by groups, names and shapes before any attack."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesrecon.posteriors.contents import Contents, Variable, group_of
from bayesrecon.posteriors.draws import LOG_DENSITIES
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity

if TYPE_CHECKING:
    from bayesrecon.model import Model


DROP_DRAWS = "publish neither draws nor their mean and covariance, which reveal the same statistics"

POTENTIAL = "potential_energy"
ENERGIES = ("energy", "energy__")
PASS_A_MODEL = "pass the model: --model NAME (`bayesrecon models`) or --model own.py"

GRADIENTS = ("gradient", "grad", "logp_grad", "logdensity_grad", "grad_logp")


@dataclass(frozen=True)
class _Kind:
    """One kind of values, and the attack on it ("" if there is none)."""

    name: str
    attack: str
    severity: Severity
    title: str
    gives: str
    needs: str
    remedy: str


_KINDS = (
    _Kind("log-density", "log densities", "medium", "log densities are in the file",
        "they are linear in totals of the data: with the model, they give the number of records and their moments, "
        "usually to the last digit", "the model and its prior", "drop {where}"),
    _Kind("energy", "energies", "low", "energies are in the file", "they are minus log densities plus kinetic noise",
        "the model and its prior", "drop {where}"),
    _Kind("log-likelihood", "log likelihoods", "high", "pointwise log likelihoods are in the file",
        "with the model, every record can be solved for from its own column", "the model",
        "drop {where}: publish its sums (elpd, p_loo) instead"),
    _Kind("predictive", "predictions", "medium", "predictive draws are in the file",
        "with the model, each column gives the covariates of its record, with errors", "the model", "drop {where}"),
    _Kind("draws", "draws", "low", "the draws themselves are in the file",
        "with the model, they give the number of records and their moments with errors; where a parameter belongs "
        "to a person or a group, that unit's own data", "the model and its prior", DROP_DRAWS),
    _Kind("prior predictive", "", "medium", "prior predictive draws are in the file",
        "made with the private design, each column gives the covariates of its record, with errors", "the model",
        "drop {where}"),
    _Kind("gradient", "gradients", "medium", "gradients of the log density are in the file",
        "each is linear in totals of the data", "the model and its prior", "drop {where}"),
    _Kind("warm-up values", "", "medium", "warm-up values that can be attacked with a model are in the file",
        "they reveal as much as the same values at the posterior draws", "the model and its prior", "drop {where}"),
)  # fmt: skip
DRAWS = "draws"


def sensitive_values(
    contents: Contents, model: "Model | None" = None, earlier: Iterable[Finding] = ()
) -> list[Finding]:
    """One finding for each kind of values that can be attacked with a model, with or without a model.

    Args:
        contents: the file.
        model: if given, only its parameters count as draws. Otherwise the whole group `posterior` does.
        earlier: earlier findings.
    """
    reported = {(kind, where) for f in earlier for where in f.where for kind in (_as_sensitive(f.kind), f.kind)}
    by_kind: dict[str, list[Variable]] = {}
    for variable in contents.variables:
        kind = _kind_of(variable, parameters_of(model))
        if kind and (kind, variable.where) not in reported:
            by_kind.setdefault(kind, []).append(variable)
    return [_finding(kind, by_kind[kind.name]) for kind in _KINDS if kind.name in by_kind]


def _as_sensitive(kind: str) -> str:
    """The kind of a finding here. Arrays that are constant or combinations of others do not count as draws."""
    return DRAWS if kind in ("copy", "combination") else kind


def parameters_of(model: "Model | None") -> set[str] | None:
    """Names of a model's parameters; None if any name can be one, because there is no model or it renames them."""
    return None if model is None or model.prepare is not None else {p.name for p in model.parameters}


def attack_of(finding: Finding) -> str:
    """The attack on the values of a finding, or "" if there is none."""
    return next((kind.attack for kind in _KINDS if kind.name == finding.kind), "")


def not_run(finding: Finding, reason: str, remedy: str) -> NotRun:
    """A `NotRun` for the attack on a finding's values."""
    return NotRun(attack_of(finding) or finding.title.removesuffix(" are in the file"), reason, remedy, finding.where)


def without_attack(findings: Iterable[Finding]) -> list[NotRun]:
    """A `NotRun` for every finding whose values this version cannot attack."""
    return [
        not_run(finding, "this version has no attack on them", finding.remedies[0].action)
        for finding in findings
        if not attack_of(finding)
    ]


def log_densities(contents: Contents, model: "Model | None" = None) -> list[Variable]:
    """Arrays that are named like a log density, beside the draws or among them, except for parameters of the model."""
    parameters = parameters_of(model) or set()
    return [v for v in contents.variables if _kind_of(v, parameters) == "log-density"]


_BY_GROUP = {
    "log_likelihood": "log-likelihood", "posterior_predictive": "predictive", "predictions": "predictive",
    "prior_predictive": "prior predictive", "unconstrained_posterior": DRAWS,
}  # fmt: skip
_STATISTICS = {
    **dict.fromkeys(LOG_DENSITIES, "log-density"), POTENTIAL: "log-density", "unconstrained_draw": DRAWS,
    **dict.fromkeys(ENERGIES, "energy"), **dict.fromkeys(GRADIENTS, "gradient"),
}  # fmt: skip


def _kind_of(variable: Variable, parameters: set[str] | None) -> str:
    group, name = variable.group, variable.name
    if group.startswith("warmup_"):
        seen = _kind_of(_as_group(variable, group.removeprefix("warmup_")), None)
        return "warm-up values" if seen not in ("", DRAWS) else ""  # the draws: see the plain copies
    if group == "sample_stats":
        return _STATISTICS.get(name, "")
    if group != "posterior" or (parameters is not None and name in parameters):
        return _BY_GROUP.get(group, DRAWS if group == "posterior" else "")
    if name in LOG_DENSITIES:
        return "log-density"
    named = _BY_GROUP.get(group_of(name), "") if variable.shape else ""
    return named or (DRAWS if parameters is None else "")


def _as_group(variable: Variable, group: str) -> Variable:
    shape = variable.shape if variable.per_draw else variable.shape[2:]
    return Variable(group, variable.name, shape, True, variable.values)


def _finding(kind: _Kind, variables: list[Variable]) -> Finding:
    where = tuple(v.where for v in variables)
    named = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
    return Finding(
        kind.name,
        kind.severity,
        kind.title,
        where,
        f"{named}: {kind.gives}",
        kind.needs,
        remedies=(Remedy(kind.remedy.format(where=named), leaves="info"),),
        drop=() if kind.name == DRAWS else where,
    )
