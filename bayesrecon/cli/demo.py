"""The demonstration: a regression on real patients, of which only the posterior draws are kept."""

import json as json_module
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bayesrecon.attacks.recovery import recover
from bayesrecon.cli import console, rich_tables
from bayesrecon.cli.rich_tables import table
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.joint_test import joint_test
from bayesrecon.evaluate.truth import true_statistics
from bayesrecon.files import write_whole
from bayesrecon.model import Records
from bayesrecon.models import load
from bayesrecon.plots.plain_statistics import PlainStatistic, plot_plain_statistics
from bayesrecon.posteriors.fitting.nuts import nuts
from bayesrecon.results.recovery import Recovery

_NAMES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")  # columns of scikit-learn's table
COVARIATES = ("age", "sex", "bmi", "bp", "s3", "s5")
RESPONSE = "progression"
_LINES = (
    ("number of patients", "n", 0, ".0f"),
    ("mean age, years", "mean(age)", 0, ".1f"),
    ("share of the second sex", "mean(sex)", 1, ".0%"),  # the table codes sex as 1 and 2
    ("mean body mass index", "mean(bmi)", 0, ".1f"),
    ("mean blood pressure, mmHg", "mean(bp)", 0, ".1f"),
    ("mean progression after a year", "mean(progression)", 0, ".0f"),
)


def diabetes_records() -> Records:
    """The diabetes table that scikit-learn carries: 442 patients, unscaled columns.

    Its two files are read as they lie there, since importing scikit-learn takes as long as the recovery.
    """
    spec = find_spec("sklearn")
    folder = None if spec is None else Path(str(spec.origin)).parent / "datasets" / "data"
    files = [] if folder is None else [folder / "diabetes_data_raw.csv.gz", folder / "diabetes_target.csv.gz"]
    if files and all(file.is_file() for file in files):
        data, target = np.loadtxt(files[0]), np.loadtxt(files[1])
    else:  # a scikit-learn that keeps them elsewhere
        from sklearn.datasets import load_diabetes

        loaded: Any = load_diabetes(scaled=False, return_X_y=True)
        data, target = loaded
    columns = dict(zip(_NAMES, data.T, strict=True))
    return {**{c: columns[c] for c in COVARIATES}, RESPONSE: np.asarray(target, float)}


def run_demo(folder: Path, *, seed: int = 0, all_statistics: bool = False, json: bool = False) -> None:
    """Fit, forget the data, recover, compare; writes `bayesrecon_demo.png` and `bayesrecon_demo.json`.

    Args:
        folder: folder for the plot and the JSON file.
        seed: seed of the sampler and of the attack.
        all_statistics: whether to show all statistics instead of six.
        json: whether to print one JSON object instead of a table.
    """
    start = time.perf_counter()
    folder = Path(folder)
    if not folder.is_dir():
        raise BayesreconError(f"--out {folder}: there is no such folder")
    records = diabetes_records()
    count = len(records[RESPONSE])
    model = load("linear_regression", covariates=COVARIATES, response=RESPONSE)
    console.say(f"1. a hospital fits {RESPONSE} ~ {' + '.join(COVARIATES)} to {count} patients with NumPyro NUTS")
    release = nuts(
        model, records, key=seed, chains=4, draws=2000, warmup=500, progress=console.err.is_terminal, name="diabetes"
    )
    console.say(f"2. it publishes {release.size} draws of {model.dimension} parameters, and no data")
    console.say("3. what the draws reveal about the patients:")
    with console.progress_bar() as progress:
        result = recover(release, progress=progress)
    truth = true_statistics(model, records)
    for warning in result.warnings:
        console.warn(warning)
    plot, document = folder / "bayesrecon_demo.png", folder / "bayesrecon_demo.json"
    comparison = _compared(result, truth)
    plot_plain_statistics(comparison, f"{count} patients, from {release.size} draws alone", plot)
    content = {**result.to_dict(), "truth": truth}
    write_whole(document, lambda path: path.write_text(json_module.dumps(content, indent=2) + "\n", encoding="utf-8"))
    if json:
        console.emit_json(content)
    else:
        console.out.print(rich_tables.recovery_table(result, truth) if all_statistics else _table(comparison))
    test = joint_test(release, records)
    console.say(
        f"all {test.freedom} sums over the patients that the draws determine, against the true ones: Hotelling's "
        f"T² = {test.statistic:.1f}, F({test.freedom}, {test.residual_freedom}) = {test.ratio:.2f}, "
        f"p = {test.probability:.2g}"
    )
    if not (all_statistics or json):
        console.say(f"{len(result.rows)} statistics were recovered; `bayesrecon demo --all` shows them")
    console.say(f"wrote {plot} and {document} after {time.perf_counter() - start:.0f} s")


def _compared(result: Recovery, truth: Mapping[str, float]) -> list[PlainStatistic]:
    """Six statistics that a data steward would check first, with the true values."""
    statistics = []
    for words, name, shift, form in _LINES:
        row = result[name]
        estimate, lower, upper = (np.nan if x is None else x - shift for x in (row.estimate, row.lower, row.upper))
        statistics.append(PlainStatistic(words, estimate, lower, upper, truth[name] - shift, form))
    return statistics


def _table(statistics: list[PlainStatistic]) -> Table:
    numbers = ((line.words, line.numbers) for line in statistics)
    rows = ((words, estimate, f"{low} to {high}", true) for words, (estimate, low, high, true) in numbers)
    return table(["", "recovered", "95 % interval", "true"], rows, title="the patients, from the draws alone")
