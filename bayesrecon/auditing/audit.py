"""The verb `audit`: every subject is examined by every channel."""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.auditing.accounts.account import is_public
from bayesrecon.auditing.assembly import judged, merge
from bayesrecon.auditing.channel import channels
from bayesrecon.auditing.effort import Effort, budget_of, effort_of
from bayesrecon.auditing.look import Asked, Look
from bayesrecon.auditing.sources import Source, sources
from bayesrecon.auditing.stage import Stage
from bayesrecon.errors import Interrupted
from bayesrecon.knowledge import KNOWS, refuse_renamed
from bayesrecon.precision import x64
from bayesrecon.results.audit import Audit, ordered
from bayesrecon.results.findings import Finding, NotRun, Thresholds
from bayesrecon.results.told import from_r
from bayesrecon.running.engine import pooled, swept
from bayesrecon.running.threads import on_one_thread

if TYPE_CHECKING:
    from bayesrecon.arrays import Array

_READ, _REMEDIES = 0.2, 0.8  # shares of the progress bar after which a subject is read, and all channels have run


@on_one_thread
@np.errstate(over="ignore", invalid="ignore")  # extreme numbers are examined like any others
def audit(
    source: object,
    model: object = None,
    *,
    data: "Mapping[str, Array] | str | os.PathLike[str] | None" = None,
    known: "Mapping[str, Array] | None" = None,
    remedies: bool | Effort = True,
    thresholds: Thresholds | None = None,
    name: str | None = None,
    key: int = 0,
    progress: Progress | None = None,
    **which: Any,
) -> Audit:
    """What publishing a file, a fit or a table of estimates would reveal about the private data.

    Without a model, the audit searches for plain copies of data, and lists values that a model makes attackable. The
    verdict is then "incomplete". With a model, it attacks the draws with `recover`, and also the side channels. Log
    densities are inverted with the value kernel (`lp_t - log pi0(theta_t) - log |det| = sum_n l(theta_t, x_n) + c`),
    and pointwise log likelihoods and predictive draws record by record. No attack sees `data`.

    Args:
        source: what would be published. It can be a release of `bayesrecon.posteriors`; a netCDF file or zarr directory
            of ArviZ; a CmdStan CSV file or a list of them, one per chain; a CmdStanPy fit; a NumPyro MCMC; an
            InferenceData or DataTree; JSON or zip of posteriordb; a NumPy archive; or a dictionary of arrays `(chains,
            draws, *shape)`. It can be a saved object of R (`.rds`, `.RData`) or of Python (pickle, joblib, torch,
            skops, safetensors, ONNX, PMML); such objects are parsed, never loaded. It can be a fit: a result of
            statsmodels, an estimator of scikit-learn, a printed table (`posteriors.from_table`), a DataFrame of
            estimates, or `results.json` of ACRO. Tables in a list are audited one by one and together. So is every file
            of a folder or of an archive (`.zip`, `.tar.gz`). What `read_contents(..., trusted=True)` returns was read
            without limits.
        model: the model behind the draws: a `Model`, the name of a shipped model, a PyMC or Bambi model, or the path of
            a Stan program. Files written by `bayesrecon fit` and by R's interfaces to Stan name their model.
        data: the private data, `{column: (N,)}` or the path of a table. Findings are scored against them.
        known: `{field: (N, *shape)}`, fields that an attacker knows row by row.
        remedies: whether to report what thinning and rounding would leave, after all attacks. "quick", or True,
            measures remedies until 45 seconds of CPU time after the start of the audit, those of the most severe
            findings first. The other remedies are predicted by theory or reported as not tried. "full" measures all of
            them, which may take many minutes.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction. If it has a method `found`, this is called with each
            finding as it is found, before remedies are tried.
        which: what else an attacker knows (`Knows`): `total`, `domain`, `factors`, and for draws `unit`. For draws also
            `public`: names or places of what may stay, with wildcards, such as "prior_sd" or "constant_data/*". For a
            table of estimates also `correlations`, `response`, `formula`, `jacobian` and `draws` as in
            `posteriors.from_table`, and `column`, which names one or several of the table's models.

    Returns:
        An `Audit` with `findings`, `severity`, `verdict` ("incomplete" if any attack is in `not_run`), `to_dict()`,
        `to_dataframe()` and `save_report(path)`.

    Raises:
        BayesreconError: the source cannot be read, the draws are not of this model, or the data do not fit the model.
        Interrupted: a `KeyboardInterrupt` after attacks had started. Its `so_far` is the audit up to then, with the
            verdict "incomplete".

    >>> import numpy as np
    >>> mu, ages = np.random.default_rng(0).normal(size=(2, 50)), np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
    >>> found = audit({"mu": mu, "x": np.ones((2, 50, 1)) * ages})
    >>> found.severity, found.findings[0].title
    ('high', 'posterior/x is the same in every draw')
    >>> found.verdict, found.not_run[0].attack, found.not_run[0].reason
    ('incomplete', 'draws', 'no model was given')
    """
    refuse_renamed(which, "audit")
    public = tuple(dict.fromkeys(form for name in which.pop("public", ()) for form in (name, from_r(name))))
    stated = {"known": known or None, **{k: which.pop(k) for k in KNOWS if k in which}}
    asked = Asked(
        knows={k: v for k, v in stated.items() if v is not None},
        data=data,
        public=public,
        remedies=bool(remedies),
        effort=effort_of(remedies) if isinstance(remedies, str) else "quick",
        thresholds=thresholds or Thresholds(),
        key=key,
    )
    done: list[Audit] = []
    with sources(source, model, name, which) as listed:
        told = [None if pooled() else _part(progress, i / len(listed), 1 / len(listed)) for i in range(len(listed))]
        try:
            for one in swept(_audited, asked, list(zip(listed, told, strict=True))):
                done.append(one)  # those before an interruption are kept
        except Interrupted as stop:
            rest = tuple(NotRun(s.name, _STOPPED, _AGAIN) for s in listed[len(done) + 1 :])
            so_far = merge([*done, cast(Audit, stop.so_far)])
            raise Interrupted(replace(so_far, not_run=(*so_far.not_run, *rest))) from None
    return merge(done)


