"""A project's policy: which findings of an audit it allows, in a YAML file that is named on the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesrecon.errors import BayesreconError, MissingExtraError, near

if TYPE_CHECKING:
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Thresholds

_LARGEST = 2**16  # bytes
_ACRO: dict[str, float | bool] = {
    "safe_threshold": 10,
    "safe_dof_threshold": 10,
    "safe_nk_n": 2,
    "safe_nk_k": 0.9,
    "safe_pratio_p": 0.1,
    "check_missing_values": False,
    "survival_safe_threshold": 10,
    "zeros_are_disclosive": True,
}
_OWN: dict[str, Any] = {"fail_on": "medium", "allowed_kinds": [], "allow_incomplete": False, "digits": 0}
_BUDGETS = ("worth", "epsilon")
_COUNTS = ("safe_threshold", "safe_dof_threshold")
_WHOLE = (*_COUNTS, "survival_safe_threshold", "safe_nk_n", "digits")
_SHARES = ("safe_nk_k", "safe_pratio_p")
_SUMS = ("safe_nk_n", *_SHARES)
_OTHERS = ("check_missing_values", "survival_safe_threshold")  # of ACRO, which an audit leaves
_LEVELS = ("low", "medium", "high")


@dataclass(frozen=True)
class Policy:
    """What a project allows.

    Attributes:
        name: of the file.
        sha256: digest of the file.
        values: `{key: value}`, as stated: ACRO's eight keys as they are, `fail_on` (the lowest severity that is
            refused), `allowed_kinds` (kinds of findings that are allowed all the same), `allow_incomplete`, `digits`
            (the most significant digits of a number), and the budgets of an account, `worth` and `epsilon`, which
            are never added to each other.
    """

    name: str
    sha256: str
    values: dict[str, Any]

    def _of(self, key: str) -> Any:
        return self.values.get(key, {**_ACRO, **_OWN}.get(key))

    @property
    def thresholds(self) -> "Thresholds":
        """Thresholds of the audit."""
        from bayesrecon.results.findings import Thresholds

        count, freedom, digits = (int(self._of(key)) for key in (*_COUNTS, "digits"))
        zeros = bool(self.values.get("zeros_are_disclosive"))
        plain = Thresholds(small_count=count, freedom=freedom, zeros=zeros, digits=digits)
        if not self._states(_SUMS):
            return plain
        largest, share, ratio = (self._of(key) for key in _SUMS)
        return replace(plain, largest=int(largest), largest_share=share, p_ratio=ratio)

    def _states(self, keys: Sequence[str]) -> list[str]:
        return [key for key in keys if key in self.values]

    @property
    def budgets(self) -> list[str]:
        """The budgets that it states."""
        return [name for name in _BUDGETS if name in self.values]

    def notes(self) -> list[str]:
        """Limits that are weaker than the defaults."""
        ways = dict.fromkeys((*_COUNTS, "survival_safe_threshold", "safe_nk_n", "safe_pratio_p"), 1) | {"safe_nk_k": -1}
        weaker = [
            f"{key} {self.values[key]:g} ({_ACRO[key]:g})"
            for key, way in ways.items()
            if key in self.values and way * self.values[key] < way * _ACRO[key]
        ]
        weaker += [] if self._of("zeros_are_disclosive") else ["zeros_are_disclosive false (true)"]
        weaker += [] if self._of("fail_on") != "high" else ["fail_on high (medium)"]
        weaker += [f"allowed_kinds {', '.join(self._of('allowed_kinds'))} (none)"] if self._of("allowed_kinds") else []
        weaker += ["allow_incomplete (not)"] if self._of("allow_incomplete") else []
        return [f"policy {self.name} is weaker than the default: {'; '.join(weaker)}"] if weaker else []

    def untried(self, audit: "Audit") -> list[str]:
        """Keys that were not tried on what was audited, with the reason."""
        from bayesrecon.auditing.dominance import KIND

        lines = []
        if others := self._states(_OTHERS):
            lines.append(f"not tried: {', '.join(others)}; ACRO does")
        sums = any(f.kind == KIND for f in audit) or any(n.attack == KIND for n in audit.not_run)
        if (stated := self._states(_SUMS)) and not sums:
            reason = "no sum with its sum of squares follows from what was audited"
            lines.append(f"not tried: {', '.join(stated)}, because {reason}")
        if self._of("digits") and any(n.attack == "digits" for n in audit.not_run):
            lines.append("not tried: digits, because its numbers are not read as text or arrays")
        return [f"policy {self.name}: {line}" for line in lines]

    def stated(self, decision: tuple[int, str] | None) -> dict[str, Any]:
        """What a statement says of the policy: its digest and what it decided (`decided`)."""
        words = {0: "allowed", 1: "refused", 3: "not decided"}
        return {"sha256": self.sha256, "decision": words[decision[0]] if decision else None}

    def decided(self, audit: "Audit", spent: dict[str, float]) -> tuple[int, str]:
        """The exit code and a sentence: 0 allowed, 1 refused, 3 not decided because the audit is incomplete.

        Args:
            spent: worth and epsilon of the account.
        """
        level, allowed = _LEVELS.index(self._of("fail_on")), self._of("allowed_kinds")
        refused = [f for f in audit if f.severity in _LEVELS[level:] and f.kind not in allowed]
        several = "s" * (len(refused) > 1)
        reasons = [f"{len(refused)} finding{several} of {_LEVELS[level]} severity or above"] if refused else []
        reasons += [
            f"{name} {spent[name]:.4g} of a budget of {self.values[name]:.4g} is spent"
            for name in self.budgets
            if spent.get(name, 0.0) > self.values[name]
        ]
        if reasons:
            return 1, f"policy {self.name}: refused, {' and '.join(reasons)}"
        if audit.verdict == "incomplete" and not self._of("allow_incomplete"):
            return 3, f"policy {self.name}: not decided, the audit is incomplete"
        return 0, f"policy {self.name}: allowed"


def read_policy(path: Path) -> Policy:
    """The policy in a YAML or JSON file. Unknown keys and values of other types are refused.

    Raises:
        BayesreconError: the file cannot be read, or is no policy.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise BayesreconError(f"--policy {path}: it is too large for a policy")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BayesreconError(f"--policy {path}: cannot be read ({type(error).__name__})") from None
    from bayesrecon.posteriors.contents import stamp

    values = _parsed(path, text)
    if not isinstance(values, dict) or not values:
        raise BayesreconError(f"--policy {path}: expected lines KEY: VALUE")
    known = [*_ACRO, *_OWN, *_BUDGETS]
    for key, value in values.items():
        if key not in known:
            raise BayesreconError(f"--policy {path}: unknown key {key!r}{near(str(key), known)}")
        if (expected := _expected(key, value)) is not None:
            raise BayesreconError(f"--policy {path}: {key}: expected {expected}, not {value!r}")
    return Policy(path.name, stamp(path).sha256, values)


def _parsed(path: Path, text: str) -> Any:
    import json

    if path.suffix.lower() == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BayesreconError(f"--policy {path}: it is no JSON document") from None
    try:
        import yaml
    except ImportError:
        raise MissingExtraError(f"--policy {path} (in YAML, not .json)", "policies") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise BayesreconError(f"--policy {path}: it is no YAML document of plain values") from None


def _expected(key: str, value: object) -> str | None:
    """What a value should be; None if it is that."""
    if key == "fail_on":
        return None if value in _LEVELS else "low, medium or high"
    if key == "allowed_kinds":
        listed: Sequence[object] = value if isinstance(value, list) else [0]
        return None if all(isinstance(one, str) for one in listed) else "a list of kinds of findings"
    if key == "allow_incomplete" or isinstance(_ACRO.get(key), bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return "a number from 0 on"
    if key in _SHARES:
        return None if value <= 1 else "a share from 0 to 1"
    return None if key not in _WHOLE or float(value).is_integer() else "a whole number"
