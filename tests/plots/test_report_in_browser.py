"""The report in a real browser: everything there, nothing wider than the page, no error, no request."""

import browser
import numpy as np
import pytest

from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    measured = Remedy("round to 5 digits", "x", 1e-3, 2e-2, 2.1e-2)
    remedies = (Remedy("drop log_likelihood/y"), measured, Remedy("round to 3 digits", "x", 1e-3, 2.0))
    records, errors = {"x": rng.normal(size=40), "y": rng.normal(size=40)}, {"x": np.ones(40), "y": np.ones(40)}
    rows = tuple(
        Item(f"mean(a_rather_long_name_of_a_covariate_{i})", 1234.5678, 0.0123, lower=1234.5437, upper=1234.5919)
        for i in range(6)
    )
    what = ("records come back", ("log_likelihood/y",), "40 of 40 records", "the model", rows)
    found = Finding(
        "log-likelihood", "high", *what, (*remedies, Remedy("keep 100 draws", untried=True)), records, errors
    )
    where = tuple(f"posterior/a_variable_with_a_long_name_{i}" for i in range(9))
    return Audit(
        findings=(found,),
        name="a_trace_with_a_name_that_never_ends_" * 4,
        format="ArviZ netCDF",
        model="linear_regression",
        draws=4000,
        files=({"path": "/data/" + "folder/" * 20 + "fit.nc", "size": 123, "sha256": "ab" * 32},),
        settings={"model": "linear_regression"},
        not_run=(NotRun("energies", "they hold missing values", "drop them", where),),
    ).to_html()


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_as_it_is_seen(page, width, tmp_path):
    seen = browser.look(page, width, tmp_path)
    assert (seen.console, seen.requests) == ([], [])
    assert seen.page["width"] <= width
    assert seen.page["scroll"] <= seen.page["width"]
    assert seen.page["wide"] == []
    questions = ["What can a stranger learn about a person?", "What to remove", "What stays", "Not run", "Findings"]
    assert [h for h in seen.page["headings"] if h in questions] == questions
    assert any("1234.568" in row and "0.012" in row and "1234.544 to 1234.592" in row for row in seen.page["errors"])
    assert any("predicted only" in row for row in seen.page["errors"])
    assert seen.page["smallest"] >= 12
    assert len(seen.page["plots"]) == 2
    assert min(seen.page["plots"]) > 60


def test_the_browser_notices_a_bad_page(tmp_path):
    """A page that is too wide, asks for something and fails in its script."""
    page = "<h1 style='width: 900px'>wide</h1><img src='http://127.0.0.1:9/x.png'><script>throw Error('no')</script>"
    seen = browser.look(page, 400, tmp_path)
    assert seen.page["wide"] == ["H1"]
    assert seen.page["scroll"] > 400
    assert any("no" in line for line in seen.console)
    assert any("127.0.0.1:9" in address for address in seen.requests)


def test_a_picture_is_taken(page, tmp_path):
    import matplotlib.image

    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.screenshot(tmp_path / "report.html", 800, tmp_path / "report.png")
    picture = matplotlib.image.imread(tmp_path / "report.png")
    assert picture.shape[:2] == (1600, 800)
    assert picture[..., :3].std() > 0.05  # something is drawn
