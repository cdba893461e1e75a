"""The verb `audit`: every subject is examined by every channel."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.auditing.accounts.account import is_public
from bayesrecon.auditing.assembly import READING, in_words_of_the_file, judged, merge, named
from bayesrecon.auditing.channel import channels
from bayesrecon.auditing.effort import Effort, budget_of, effort_of
from bayesrecon.auditing.look import Asked, Determined, Fit, Look, Released
from bayesrecon.auditing.private_data import hidden, read_private
from bayesrecon.auditing.stage import Stage
from bayesrecon.errors import BayesreconError, Interrupted
from bayesrecon.json_types import Json
from bayesrecon.knowledge import KNOWS, of_model
from bayesrecon.posteriors.contents import Contents, Stamp, stamp
from bayesrecon.posteriors.folders import files_of, is_folder, unpacked
from bayesrecon.posteriors.formats import suffix_of
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.posteriors.printed.acro import AcroOutput, file_of, is_acro, read_acro
from bayesrecon.posteriors.recognition import is_cmdstan_approximation, is_path, is_table
from bayesrecon.precision import x64
from bayesrecon.results.audit import Audit, ordered
from bayesrecon.results.findings import Finding, NotRun, Thresholds
from bayesrecon.results.told import from_r
from bayesrecon.running.engine import pooled, swept
from bayesrecon.running.threads import on_one_thread

if TYPE_CHECKING:
    from bayesrecon.arrays import Array
    from bayesrecon.auditing.small_counts import Count
    from bayesrecon.model import Model
    from bayesrecon.releases import Release

_READ, _REMEDIES = 0.2, 0.8  # shares of the progress bar after which a subject is read, and all channels have run


_ACRO = "output of ACRO"
_PRINTED = "directly, printed in the table"
_AUDIT_TABLE = "audit its table by itself, with its model"


@dataclass(frozen=True, eq=False)
class _Source:
    """One subject of an audit before it is read.

    Attributes:
        name: name in messages.
        read: function that reads it.
        refused: function of a message that makes the subject if it cannot be read; None if that ends the audit.
    """

    name: str
    read: Callable[[Asked, Progress | None], Look]
    refused: Callable[[str], Look] | None = None

    def subject(self, asked: Asked, progress: Progress | None) -> Look:
        """The subject."""
        try:
            return self.read(asked, progress)
        except BayesreconError as error:
            if self.refused is None:
                raise
            return replace(self.refused(str(error)), asked=asked)


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
            estimates, or `results.json` of ACRO. Sources in a list, a folder or an archive (`.zip`, `.tar.gz`) are
            audited one by one and together: which records are in one and not in others. What
            `read_leaves(..., trusted=True)` returns was read without limits.
        model: the model behind the draws: a `Model`, the name of a shipped model, a PyMC or Bambi model, or the path of
            a Stan program. Files written by `bayesrecon fit` and by R's interfaces to Stan name their model.
        data: the private data, `{column: (N,)}` or the path of a table. Findings are scored against them.
        known: `{field: (N, *shape)}`, fields that an attacker knows row by row.
        remedies: whether to report what thinning and rounding would leave, after all attacks. "quick", or True,
            measures remedies until 45 seconds of CPU time after the start of the audit, those of the most severe
            findings first. The other remedies are predicted by theory or reported as not tried; of several tables of
            estimates, only those of severe findings are measured. "full" measures all of them, which may take many
            minutes.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction. If it has a method `found`, this is called with each
            finding as it is found, before remedies are tried.
        which: what else an attacker knows (`Knows`): `total`, `domain`, `factors`, and for draws `unit`. For draws also
            `public`: names or places of what may stay, with wildcards, such as "prior_sd" or "constant_data/*", and
            `rows`: what a row is, "draws" or "records", where the source does not say. For several sources
            `membership`: which contains whom, `{name: names of its disjoint groups}`. `earlier`: what was published
            before (`auditing.published.published_before`), to compare the source with. For a table of estimates also
            `correlations`, `response`, `formula`, `jacobian` and `draws` as in `posteriors.from_table`, and `column`,
            which names one or several of the table's models.

    Returns:
        An `Audit` with `findings`, `severity`, `verdict` ("incomplete" if any attack is in `not_run`), `to_dict()`,
        `to_dataframe()` and `save_report(path)`.

    Raises:
        BayesreconError: the source cannot be read, the draws are not of this model, or the data do not fit the model.
        Interrupted: a `KeyboardInterrupt` after attacks had started. Its `so_far` is the audit up to then, with the
            verdict "incomplete".

    >>> import numpy as np
    >>> mu, ages = np.random.default_rng(0).normal(size=(2, 50)), np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
    >>> found = audit({"mu": mu, "x": np.ones((2, 50, 1)) * ages}, rows="draws")
    >>> found.severity, found.findings[0].title
    ('high', 'posterior/x is the same in every draw')
    >>> found.verdict, found.not_run[0].attack, found.not_run[0].reason
    ('incomplete', 'draws', 'no model was given')
    """
    public = tuple(dict.fromkeys(form for name in which.pop("public", ()) for form in (name, from_r(name))))
    stated = {"known": known or None, **{k: which.pop(k) for k in KNOWS if k in which}}
    asked = Asked(
        knows={k: v for k, v in stated.items() if v is not None},
        data=data,
        public=public,
        rows=which.pop("rows", ""),
        remedies=bool(remedies),
        effort=effort_of(remedies) if isinstance(remedies, str) else "quick",
        thresholds=thresholds or Thresholds(),
        key=key,
        membership=which.pop("membership", None) or {},
    )
    done: list[Audit] = []
    released: list[Released] = [*which.pop("earlier", ())]
    before = tuple(one.name for one in released)
    with _sources(source, model, name, which) as listed:
        asked = replace(asked, several=len(listed) > 1 or bool(before), earlier=before)
        told = [None if pooled() else _part(progress, i / len(listed), 1 / len(listed)) for i in range(len(listed))]
        try:
            for one, its in swept(_audited, asked, list(zip(listed, told, strict=True))):
                done.append(one)  # those before an interruption are kept
                released += its
            if len(released) > max(len(before), 1) or asked.membership:
                whole = Look(Contents("", ""), key=key, asked=asked, together=released, without_items=True)
                done.append(_audited(asked, (_Source("", lambda asked, told: whole), None))[0])
        except Interrupted as stop:
            rest = tuple(NotRun(s.name, _STOPPED, _AGAIN) for s in listed[len(done) + 1 :])
            so_far = merge([*done, cast(Audit, stop.so_far)])
            raise Interrupted(replace(so_far, not_run=(*so_far.not_run, *rest))) from None
    return merge(done)


