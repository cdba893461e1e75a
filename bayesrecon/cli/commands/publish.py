"""`bayesrecon publish`: from a fit to a file that may be published, a report, and a paragraph for the paper."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayesrecon.cli import options
from bayesrecon.cli.audits import ledger_apart, public_names, write_published
from bayesrecon.cli.command import ENDING, KNOWS, RELEASE, Arguments, command, only
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole

if TYPE_CHECKING:
    import numpy as np

    from bayesrecon.auditing.fix import Copy
    from bayesrecon.disclosure.sanitising.sanitise import Spends
    from bayesrecon.json_types import Json
    from bayesrecon.knowledge import Knows
    from bayesrecon.model import Model
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.sanitised import Guaranteed, Sanitised

_FILE, _REPORT, _PARAGRAPH = "posterior.nc", "confidential_report.html", "data_availability.txt"
_STATEMENT = "statement.json"
_REFUSED = 1  # exit code, as of `audit --fail-on`


@command(only(RELEASE, "release", "model", "settings", "constants", "power"), KNOWS, only(ENDING, "seed"))
def publish(
    args: Arguments,
    folder: Annotated[
        Path, typer.Option("--out", "-o", help="A new folder for the file, the report and the paragraph.")
    ],
    data: Annotated[
        str | None, typer.Option(help="The private data (.csv, .json, .npz): copies of them are looked for.")
    ] = None,
    accept: Annotated[
        str, typer.Option(help="Most severe finding that the published file may have: low, medium or high.")
    ] = "low",
    public: Annotated[
        list[str] | None, typer.Option(help="Name or place of an item that may stay, with wildcards. Repeatable.")
    ] = None,
    worth: Annotated[
        float | None,
        typer.Option(help="If the draws have to be altered: their worth; by default the least that is supported."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Publish draws with differential privacy instead, as sanitise; needs --data and --domain."),
    ] = None,
    delta: options.Delta = None,
    replace: options.Replace = False,
    budget: Annotated[
        float | None, typer.Option(help="As of sanitise: largest total worth, or epsilon, of the account.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="As of sanitise: the data are about other people.")] = None,
    part: Annotated[str | None, typer.Option(help="As of sanitise: people who are in no other part.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="As of sanitise: file of what was released.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; spend and write nothing.")
    ] = False,
) -> None:
    """Make a file of draws that may be published, and say in a paragraph what was done to it.

    The fit is audited with its model. Everything but the model's parameters is left out, and the copy is audited like
    any other file. If the draws themselves say too much, they are altered (`bayesrecon sanitise`), and these are
    audited. With --epsilon the file has draws of a posterior that knows its noise instead. A file is written only if
    its own audit is complete and has no finding above --accept.

    Exit codes: 0 written; 1 refused, nothing is written or spent; 2 bad input.
    """
    levels = ("low", "medium", "high")
    if accept not in levels:
        raise BayesreconError(f"--accept {accept}: expected low, medium or high")
    if args.model is None and not args.release[0].endswith(".nc"):
        raise BayesreconError("publish needs the model behind the draws: name it with --model")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BayesreconError(f"--out {folder}: it exists; name a new folder")
    if epsilon is not None and (data is None or delta is None or worth is not None):
        raise BayesreconError("--epsilon needs --delta, --domain and --data, and does without --worth")
    book = ledger_apart(ledger, folder / _FILE)

    from bayesrecon.auditing.audit import audit
    from bayesrecon.auditing.fix import audited_copy, clean, named_to_keep
    from bayesrecon.cli import console, inputs, option_values
    from bayesrecon.posteriors.leaves import read_leaves

    settings = inputs.with_constants(option_values.parse_settings(args.settings), args.constants, args.model)
    chosen = inputs.load_model(args.model, settings, args.release) if args.model else None
    chosen = chosen if chosen is None or args.power is None else inputs.at_power(chosen, args.power)
    knows = inputs.knowledge_of(args, chosen)
    source: Any = args.release[0] if len(args.release) == 1 else args.release
    allowed = public_names(public or ())
    with args.working() as how:
        contents = read_leaves(source, progress=how["progress"])
        run = partial(audit, data=data, remedies=False, public=allowed, key=how["key"], progress=how["progress"])
        original = run(contents, chosen, **knows)
        model = chosen or original.used
        if model is None:
            raise BayesreconError("publish needs the model behind the draws: name it with --model")
        console.say(f"the fit: {original.headline}")
        kept = clean(contents, original, named_to_keep(contents, model, allowed))
        audit_copy: Callable[..., Audit] = partial(run, model=model)
        content, judged = audited_copy(kept, Path(_FILE), partial(audit_copy, **knows))
        paragraph = _of_copy(judged)
        console.say(f"the cleaned copy: {judged.headline}")
        reason, counted = _objection(judged, accept), not any((ledger, account, part))
        if epsilon is not None or (reason is not None and judged.verdict != "incomplete"):
            spends: Spends = {"budget": budget, "account": account, "part": part, "ledger": book, "dry_run": dry_run}
            if epsilon is not None:
                domain = option_values.parse_domains(args.domain or ())
                spends |= {"epsilon": epsilon, "delta": delta, "domain": domain, "replace": replace}
            audit_altered = audit_copy if epsilon is not None else partial(audit_copy, **knows)
            altered = _altered(kept, model, data, worth, spends, audit_altered, accept)
            reason = altered if isinstance(altered, str) else None
            counted = True
            if not isinstance(altered, str):
                (content, judged), sanitised = altered
                console.say(f"the altered draws: {judged.headline}")
                paragraph = f"{sanitised.sentence} {_of_copy(judged, guaranteed=epsilon is not None)}"
    if reason is not None:
        console.say(f"refused, and nothing was spent: {reason}")
        raise typer.Exit(_REFUSED)
    if dry_run:
        console.say(f"a trial: {folder} would hold {_FILE}, {_REPORT}, {_PARAGRAPH} and {_STATEMENT}")
        return
    if not counted:  # the draws as they are, in a ledger that was named
        from bayesrecon.disclosure.sanitising.ledger import EVERYBODY, Whose, opened_ledger

        with opened_ledger(book) as open_book:
            whose = Whose(EVERYBODY if account is None else account, part)
            open_book.publish(whose, [_entry(content, model, knows)])
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / _FILE, lambda temporary: temporary.write_bytes(content))
    original.with_fixed(judged).save_report(folder / _REPORT)
    write_whole(folder / _PARAGRAPH, lambda temporary: temporary.write_text(paragraph + "\n", encoding="utf-8"))
    placed = dataclasses.replace(judged, files=tuple({**f, "path": str(folder / _FILE)} for f in judged.files))
    write_published("statement", placed, folder / _STATEMENT)
    for name in (_FILE, _REPORT, _PARAGRAPH, _STATEMENT):
        console.wrote(folder / name)
    console.say(f"{_REPORT} is about the private data: do not publish it")
    console.say(paragraph)


COMMAND = publish


def _objection(judged: "Audit", accept: str) -> str | None:
    """Why a copy may not be published: its audit is incomplete, or has a finding above the accepted severity."""
    if judged.verdict == "incomplete":
        missing = "; ".join(f"{n.attack}: {n.reason}" for n in judged.not_run) or "items are not recognised"
        return f"its audit is incomplete ({missing})"
    above = {"low": "medium", "medium": "high"}.get(accept)
    if above is None or not judged.fails(above):
        return None
    titles = [f.title for f in judged.findings if f.severity == judged.severity]
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"it still says too much ({judged.severity}: {titles[0]}{more})"


def _altered(
    draws: "dict[str, np.ndarray]",
    model: "Model",
    data: str | None,
    worth: float | None,
    spends: "Spends",
    audit_copy: "Callable[[Path], Audit]",
    accept: str,
) -> "tuple[Copy, Sanitised | Guaranteed] | str":
    """The altered draws, or those with a guarantee, as a file with its audit, or why they are refused. Refused ones
    spend nothing."""
    from bayesrecon.auditing.fix import audited_copy
    from bayesrecon.disclosure.sanitising.sanitise import sanitise
    from bayesrecon.disclosure.sanitising.supported import UnsupportedWorthError
    from bayesrecon.posteriors.named_draws import named_draws

    copies: list[Copy] = []

    def judge(result: "Sanitised | Guaranteed") -> "Json":
        copies.append(audited_copy(named_draws(result.release).values, Path(_FILE), audit_copy, result.attributes))
        if (reason := _objection(copies[-1][1], accept)) is not None:
            raise _TooMuchError(f"of the altered draws {reason}; publish a table of what readers need, and audit that")
        return _entry(copies[-1][0], model, {})

    source = None if "epsilon" in spends else draws
    run: Any = partial(cast(Any, sanitise), source, model=model, data=data, accept=judge, **cast(Any, spends))
    try:
        try:
            result = run(worth=worth)
        except UnsupportedWorthError as error:
            if worth is not None or error.least is None:
                raise
            result = run(worth=error.least)
    except _TooMuchError as error:
        return str(error)
    return copies[-1], result


def _entry(content: bytes, model: "Model", knows: "Knows") -> "Json":
    """The entry of the file in the ledger."""
    from bayesrecon.auditing.audit import released_by
    from bayesrecon.auditing.fix import as_file
    from bayesrecon.auditing.published import entry_of

    with as_file(content, _FILE) as copy:
        return entry_of(copy, *released_by(str(copy), model, **knows), model, knows)


class _TooMuchError(BayesreconError):
    """The audit of altered draws has a finding above the accepted severity."""


def _of_copy(judged: "Audit", *, guaranteed: bool = False) -> str:
    """The audit in a sentence for the paper, which names no value."""
    from bayesrecon._version import __version__

    found = {"high": "findings of high severity", "medium": "findings of medium severity"}.get(
        judged.severity, "no finding above low severity"
    )
    told = (
        f"Before publication the file was audited with bayesrecon {__version__} under the model {judged.model}: "
        f"{found} in {judged.draws} draws."
    )
    if guaranteed:
        return told
    return f"{told} The draws are not anonymous: totals of all people can be recovered from them."
