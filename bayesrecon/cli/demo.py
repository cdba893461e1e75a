"""The demonstration: a regression on real patients, of which only the posterior draws are kept."""

import json as json_module
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.attacks.recovery import recover
from bayesrecon.cli import console, tables
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import compare, true_statistics
from bayesrecon.files import write_whole
from bayesrecon.model import Records
from bayesrecon.models import load
from bayesrecon.plots import plot_summary
from bayesrecon.posteriors.nuts import nuts

COVARIATES = ("age", "sex", "bmi", "bp", "s3", "s5")
RESPONSE = "progression"


def diabetes_records() -> Records:
    """The diabetes table that scikit-learn carries: 442 patients, unscaled columns."""
    from sklearn.datasets import load_diabetes

    table: Any = load_diabetes(scaled=False)
    columns = dict(zip(table.feature_names, table.data.T, strict=True))
    return {**{c: np.asarray(columns[c]) for c in COVARIATES}, RESPONSE: np.asarray(table.target, float)}


def run_demo(folder: Path, *, seed: int = 0, json: bool = False) -> None:
    """Fit, forget the data, recover, compare; writes `bayesrecon_demo.png` and `bayesrecon_demo.json`."""
    start = time.perf_counter()
    folder = Path(folder)
    if not folder.is_dir():
        raise BayesreconError(f"--out {folder}: there is no such folder")
    records = diabetes_records()
    count = len(records[RESPONSE])
    model = load("linear_regression", covariates=COVARIATES, response=RESPONSE)
    console.say(f"1. a hospital fits {RESPONSE} ~ {' + '.join(COVARIATES)} to {count} patients with NumPyro NUTS")
    release = nuts(
        model, records, key=seed, chains=4, draws=2500, warmup=700, progress=console.err.is_terminal, name="diabetes"
    )
    console.say(f"2. it publishes {release.size} draws of {model.dimension} parameters, and no data")
    console.say("3. what the draws tell about the patients:")
    with console.progress_bar() as progress:
        result = recover(release, progress=progress)
    truth = true_statistics(model, records)
    for warning in result.warnings:
        console.warn(warning)
    z = compare(result, truth)["z"].dropna()
    plot, document = folder / "bayesrecon_demo.png", folder / "bayesrecon_demo.json"
    plot_summary(result, truth=truth, path=plot)
    content = {**result.to_dict(), "truth": truth}
    write_whole(document, lambda path: path.write_text(json_module.dumps(content, indent=2) + "\n", encoding="utf-8"))
    if json:
        console.emit_json(content)
    else:
        console.out.print(tables.recovery_table(result, truth))
    inside = int((z.abs() < Z95).sum())
    console.say(
        f"{inside} of {len(z)} true values lie in their 95 % interval; the largest deviation is "
        f"{z.abs().max():.1f} standard errors"
    )
    console.say(f"wrote {plot} and {document} after {time.perf_counter() - start:.0f} s")