_STOPPED, _AGAIN = "the audit was interrupted", "run it again and let it end"


def _audited(asked: Asked, item: tuple[Source, Progress | None]) -> Audit:
    """The audit of one subject: what each channel finds, what none of them took, and then remedies."""
    (source, progress), began, budget = item, time.perf_counter(), budget_of(asked.effort)
    subject = source.subject(asked, _part(progress, 0.0, _READ))
    available, skipped = channels(subject.has)
    stage, whole, waiting = subject.begun + Stage((), tuple(map(str, skipped)), skipped), None, list(available)
    with nullcontext() if subject.model is None else x64():
        try:
            while waiting:
                begin = _READ + (1 - len(waiting) / len(available)) * (_REMEDIES - _READ)
                told = _part(progress, begin, (_REMEDIES - _READ) / len(available), f"looking for {waiting[0].name}")
                found = waiting[0].stage(replace(subject, findings=stage.findings, progress=told))
                if waiting[0].needs == "nothing":
                    found = found.without(partial(is_public, allowed=asked.public))
                _announce(progress, found.findings)
                stage, waiting = stage + found, waiting[1:]
            whole = judged(subject, stage)
            _announce(progress, whole.findings[len(stage.found) :])
            if asked.remedies and subject.drawn is not None:
                for tried in whole.with_remedies(budget, _part(progress, _REMEDIES, 1 - _REMEDIES)):
                    whole = tried
        except KeyboardInterrupt:
            missing = ["remedies"] if whole else [*(channel.name for channel in waiting), "the rest of the audit"]
            rest = Stage(untried=tuple(NotRun(name, _STOPPED, _AGAIN) for name in missing))
            so_far = whole + rest if whole else judged(subject, stage + rest)
            raise Interrupted(_result(subject, so_far, began)) from None
        return _result(subject, whole, began)


def _result(subject: Look, stage: Stage, began: float) -> Audit:
    asked, contents, model, findings = subject.asked, subject.contents, subject.model, stage.findings
    if subject.private is not None and model is not None:
        from bayesrecon.auditing.scoring import scored

        unit = None if subject.fit is not None else asked.unit
        findings = tuple(scored(f, subject.private, model, asked.known, unit) for f in findings)
    return Audit(
        findings=ordered(list(findings)),
        name=contents.name,
        format=contents.format,
        model=model.name if model else None,
        draws=0 if contents.draws is None or subject.fit else contents.draws.chains * contents.draws.length,
        files=tuple(asdict(f) for f in contents.files),
        settings={
            "model": model.name if model else None,
            "model_settings": dict(model.settings) if model else {},
            "data": subject.private.stamp if subject.private else None,
            **asked.settings,
        },
        thresholds=asked.thresholds,
        warnings=tuple(dict.fromkeys((*contents.notes, *stage.warnings))),
        seconds=time.perf_counter() - began,
        used=model,
        not_run=tuple(dict.fromkeys(stage.untried)),
    )


def _announce(progress: Progress | None, findings: Iterable[Finding]) -> None:
    if (announce := getattr(progress, "found", None)) is not None:
        for finding in findings:
            announce(finding)


class _Part:
    """Progress of a part of an audit, as progress of the whole one. It never goes back.

    Args:
        whole: progress of the whole.
        begin, width: the part.
        label: its name, with which labels begin.
    """

    def __init__(self, whole: Progress, begin: float, width: float, label: str) -> None:
        self._whole, self._begin, self._width, self._label = whole, begin, width, label
        self._least = 0.0
        if (found := getattr(whole, "found", None)) is not None:
            self.found = found

    def __call__(self, label: str, fraction: float) -> None:
        self._least = max(self._least, min(fraction, 1.0))
        words = ": ".join(filter(None, (self._label, label)))
        self._whole(words, self._begin + self._width * self._least)


def _part(progress: Progress | None, begin: float, width: float, label: str = "") -> Progress | None:
    return None if progress is None else _Part(progress, begin, width, label)