def released_by(source: object, model: object = None, *, key: int = 0, **which: Any) -> tuple[str, list[Released]]:
    """What a source is, and what it releases that can be compared with other releases.

    Args:
        source, model, key, which: as in `audit`.
    """
    knows = {k: which.pop(k) for k in KNOWS if which.get(k) is not None}
    asked = Asked(knows={k: v for k, v in knows.items() if v is not None}, key=key, several=True)
    with _sources(source, model, None, {k: v for k, v in which.items() if v is not None}) as listed:
        subjects = [each.subject(asked, None) for each in listed]
        kind = " and ".join(dict.fromkeys(one.contents.format for one in subjects))
        with x64() if any(one.model is not None for one in subjects) else nullcontext():
            return kind, [released for one in subjects for released in _released(one)]


_STOPPED, _AGAIN = "the audit was interrupted", "run it again and let it end"


def _audited(asked: Asked, item: tuple[_Source, Progress | None]) -> tuple[Audit, list[Released]]:
    """The audit of one subject: what each channel finds, what none took, then remedies; and what it releases."""
    (source, progress), began, budget = item, time.perf_counter(), budget_of(asked.effort)
    subject = source.subject(asked, _part(progress, 0.0, _READ))
    available, skipped = channels(subject.has)
    stage, whole, waiting = subject.begun + Stage((), tuple(map(str, skipped)), skipped), None, list(available)
    with nullcontext() if subject.model is None else x64():
        try:
            while waiting:
                begin = _READ + (1 - len(waiting) / len(available)) * (_REMEDIES - _READ)
                told = _part(progress, begin, (_REMEDIES - _READ) / len(available), f"looking for {waiting[0].name}")
                if told is not None:
                    told("", 0.0)
                found = waiting[0].stage(replace(subject, findings=stage.findings, progress=told))
                if waiting[0].needs == "nothing":
                    found = found.without(partial(is_public, allowed=asked.public))
                _announce(progress, found.findings)
                stage, waiting = stage + found, waiting[1:]
            whole = judged(subject, stage)
            _announce(progress, whole.findings[len(stage.found) :])
            if asked.remedies and subject.opened is not None:
                for tried in whole.with_remedies(budget, _part(progress, _REMEDIES, 1 - _REMEDIES)):
                    whole = tried
        except KeyboardInterrupt:
            missing = ["remedies"] if whole else [*(channel.name for channel in waiting), "the rest of the audit"]
            rest = Stage(untried=tuple(NotRun(name, _STOPPED, _AGAIN) for name in missing))
            so_far = whole + rest if whole else judged(subject, stage + rest)
            raise Interrupted(_result(subject, so_far, began)) from None
        return _result(subject, whole, began), list(_released(subject))


