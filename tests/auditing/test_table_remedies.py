import pytest

from bayesrecon.auditing.audit import audit
from bayesrecon.errors import BayesreconError

TABLE = "name,coef,std err\nconst,25.80,5.917\nmom_iq,0.6100,0.05852\nsigma,18.27,\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    (tmp_path / "related.csv").write_text(",const,mom_iq\nconst,1,-0.9890\nmom_iq,-0.9890,1\n")
    return path


@pytest.mark.slow
def test_a_regression_table_is_a_finding(file):
    found = audit(file, "ols", correlations=file.with_name("related.csv"), remedies=False)
    assert found.verdict == "findings"
    evidence = {item.name: item for item in found.findings[0].evidence}
    assert abs(evidence["n"].estimate - 434) < 3
    assert found.to_dict()["files"][0]["size"] == len(TABLE)


def test_without_correlations_limits_are_a_finding_and_the_rest_is_not_cleared(file):
    found = audit(file, "ols", remedies=False)
    assert [item.name for item in found.findings[0].evidence] == ["mean(mom_iq*mom_iq)"]
    assert found.not_run[0].reason == "the correlations of the estimates were not given"
    assert "Not cleared" in found.advice
    file.write_text(TABLE.replace("sigma,18.27,\n", ""))
    assert audit(file, "logit", remedies=False).verdict == "incomplete"


@pytest.mark.slow
def test_remedies_are_tried(file):
    found = audit(file, "ols", correlations=file.with_name("related.csv")).findings[0]
    actions = [r.action for r in found.remedies]
    assert actions[0] == "leave the correlations out: 0 of 6 statistics remain determined"
    assert "publish the estimates alone: 0 of 6 statistics remain determined" in actions
    (three,) = (r for r in found.remedies if (r.action, r.statistic) == ("print 3 digits", "n"))
    assert three.measured >= three.before
    assert three.predicted > 3 * three.before
    # What this attack does not state is no proof.
    assert any(a.startswith("print 2 digits") and a.endswith("does not prove that others do") for a in actions[-3:])


def test_a_table_of_another_model(file):
    from bayesrecon.models import load

    with pytest.raises(BayesreconError, match="no row for beta"):
        audit(file, load("kidscore_momiq"), correlations=file.with_name("related.csv"))
