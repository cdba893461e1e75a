"""A policy decides the exit code of an audit, and says where it is weaker than the default."""

import json

import numpy as np
import pytest

ACRO = {
    "safe_threshold": 10,
    "safe_dof_threshold": 10,
    "safe_nk_n": 2,
    "safe_nk_k": 0.9,
    "safe_pratio_p": 0.1,
    "check_missing_values": False,
    "survival_safe_threshold": 10,
    "zeros_are_disclosive": True,
}
OLS = ("--model", "ols", "--domain", "age=0:120")
TABLE = "name,coef,std err\nIntercept,20.1852,3.44215\nage,0.490695,0.0671696\nsigma,6.66755,\nN,111,\n"
HIGH = "name,coef,std err\nIntercept,20.2,3.4\nage,0.49,0.067\nsigma,6.7,\nN,7,\n"


@pytest.fixture
def judged(tmp_path, run):
    def call(policy, table=TABLE, *more, options=OLS):
        path = tmp_path / "policy.json"
        path.write_text(policy if isinstance(policy, str) else json.dumps(policy))
        (tmp_path / "table.csv").write_text(table)
        return run("audit", tmp_path / "table.csv", *options, "--no-remedies", "--policy", path, *more)

    return call


def test_it_decides_the_exit_code(judged):
    outcome = judged(ACRO)
    assert (outcome.code, "policy policy.json: allowed" in outcome.err) == (0, True)
    said = " ".join(outcome.err.split())
    assert "not tried: check_missing_values, survival_safe_threshold; ACRO does" in said
    assert "not tried: safe_nk" not in said  # the table tells the sum of all responses, and of their squares
    outcome = judged(ACRO, HIGH)
    assert outcome.code == 1
    assert "refused, 2 findings of medium severity or above" in outcome.err
    assert judged({"fail_on": "low"}).code == 1
    assert judged({"fail_on": "low", "allowed_kinds": ["table"]}).code == 0


def test_weaker_limits_are_printed(judged):
    outcome = judged({**ACRO, "safe_threshold": 3, "safe_dof_threshold": 3, "fail_on": "high"}, HIGH)
    said = " ".join(outcome.err.split())
    assert "weaker than the default: safe_threshold 3 (10); safe_dof_threshold 3 (10); fail_on high (medium)" in said
    weak = {"safe_nk_n": 1, "safe_nk_k": 0.95, "safe_pratio_p": 0.05, "zeros_are_disclosive": False}
    said = " ".join(judged({**ACRO, **weak}).err.split())
    limits = "safe_nk_n 1 (2); safe_pratio_p 0.05 (0.1); safe_nk_k 0.95 (0.9); zeros_are_disclosive false (true)"
    assert f"weaker than the default: {limits}" in said
    assert "weaker" not in judged({"safe_nk_k": 0.85, "safe_pratio_p": 0.2, "digits": 9}).err


def test_counts_and_degrees_of_freedom_have_a_threshold_each(judged):
    findings = json.loads(judged({"safe_threshold": 3, "safe_dof_threshold": 10}, HIGH, "--json").out)["findings"]
    assert any(f["title"].startswith("residual degrees of freedom: 5, below 10") for f in findings)
    assert not any(f["title"].startswith("all records") for f in findings)


CELLS = "name,coef,std err\n{}\nsigma,{},\n"  # least squares on levels, which tells counts, means and scatter


def cells(groups):
    """The table of a regression on the levels of a factor."""
    y, level = np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    z = np.column_stack([np.ones(len(y)), np.eye(len(groups))[level][:, 1:]])
    b = np.linalg.lstsq(z, y, rcond=None)[0]
    s = np.sqrt(((y - z @ b) ** 2).sum() / (len(y) - z.shape[1]))
    se = s * np.sqrt(np.diag(np.linalg.inv(z.T @ z)))
    names = ["const", *(f"g[T.{k}]" for k in range(1, len(groups)))]
    lines = "\n".join(f"{name},{one:.6g},{error:.6g}" for name, one, error in zip(names, b, se, strict=True))
    return CELLS.format(lines, f"{s:.6g}")


EVEN = [np.linspace(9.0, 11.0, 12), np.linspace(8.0, 12.0, 12)]
TWO = [np.array([500.0, 480, *[4.0] * 10]), EVEN[1]]  # neither is half of the sum
RULES = {"safe_threshold": 0, "safe_dof_threshold": 0, "allowed_kinds": ["table"]}


