"""A policy decides the exit code of an audit, and says where it is weaker than the default."""

import json

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
    def call(policy, table=TABLE, *more):
        path = tmp_path / "policy.json"
        path.write_text(policy if isinstance(policy, str) else json.dumps(policy))
        (tmp_path / "table.csv").write_text(table)
        return run("audit", tmp_path / "table.csv", *OLS, "--no-remedies", "--policy", path, *more)

    return call


def test_it_decides_the_exit_code(judged):
    outcome = judged(ACRO)
    assert (outcome.code, "policy policy.json: allowed" in outcome.err) == (0, True)
    assert "does not evaluate safe_nk_n" in outcome.err
    outcome = judged(ACRO, HIGH)
    assert outcome.code == 1
    assert "refused, 2 findings of medium severity or above" in outcome.err
    assert judged({"fail_on": "low"}).code == 1
    assert judged({"fail_on": "low", "allowed_kinds": ["table"]}).code == 0


def test_weaker_limits_are_printed(judged):
    outcome = judged({**ACRO, "safe_threshold": 3, "safe_dof_threshold": 3, "fail_on": "high"}, HIGH)
    said = " ".join(outcome.err.split())
    assert "weaker than the default: safe_threshold 3 (10); safe_dof_threshold 3 (10); fail_on high (medium)" in said


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"safe_treshold": 5}, "unknown key 'safe_treshold'; did you mean safe_threshold"),
        ({"fail_on": "severe"}, "fail_on: expected low, medium or high"),
        ({"safe_threshold": "many"}, "safe_threshold: expected a number from 0 on"),
        ({"safe_threshold": 2.5}, "expected a whole number"),
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