def _released(subject: Look) -> Iterator[Released]:
    """What a subject releases, to compare with what others release."""
    contents, name, determined = subject.contents, subject.contents.name, subject.determined.get
    if (fit := subject.fit) is not None and fit.release is not None:
        yield _of_release(fit.release, name, determined(fit.place), fit.n, fit.alternatives)
    fits = () if contents.saved is None else contents.saved.fits
    for saved in fits:
        if saved.release is not None:
            where = f"{name}: {saved.where}" if len(fits) > 1 else name
            yield _of_release(saved.release, where, determined(saved.where))
    if contents.estimates:
        from bayesrecon.auditing.fit_findings import releases_of_estimates

        for where, release in releases_of_estimates(contents):
            of = name if len(contents.estimates) == 1 else f"{name}: {where}"
            yield _of_release(release, of, determined(where))
    if subject.opened is not None and subject.asked.several:
        from bayesrecon.attacks.differences.solved import gram_of_problem
        from bayesrecon.auditing.cumulative import errors_of_measure, of_draws

        outcome, of = subject.opened.outcome, subject.opened.release
        problem, recovery = (None, None) if isinstance(outcome, Exception) else outcome
        determined = None if recovery is None else of_draws(recovery, of, contents.draws)
        gram = None if problem is None or recovery is None else gram_of_problem(name, problem, recovery.failures)
        if gram is not None and determined is not None:
            gram = gram.noisier(errors_of_measure(determined)).counted(subject.asked.knows.get("total"))
        domains = {} if problem is None else {f: field.domain for f, field in problem.knowledge.fields.items()}
        yield Released(name, None, grams=() if gram is None else (gram,), domains=domains, determined=determined)


def _of_release(
    release: "Release", name: str, determined: Determined | None, n: float | None = None, alternatives: Any = None
) -> Released:
    from bayesrecon.auditing.fit_findings import alternatives_of

    ways = alternatives_of(release) if alternatives is None else alternatives
    return Released(name, release, n, ways, determined=determined)


def _result(subject: Look, stage: Stage, began: float) -> Audit:
    asked, contents, model, findings = subject.asked, subject.contents, subject.model, stage.findings
    if subject.private is not None and model is not None:
        from bayesrecon.auditing.scoring import scored

        unit = None if subject.fit is not None else asked.unit
        findings = tuple(scored(f, subject.private, model, asked.known, unit) for f in findings)
    findings = in_words_of_the_file(findings, contents)
    if subject.private is not None:
        findings = hidden(findings, subject.private)
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


