import pytest

from bayesrecon.auditing.tables import audit_table
from bayesrecon.errors import BayesreconError

TABLE = "name,coef,std err\nconst,25.80,5.917\nmom_iq,0.6100,0.05852\nsigma,18.27,\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    (tmp_path / "related.csv").write_text(",const,mom_iq\nconst,1,-0.9890\nmom_iq,-0.9890,1\n")
    return path


def test_a_regression_table_is_a_finding(file):
    found = audit_table(file, "ols", correlations=file.with_name("related.csv"))
    assert found.verdict == "findings"
    evidence = {item.name: item for item in found.findings[0].evidence}
    assert abs(evidence["n"].estimate - 434) < 3
    assert found.to_dict()["files"][0]["size"] == len(TABLE)


def test_without_correlations_limits_are_a_finding_and_the_rest_is_not_cleared(file):
    found = audit_table(file, "ols")
    assert [item.name for item in found.findings[0].evidence] == ["mean(mom_iq*mom_iq)"]
    assert found.not_run[0].reason == "the correlations of the estimates were not given"
    assert "Not cleared" in found.advice
    file.write_text(TABLE.replace("sigma,18.27,\n", ""))
    assert audit_table(file, "logit").verdict == "incomplete"


def test_a_table_of_another_model(file):
    from bayesrecon.models import load

    with pytest.raises(BayesreconError, match="the table lacks beta"):
        audit_table(file, load("kidscore_momiq"), correlations=file.with_name("related.csv"))