@pytest.fixture
def dominated(judged):
    def call(rules, groups):
        outcome = judged(
            {**RULES, **rules}, cells(groups), "--domain", "y=0:1000", "--json", options=("--model", "ols")
        )
        audit = json.loads(outcome.out)
        of_sums = [f for f in audit["findings"] if f["kind"] == "dominance"]
        return outcome, of_sums, [n["reason"] for n in audit["not_run"] if n["attack"] == "dominance"]

    return call


def test_rules_of_dominance_are_judged_where_sums_follow(dominated):
    outcome, findings, _ = dominated({"safe_nk_n": 2, "safe_nk_k": 0.65}, TWO)
    (cell,) = (f for f in findings if f["title"].endswith("with g=baseline"))
    assert (outcome.code, cell["severity"]) == (1, "medium")
    assert cell["title"].startswith("the 2 largest records have")
    share = TWO[0][:2].sum() / TWO[0].sum()
    assert cell["evidence"][0]["lower"] <= share <= cell["evidence"][0]["upper"]
    outcome, (clear,), open_ = dominated({"safe_nk_n": 2, "safe_nk_k": 0.9, "safe_pratio_p": 0.1}, EVEN)
    assert (clear["severity"], clear["title"], open_) == ("info", "no sum is dominated", [])
    assert "not tried: safe_nk" not in outcome.err


def test_a_rule_that_the_numbers_leave_open_is_not_cleared(dominated):
    """Two records of nearly a half each, and one of two thirds, have the same sum of squares."""
    outcome, findings, open_ = dominated({"safe_nk_n": 2, "safe_nk_k": 0.9}, TWO)
    assert not findings
    assert any("the two largest 67% to 97%" in reason for reason in open_)  # they have 96 %
    assert (outcome.code, "not decided" in outcome.err) == (3, True)


def test_digits_are_counted_as_they_are_printed(judged, tmp_path, run):
    assert judged({"digits": 6}).code == 0
    outcome = judged({"digits": 5})
    assert outcome.code == 1
    np.savez(tmp_path / "draws.npz", mu=np.round(np.random.default_rng(0).normal(size=(2, 50)), 3))
    policy = tmp_path / "policy.json"
    for digits, refused in ((4, False), (3, True)):
        policy.write_text(json.dumps({"digits": digits, "allow_incomplete": True, "safe_nk_k": 0.9}))
        code, out, err = run("audit", tmp_path / "draws.npz", "--draws", "--policy", policy, "--json")
        assert any(f["kind"] == "digits" for f in json.loads(out)["findings"]) is refused
        assert code == int(refused)
        assert "not tried: safe_nk_k, because no sum with its sum of squares follows" in " ".join(err.split())


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"safe_treshold": 5}, "unknown key 'safe_treshold'; did you mean safe_threshold"),
        ({"fail_on": "severe"}, "fail_on: expected low, medium or high"),
        ({"safe_threshold": "many"}, "safe_threshold: expected a number from 0 on"),
        ({"safe_threshold": 2.5}, "expected a whole number"),
        ({"safe_nk_k": 90}, "safe_nk_k: expected a share from 0 to 1"),
        ({"digits": 4.5}, "digits: expected a whole number"),
        ({"check_missing_values": 1}, "expected true or false"),
        ({"allowed_kinds": "table"}, "expected a list of kinds"),
        ({"worth": 100}, "a budget of worth needs a ledger"),
        ("{", "it is no JSON document"),
        ("[]", "expected lines KEY: VALUE"),
    ],
)
def test_what_is_no_policy_is_refused(judged, policy, message):
    outcome = judged(policy)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_budget_of_the_account_counts(judged, tmp_path):
    book = ("--ledger", tmp_path / "book" / "ledger.json")
    assert judged({"worth": 100, "epsilon": 1.0}, TABLE, *book).code == 0


def test_yaml_creates_nothing(tmp_path, run):
    pytest.importorskip("yaml")
    (tmp_path / "table.csv").write_text(TABLE)
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'!!python/object/apply:os.mkdir ["{tmp_path}/made"]')
    outcome = run("audit", tmp_path / "table.csv", *OLS, "--policy", policy)
    assert outcome.code == 2
    assert not (tmp_path / "made").exists()
    policy.write_text("fail_on: high\nsafe_threshold: 10\n")
    assert run("audit", tmp_path / "table.csv", *OLS, "--no-remedies", "--policy", policy).code == 0