def _part(progress: Progress | None, begin: float, width: float, label: str = "") -> Progress | None:
    """Progress of a part of an audit, as progress of the whole one, with a label before its own. It never goes back."""
    if progress is None:
        return None
    least = 0.0

    def told(words: str, fraction: float) -> None:
        nonlocal least
        least = max(least, min(fraction, 1.0))
        progress(": ".join(filter(None, (label, words))), begin + width * least)

    if (found := getattr(progress, "found", None)) is not None:
        told.found = found  # type: ignore[attr-defined]
    return told


# What is audited: files, fits, tables, folders and archives, each as the subjects that it gives.


@contextmanager
def _sources(of: object, model: object, name: str | None, how: Json) -> Generator[list[_Source]]:
    """The sources of what `audit` is given. Archives are unpacked for the duration of the block.

    Args:
        of, model, name: as in `audit`.
        how: how tables are to be read, as keywords of `posteriors.from_table`.

    Raises:
        BayesreconError: there is nothing to audit.
    """
    with ExitStack() as stack:
        yield _listed(stack, of, model, name, how)


def _listed(stack: ExitStack, of: object, model: object, name: str | None, how: Json) -> list[_Source]:
    columns: Any = how.get("column")
    if isinstance(columns, list | tuple) and not isinstance(of, list | tuple):
        of, how = _for_each_model(of, how, columns)
    listed: Any = of
    if isinstance(of, list | tuple) and len(listed) > 1 and not _are_chains(listed):
        return _several(stack, listed, model, how)
    if not is_path(of):
        return [_Source(name or "", partial(_one, of, model, name, how))]
    path = os.fspath(of)
    if is_acro(path):
        return _of_acro(path, how)
    folder, archive = stack.enter_context(unpacked(path))
    if archive is None and not is_folder(path):
        return [_Source(name or "", partial(_one, of, model, name, how))]
    whole = [] if archive is None else [_Source(archive.name, partial(_contents, archive))]
    root = Path(path) if archive is None else folder
    files = files_of(root)
    if not files and not whole:
        raise BayesreconError(f"{root} is an empty folder; name a file")
    return [*whole, *(_member(path, path.relative_to(root).as_posix(), model, how) for path in files)]


def _are_chains(listed: Sequence[object]) -> bool:
    """Whether these are files of CmdStan, one for each chain of a fit, and not several sources."""
    return all(is_path(one) and suffix_of(one).startswith(".csv") and not _is_one_source(one) for one in listed)


def _is_one_source(of: object) -> bool:
    return is_table(of) or is_cmdstan_approximation(of)


def _model_for(of: object, model: object) -> object:
    """The model of one of several sources: the name of a regression is that of the tables among them."""
    from bayesrecon.models.estimators import ESTIMATORS

    return None if isinstance(model, str) and model in ESTIMATORS and not is_table(of) else model


def _for_each_model(of: object, how: Json, columns: Sequence[str]) -> tuple[object, Json]:
    """The table once for each named model, in a list. A single name is left to the reader of the table."""
    if how.get("correlations") is not None:
        raise BayesreconError("several columns (column=) need one table, and no correlations=")
    if len(columns) > 1:
        return [of] * len(columns), {**how, "column": list(columns)}
    return of, {**how, "column": columns[0] if columns else None}


def _member(path: Path, name: str, model: object, how: Json) -> _Source:
    """A file of a folder. What cannot be read counts as not examined."""

    def refused(message: str) -> Look:
        remedy = f"drop {name}, or convert it to a format that is read"
        untried = NotRun(READING, message.replace(str(path), name), remedy, (name,))
        return Look(Contents(name, "not read"), without_items=True, begun=Stage(untried=(untried,)))

    return _Source(name, partial(_one, path, _model_for(path, model), name, how if is_table(path) else {}), refused)


def _contents(contents: Contents, asked: Asked, progress: Progress | None) -> Look:
    return _look(contents, None, asked, without_items=True, begun=Stage(untried=_unread_parts(contents)))


