"""The report of an audit stands alone, and hostile text stays text."""

import html
import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr
from audited import HOSTILE

import bayesrecon
from bayesrecon.plots.report import audit_page, in_plain_words
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

pytestmark = pytest.mark.small


class Page(HTMLParser):
    """What a browser would see: tags, their attributes, and the text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


def test_hostile_text_stays_text():
    finding = Finding(
        HOSTILE,
        "high",
        HOSTILE,
        (HOSTILE,),
        HOSTILE,
        HOSTILE,
        (Item(HOSTILE, 1.0),),
        (Remedy(HOSTILE, HOSTILE, 1.0, 2.0, 3.0),),
        {HOSTILE: np.arange(3.0), "two": np.arange(3.0)},
        {HOSTILE: np.ones(3), "two": np.ones(3)},
    )
    settings = {HOSTILE: HOSTILE}
    files = ({"path": HOSTILE, "size": 1, "sha256": HOSTILE},)
    page = Page(audit_page(Audit((finding,), HOSTILE, HOSTILE, HOSTILE, 5, files, settings, warnings=(HOSTILE,))))
    assert not {"script", "img", "iframe", "object", "embed", "link", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "".join(page.words).count(HOSTILE) > 10


@pytest.mark.slow
def test_the_report_stands_alone(full, tmp_path):
    path = full.told(show_values=True).save_report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("svg") >= 2
    assert page.tags.count("article") == len(full)
    links = [v for k, v in page.attributes if k in ("src", "href", "xlink:href", "action", "data") and v]
    assert all(v.startswith(("#", "data:")) for v in links)
    assert "@import" not in text
    assert "url(http" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_attacks_that_were_not_run_are_shown():
    """Whatever the severity, and with text that stays text; the remedies of findings are no clearance."""
    untried = NotRun(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,))
    labels = Finding("labels", "medium", "labels", ("posterior/clinic",), "8 labels")
    for findings in ((), (labels,)):
        page = audit_page(Audit(findings, "a", "netCDF", None, 5, (), {}, not_run=(untried,)))
        shown = Page(page)
        assert "script" not in shown.tags
        assert "".join(shown.words).count(HOSTILE) >= 4
        assert "Not cleared." in page
        assert "The audit is incomplete: 1 attack was not run" in page
        assert "Publish" not in page
        assert "Nothing was found." not in page
    draws = Finding("draws", "low", "draws", ("posterior",), "n")
    assert "They do not change what the draws themselves disclose." in audit_page(
        Audit((labels, draws), "a", "netCDF", None, 5, (), {})
    )


def opened(tmp_path):
    """The audit of a file with copies, and the text of its report."""
    rng = np.random.default_rng(0)
    shape = ("chain", "draw")
    posterior = xr.Dataset({"mu": (shape, rng.normal(size=(2, 60))), "sd": (shape, rng.gamma(5, size=(2, 60)))})
    data = xr.Dataset({"age": ("obs", rng.integers(20, 80, 30).astype(float))}, attrs={"author": "Ann Smith"})
    path = tmp_path / "fit.nc"
    xr.DataTree.from_dict({"posterior": posterior, "observed_data": data}).to_netcdf(path, engine="h5netcdf")
    return path, bayesrecon.audit(path)


def test_plain_words_do_not_contradict_each_other(tmp_path):
    """What is removed does not stay, and no sentence begins with a path."""
    plain = in_plain_words(opened(tmp_path)[1])
    assert "@observed_data/author" in plain.remove
    assert not any("author" in line for line in plain.stays)
    assert not any(re.match(r"\S+/", line) for line in (*plain.people, *plain.stays))


def test_the_cleaned_copy_is_one_command(tmp_path, run):
    path, audited = opened(tmp_path)
    page = audited.to_html()
    (line,) = re.findall(r'<code class="command">(.*?)</code>', page)
    words = shlex.split(html.unescape(line))
    assert words == ["bayesrecon", "audit", str(path), "--keep", "mu", "--keep", "sd", "--fix", "cleaned.nc"]
    assert run(*words[1:]).code == 3  # incomplete: there is no model
    assert (tmp_path / "cleaned.nc").exists()
    run("audit", path, "--html", "page.html", "--threshold", 5)
    typed = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"bayesrecon audit {path} --threshold 5 --keep mu --keep sd --fix cleaned.nc" in typed
