"""`bayesrecon ledger`: what was published, to judge later releases by."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli.audits import ledger_apart
from bayesrecon.cli.command import ENDING, KNOWS, MODEL, Arguments, command, only
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bayesrecon.json_types import Json

_ACTIONS = ("add", "list", "withdraw")


@command(MODEL, KNOWS, only(ENDING, "json", "seed"))
def ledger(
    args: Arguments,
    action: Annotated[str, typer.Argument(help="add, list or withdraw.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(help="add: files as they were published, or folders of them; withdraw: the number of an entry."),
    ] = None,
    account: Annotated[str | None, typer.Option(help="People who are in no other account.")] = None,
    part: Annotated[
        str | None, typer.Option(help="People of the account who are in none of its other parts, e.g. 2026-01.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger, with its key beside it; also of sanitise.")] = None,
) -> None:
    """Keep a record of what was published. `audit --ledger` judges a new file by it.

    add enters files, all of them or none: their hashes, and the totals of the private data that they determine. What
    sanitise wrote is there already. list shows the entries, and the worth and epsilon that were spent. withdraw marks
    an entry; it stays, because it is known.

    The ledger is as confidential as the data: the totals of two releases may be a person.
    """
    if action not in _ACTIONS:
        raise BayesreconError(f"ledger {action}: expected {', '.join(_ACTIONS)}")
    if bool(what) == (action == "list"):
        raise BayesreconError(
            "ledger list takes no file" if action == "list" else f"ledger {action}: name what to {action}"
        )
    paths = _files(what or ()) if action == "add" else []

    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.disclosure.sanitising.ledger import EVERYBODY, Whose, opened_ledger

    whose = Whose(EVERYBODY if account is None else account, part)
    book = ledger_apart(ledger, *paths)
    with opened_ledger(book, only_read=True):
        pass  # a damaged one is refused before anything is computed
    added = [_entry(args, path, alone=len(paths) == 1) for path in paths]
    with opened_ledger(book, only_read=action == "list") as open_book:
        for name, (entry, new) in zip(paths, open_book.publish(whose, added) if added else (), strict=True):
            found, count = "entered as" if new else "is there already,", _statistics(entry)
            told = f"{entry['kind']}: it determines {count or 'no'} statistic{'s' * (count != 1)}"
            console.say(f"{name} {found} entry {entry['id']} of {whose}, {told}")
        for number in what or () if action == "withdraw" else ():
            open_book.withdraw(whose.account, number)
            console.say(f"entry {number} of account {whose.account} is marked; it stays, because it is known")
        entries, state = open_book.published(whose.account), open_book.state(whose)
    if args.json:
        names = ("id", "date", "name", "kind", "sha256", "arrays", "part", "withdrawn")
        shown = [{k: one.get(k) for k in names} | {"statistics": _statistics(one)} for one in entries]
        console.emit_json({"account": whose.account, "published": shown, "state": state})
        return
    if action == "list":
        head = ["entry", "date", "file", "kind", "part", "statistics", "withdrawn"]
        rows = [
            [one["id"], one["date"][:10], one["name"], one["kind"], one["part"] or "", str(_statistics(one))]
            + [(one["withdrawn"] or "")[:10]]
            for one in entries
        ]
        console.out.print(table(head, rows, title=state[0], words=5, fold=True) if rows else state[0])
        for line in state[1:]:
            console.out.print(line)


COMMAND = ledger


def _statistics(entry: "Json") -> int:
    """How many statistics a published file determines."""
    return sum(row["verdict"] == "determined" for one in entry["released"] for row in one["rows"])


def _files(names: "Sequence[str]") -> list[Path]:
    """The files, and those of folders."""
    from bayesrecon.posteriors.folders import files_of, is_folder

    found: dict[Path, None] = {}
    for path in map(Path, names):
        files = files_of(path) if is_folder(path) else [path] * path.exists()
        if not files:
            raise BayesreconError(f"{path}: name a file that was published, or a folder of such files")
        found.update(dict.fromkeys(files))
    return list(found)


def _entry(args: Arguments, path: Path, alone: bool) -> "Json":
    """The entry of a file, for `Ledger.publish`; an error about one of several files names it."""
    try:
        return _read(args, path)
    except BayesreconError as error:
        raise error if alone else BayesreconError(f"nothing is entered, because of {path.name}: {error}") from error


def _read(args: Arguments, path: Path) -> "Json":
    from bayesrecon.auditing.audit import released_by
    from bayesrecon.auditing.published import entry_of
    from bayesrecon.cli import inputs, option_values
    from bayesrecon.cli.estimate_tables import is_table

    how: Json = {}
    if is_table(str(path)):
        stated: Json = {**inputs.table_of(str(path), args.model, args.settings), "formula": args.formula}
        for option in ("correlations", "column"):
            first, *more = getattr(args, option) or (None,)
            if more:
                raise BayesreconError(f"ledger add takes one --{option}")
            stated[option] = first
        model, how = stated.pop("model"), {k: v for k, v in stated.items() if v is not None}
        knows = inputs.knowledge_of(args, None)
    else:
        settings = inputs.with_constants(option_values.parse_settings(args.settings), args.constants, args.model)
        model = None if args.model is None else inputs.load_model(args.model, settings, [str(path)])
        if model is not None and args.power is not None:
            model = inputs.at_power(model, args.power)
        knows = inputs.knowledge_of(args, model)
    return entry_of(path, *released_by(str(path), model, key=args.seed, **how, **knows), model, knows, how, args.seed)