def _one(of: Any, model: object, name: str | None, how: Json, asked: Asked, progress: Progress | None) -> Look:
    """The subject of a single source."""
    if is_table(of):
        fit, contents, used = _table(of, model, how)
        return _of_table(fit, replace(contents, name=name or contents.name), used, asked)
    if how:
        raise BayesreconError(f"{next(iter(how))}= belongs to a table of estimates with standard errors")
    if (look := _of_fit(of, model, name, asked)) is not None:
        return look
    return _of_file(of, model, name, asked, progress)


def _look(contents: Contents, model: "Model | None", asked: Asked, **more: Any) -> Look:
    private = read_private(asked.data, model)
    compare = named(private, contents)
    return Look(contents, model, compare, asked.key, asked=asked, private=private, **more)


def _of_file(of: object, model: object, name: str | None, asked: Asked, progress: Progress | None) -> Look:
    from bayesrecon.auditing.input import contents_and_model

    contents, used, missing = contents_and_model(of, model, name, progress, asked.rows)
    told = list(asked.knows)
    if used is None and told and contents.saved is None and not contents.estimates:
        keywords = ", ".join(f"{name}=" for name in told)
        raise BayesreconError(f"{keywords} describes a model's records; pass the model= behind {contents.name}")
    if contents.saved is not None and used is not None and contents.draws is None and not contents.undecided:
        if not asked.several:
            raise BayesreconError(f"{contents.name} is a saved object, which has its own model; omit model=")
        used = None  # it is the model of others
    begun = Stage((), (missing,) if missing else (), _unread_parts(contents))
    try:
        look = _look(contents, used, asked, begun=begun)
    except BayesreconError:
        if model is not None or contents.program is None:
            raise
        # A program in the file may have other names for the columns.
        look = replace(_look(contents, None, asked, begun=begun), model=used)
    if used is None or contents.draws is None:
        return look
    from bayesrecon.auditing.opened import opened

    return replace(look, opened=opened(contents, used, asked.knows, asked.thresholds, asked.key))  # type: ignore[arg-type]


def _unread_parts(contents: Contents) -> tuple[NotRun, ...]:
    return tuple(NotRun(READING, u.reason, f"drop {u.where}", (u.where,)) for u in contents.unread)


def _of_fit(of: Any, model: object, name: str | None, asked: Asked) -> Look | None:
    """The subject of a fit, or of a file of CmdStan that holds a distribution; None for others."""
    file = None
    if is_path(of) or isinstance(of, Contents | list | tuple | dict):
        if model is None or not is_cmdstan_approximation(of):
            return None
        file = read_leaves(of)
    from bayesrecon.posteriors.conversion import is_fit, release_of
    from bayesrecon.releases import OneAtom

    of = getattr(of, "release", of)  # of a `Trained`
    if file is None and not isinstance(of, OneAtom) and not is_fit(of):
        return None
    _refuse_for_fits(asked)
    release = release_of(of, model)
    contents = replace(file or Contents("", ""), name=name or release.name, format="fit")
    return _look(contents, release.about, asked, fit=Fit(release))


def _refuse_for_fits(asked: Asked) -> None:
    if asked.knows.get("unit") is not None:
        raise BayesreconError("unit= is not used in the audit of a fit; recover(release, unit=...) takes it")
    if asked.public:
        raise BayesreconError("public= is not used in the audit of a fit: it names what may stay in a file of draws")


def _of_table(fit: Fit, contents: Contents, model: "Model | None", asked: Asked, progress: Any = None) -> Look:
    """The subject of a table of estimates that was read."""
    _refuse_for_fits(asked)
    return _look(contents, model, asked, fit=fit)


def _table(of: Any, model: object, how: Mapping[str, Any]) -> "tuple[Fit, Contents, Model | None]":
    from bayesrecon.auditing.table_remedies import table_to_audit
    from bayesrecon.model import Model
    from bayesrecon.models.estimators import ESTIMATORS

    if not isinstance(model, str | Model):
        raise BayesreconError(f"a table of estimates needs its model= {', '.join(ESTIMATORS)}, or your own")
    return table_to_audit(of, model, **how)


