"""`bayesrecon ledger`: what was published, to judge later releases by."""

from pathlib import Path
from typing import Annotated

import typer

from bayesrecon.cli.audits import ledger_apart
from bayesrecon.cli.command import ENDING, KNOWS, MODEL, Arguments, command, only
from bayesrecon.errors import BayesreconError

_ACTIONS = ("add", "list", "withdraw")


@command(MODEL, KNOWS, only(ENDING, "json"))
def ledger(
    args: Arguments,
    action: Annotated[str, typer.Argument(help="add, list or withdraw.")],
    what: Annotated[
        str | None, typer.Argument(help="add: the file as it was published; withdraw: the number of its entry.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="People who are in no other account.")] = None,
    part: Annotated[
        str | None, typer.Option(help="People of the account who are in none of its other parts, e.g. 2026-01.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger, with its key beside it; also of sanitise.")] = None,
) -> None:
    """Keep a record of what was published. `audit --ledger` judges a new file by it.

    add enters a file: its hash, and the totals of the private data that it determines. list shows the entries, and the
    worth and epsilon that were spent. withdraw marks an entry; it stays, because it is known.

    The ledger is as confidential as the data: the totals of two releases may be a person.
    """
    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.disclosure.sanitising.ledger import EVERYBODY, Whose, opened_ledger

    if action not in _ACTIONS:
        raise BayesreconError(f"ledger {action}: expected {', '.join(_ACTIONS)}")
    if (what is None) != (action == "list"):
        raise BayesreconError(
            "ledger list takes no file" if action == "list" else f"ledger {action}: name what to {action}"
        )
    whose = Whose(EVERYBODY if account is None else account, part)
    book = ledger_apart(ledger, Path(what) if action == "add" and what is not None else None)
    entry = None
    if action == "add":
        entry = _entry(args, Path(str(what)))
    with opened_ledger(book, only_read=action == "list") as open_book:
        if entry is not None:
            number, new = open_book.publish(whose, entry)
            found = f"entry {number} of {whose}" if new else f"it is entry {number} of {whose} already"
            console.say(found if entry["totals"] else f"{found}; it determines no totals that could be subtracted")
        elif action == "withdraw":
            open_book.withdraw(whose.account, str(what))
            console.say(f"entry {what} of account {whose.account} is marked; it stays, because it is known")
        entries, state = open_book.published(whose.account), open_book.state(whose)
    if args.json:
        shown = [{k: v for k, v in one.items() if k != "totals"} | {"totals": len(one["totals"])} for one in entries]
        console.emit_json({"account": whose.account, "published": shown, "state": state})
        return
    if action == "list":
        head = ["entry", "date", "file", "part", "totals", "withdrawn"]
        rows = [
            [
                one["id"],
                one["date"][:10],
                one["name"],
                one["part"] or "",
                str(len(one["totals"])),
                one["withdrawn"] or "",
            ]
            for one in entries
        ]
        console.out.print(table(head, [list(map(str, row)) for row in rows], title=state[0], words=3, fold=True))
        for line in state[1:]:
            console.out.print(line)


COMMAND = ledger


def _entry(args: Arguments, path: Path) -> dict[str, object]:
    from bayesrecon.auditing.audit import released_by
    from bayesrecon.auditing.published import entry_of
    from bayesrecon.cli import inputs
    from bayesrecon.cli.estimate_tables import is_table

    if not path.is_file():
        raise BayesreconError(f"{path}: name the file that was published")
    knows = inputs.knowledge_of(args, None)
    if is_table(str(path)):
        released = released_by(path, **inputs.table_of(str(path), args.model, args.settings), **knows)
    else:
        model = None if args.model is None else inputs.load_model(args.model, None, [str(path)])
        released = released_by(path, model, **knows)
    return entry_of(path, released, knows)
