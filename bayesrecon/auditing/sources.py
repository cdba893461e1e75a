"""What is audited: files, fits, tables, folders and archives, each as the subjects that it gives."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesrecon.arrays import Progress
from bayesrecon.auditing.assembly import READING, named
from bayesrecon.auditing.folders import files_of, is_folder, unpacked
from bayesrecon.auditing.look import Asked, Fit, Look
from bayesrecon.auditing.private_data import read_private
from bayesrecon.auditing.stage import Stage
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.knowledge import of_model
from bayesrecon.posteriors.contents import Contents, Stamp, stamp
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.printed.acro import AcroOutput, file_of, is_acro, read_acro
from bayesrecon.posteriors.recognition import is_cmdstan_approximation, is_path, is_table
from bayesrecon.results.findings import NotRun

if TYPE_CHECKING:
    from bayesrecon.auditing.small_counts import Count
    from bayesrecon.auditing.table_remedies import TableOptions
    from bayesrecon.model import Model
    from bayesrecon.releases import Release

_ACRO = "output of ACRO"
_PRINTED = "directly, printed in the table"
_READ = "audit its table by itself, with its model"


@dataclass(frozen=True, eq=False)
class Source:
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


@contextmanager
def sources(of: object, model: object, name: str | None, how: Json) -> Generator[list[Source]]:
    """The sources of what `audit` is given. Archives are unpacked for the duration of the block.

    Args:
        of, model, name: as in `audit`.
        how: how tables are to be read, as keywords of `posteriors.from_table`.

    Raises:
        BayesreconError: there is nothing to audit.
    """
    if is_path(of) and is_acro(of):
        yield _of_acro(os.fspath(of), how)
        return
    with unpacked(of) if is_path(of) else nullcontext((Path(), None)) as (folder, archive):
        if archive is None and not (is_path(of) and is_folder(of)):
            columns = how.get("column")
            if isinstance(columns, list | tuple) and not isinstance(of, list | tuple):
                of, how = _for_each_model(of, how, columns)
            many = isinstance(of, list | tuple) and len(of) > 1 and all(map(is_table, of))
            yield _several_tables(of, model, how) if many else [Source(name or "", partial(_one, of, model, name, how))]
            return
        whole = [] if archive is None else [Source(archive.name, partial(_contents, archive))]
        root = Path(os.fspath(of)) if archive is None and is_path(of) else folder
        files = files_of(root)
        if not files and not whole:
            raise BayesreconError(f"{root} is an empty folder; name a file")
        yield [*whole, *(_member(path, path.relative_to(root).as_posix(), model) for path in files)]


def _for_each_model(of: object, how: Json, columns: Sequence[str]) -> tuple[object, Json]:
    """The table once for each named model, in a list. A single name is left to the reader of the table."""
    if how.get("correlations") is not None:
        raise BayesreconError("several columns (column=) need one table, and no correlations=")
    if len(columns) > 1:
        return [of] * len(columns), {**how, "column": list(columns)}
    return of, {**how, "column": columns[0] if columns else None}


def _member(path: Path, name: str, model: object) -> Source:
    """A file of a folder. What cannot be read counts as not examined."""

    def refused(message: str) -> Look:
        remedy = f"drop {name}, or convert it to a format that is read"
        untried = NotRun(READING, message.replace(str(path), name), remedy, (name,))
        return Look(Contents(name, "not read"), begun=Stage(untried=(untried,)))

    return Source(name, partial(_one, path, model, name, {}), refused)


def _contents(contents: Contents, asked: Asked, progress: Progress | None) -> Look:
    return _look(contents, None, asked)


def _one(of: Any, model: object, name: str | None, how: Json, asked: Asked, progress: Progress | None) -> Look:
    """The subject of a single source."""
    if is_table(of):
        release, about = _table(of, model, how)
        return _of_table(release, about, name or str(about["name"]), asked)
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

    contents, used, missing = contents_and_model(of, model, name, progress)
    told = [k for k in asked.knows if k != "known"]
    if used is None and told and contents.saved is None and not contents.estimates:
        keywords = ", ".join(f"{name}=" for name in told)
        raise BayesreconError(f"{keywords} describes a model's records; pass the model= behind {contents.name}")
    if contents.saved is not None and used is not None:
        raise BayesreconError(f"{contents.name} is a saved object, which has its own model; omit model=")
    unread = tuple(NotRun(READING, u.reason, f"drop {u.where}", (u.where,)) for u in contents.unread)
    begun = Stage((), (missing,) if missing else (), unread)
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

    return replace(look, drawn=opened(contents, used, asked.knows, asked.thresholds, asked.key))  # type: ignore[arg-type]


def _of_fit(of: Any, model: object, name: str | None, asked: Asked) -> Look | None:
    """The subject of a fit, or of a file of CmdStan that holds a distribution; None for others."""
    file = None
    if is_path(of) or isinstance(of, Contents | list | tuple | dict):
        if model is None or not is_cmdstan_approximation(of):
            return None
        file = read_contents(of)
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


def _of_table(
    release: "Release | None", about: "TableOptions", name: str, asked: Asked, progress: Progress | None = None
) -> Look:
    """The subject of a table of estimates that was read."""
    _refuse_for_fits(asked)
    used = about.get("used") if release is None else release.about
    files = tuple(Stamp(**file) for file in about.get("files", ()))
    fit = Fit(release, about.get("attack", "table"), about.get("alternatives"), about.get("untried", ()))
    return _look(Contents(name, about.get("form", "table of estimates"), files), used, asked, fit=fit)


def _table(of: Any, model: object, how: Mapping[str, Any]) -> "tuple[Release | None, TableOptions]":
    from bayesrecon.auditing.table_remedies import table_to_audit
    from bayesrecon.model import Model
    from bayesrecon.models.estimators import ESTIMATORS

    if not isinstance(model, str | Model):
        raise BayesreconError(f"a table of estimates needs its model= {', '.join(ESTIMATORS)}, or your own")
    return table_to_audit(of, model, **how)


def _several_tables(of: Sequence[Any], model: object, how: Json) -> list[Source]:
    """A subject for each table, and one for all of them together.

    `correlations` has an entry for each table, which may be None. `column` is one name for all tables or one for each.

    Raises:
        BayesreconError: there is no model, or the numbers of correlations and of tables differ.
    """
    from bayesrecon.auditing.several_tables import Table, records_of

    if model is None:
        raise BayesreconError("tables of estimates need their model=")
    given: dict[str, list[Any]] = {}
    for option in ("correlations", "column"):
        value = how.get(option)
        given[option] = [value] * len(of) if value is None or isinstance(value, str) else list(value)
    if (count := len(given["correlations"])) != len(of):
        raise BayesreconError(f"{count} correlations= for {len(of)} tables; give one for each, None for none")
    listed: list[Source] = []
    tables: list[Table] = []
    for i, (table, correlations, column) in enumerate(zip(of, *given.values(), strict=True), 1):
        stated = {k: v for k, v in {**how, "correlations": correlations, "column": column}.items() if v is not None}
        release, about = _table(table, model, stated)
        name = str(about["name"]) if is_path(table) or column else f"table {i}"  # names must differ
        name = f"{name} (table {i})" if any(name == source.name for source in listed) else name

        listed.append(Source(name, partial(_one_of_tables, release, about, name)))
        if release is not None:
            alternatives = dict(about.get("alternatives", ()))
            tables.append(Table(replace(release, name=name), records_of(table, column), alternatives))
    together = Source("", lambda asked, progress: Look(Contents("", ""), key=asked.key, asked=asked, tables=tables))
    return [*listed, together]


def _one_of_tables(
    release: "Release | None", about: "TableOptions", name: str, asked: Asked, progress: Progress | None
) -> Look:
    known = asked if release is None else replace(asked, knows=of_model(asked.knows, release.about))
    return _of_table(release, about, name, known)


def _of_acro(of: str, how: Json) -> list[Source]:
    """A subject for each output of a session of ACRO, with ACRO's own verdict beside it."""
    outputs = read_acro(of)
    if not outputs:
        raise BayesreconError(f"{of}: this ACRO session has no outputs")
    files = (stamp(file_of(of)),)
    return [Source(o.name, partial(_acro, o, files if o is outputs[0] else ()), partial(_unread, o)) for o in outputs]


def _acro(output: AcroOutput, files: tuple[Stamp, ...], asked: Asked, progress: Progress | None) -> Look:
    from bayesrecon.auditing.small_counts import small_counts

    where, begun = (output.name,), Stage(warnings=(_status(output),))
    contents = Contents(output.name, _ACRO, files)
    if isinstance(output.table, list):
        counts = small_counts(_counts(output.table), asked.thresholds.small_count, where, "nothing but the file")
        return Look(contents, key=asked.key, asked=asked, begun=replace(begun, found=tuple(counts)))
    if not output.kind:
        raise BayesreconError(f"it is a {output.description}, and outputs of this kind are not read")
    release, about = _table(output.table, output.kind, {"response": output.response})
    look = _of_table(release, about, output.name, asked)
    assert look.fit is not None
    return replace(look, contents=contents, begun=begun, fit=replace(look.fit, where=where))


def _status(output: AcroOutput) -> str:
    return f"ACRO: {output.status}" + (f" ({output.checks})" if output.checks else "")


def _unread(output: AcroOutput, message: str) -> Look:
    untried = NotRun("table", message, _READ, (output.name,))
    return Look(Contents(output.name, _ACRO), begun=Stage((), (_status(output),), (untried,)))


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