def _several(stack: ExitStack, of: Sequence[Any], model: object, how: Json) -> list[_Source]:
    """The subjects of several sources.

    `correlations` has an entry for each, which may be None. `column` is one name for all tables or one for each.

    Raises:
        BayesreconError: there is no model for tables, or the numbers of correlations and of sources differ.
    """
    tables = [is_table(one) for one in of]
    if model is None and any(tables):
        raise BayesreconError("tables of estimates need their model=")
    given: dict[str, list[Any]] = {}
    for option in ("correlations", "column"):
        value = how.get(option)
        given[option] = [value] * len(of) if value is None or isinstance(value, str) else list(value)
    if (count := len(given["correlations"])) != len(of):
        raise BayesreconError(f"{count} correlations= for {len(of)} tables; give one for each, None for none")
    listed: list[_Source] = []
    for i, (one, table, correlations, column) in enumerate(zip(of, tables, *given.values(), strict=True), 1):
        stated = {k: v for k, v in {**how, "correlations": correlations, "column": column}.items() if v is not None}
        if not table:
            name = None if not is_path(one) else Path(one).name
            listed += _listed(stack, one, _model_for(one, model), name, {} if any(tables) else stated)
            continue
        fit, contents, used = _table(one, model, stated)
        name = contents.name if is_path(one) or column else f"table {i}"  # names must differ
        name = f"{name} (table {i})" if any(name == source.name for source in listed) else name
        listed.append(_Source(name, partial(_one_of_tables, fit, replace(contents, name=name), used)))
    return listed


def _one_of_tables(
    fit: Fit, contents: Contents, model: "Model | None", asked: Asked, progress: Progress | None
) -> Look:
    known = asked if model is None or fit.release is None else replace(asked, knows=of_model(asked.knows, model))
    return _of_table(fit, contents, model, known)


def _of_acro(of: str, how: Json) -> list[_Source]:
    """A subject for each output of a session of ACRO, with ACRO's own verdict beside it."""
    outputs = read_acro(of)
    if not outputs:
        raise BayesreconError(f"{of}: this ACRO session has no outputs")
    files = (stamp(file_of(of)),)
    return [_Source(o.name, partial(_acro, o, files if o is outputs[0] else ()), partial(_unread, o)) for o in outputs]


def _acro(output: AcroOutput, files: tuple[Stamp, ...], asked: Asked, progress: Progress | None) -> Look:
    from bayesrecon.auditing.small_counts import small_counts

    where, begun = (output.name,), Stage(warnings=(_status(output),))
    contents = Contents(output.name, _ACRO, files)
    if isinstance(output.table, list):
        counts = small_counts(_counts(output.table), asked.thresholds, where, "nothing but the file")
        return Look(contents, key=asked.key, asked=asked, without_items=True, begun=replace(begun, found=tuple(counts)))
    if not output.kind:
        raise BayesreconError(f"it is a {output.description}, and outputs of this kind are not read")
    fit, _, used = _table(output.table, output.kind, {"response": output.response})
    return replace(_of_table(replace(fit, where=where), contents, used, asked), begun=begun)


def _status(output: AcroOutput) -> str:
    return f"ACRO: {output.status}" + (f" ({output.checks})" if output.checks else "")


def _unread(output: AcroOutput, message: str) -> Look:
    untried = NotRun("table", message, _AUDIT_TABLE, (output.name,))
    return Look(Contents(output.name, _ACRO), without_items=True, begun=Stage((), (_status(output),), (untried,)))


def _counts(grids: "list[list[list[str]]]") -> "list[Count]":
    """The counts in a table, named by row and column."""
    from bayesrecon.auditing.small_counts import Count

    counts = []
    for grid in grids:
        header, *rows = grid
        for row in rows:
            for name, text in zip(header[1:], row[1:], strict=False):
                if text.removesuffix(".0").isdigit():
                    value = float(text)
                    counts.append(Count(f"{header[0] or 'line'}={row[0]},column={name}", value, value, value, _PRINTED))
    return counts
