"""`bayesrecon verify`: whether a file is the one that a statement is about."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli.command import ENDING, Arguments, command, only
from bayesrecon.errors import BayesreconError, visible

if TYPE_CHECKING:
    from bayesrecon.json_types import Json

_DIFFERENT, _AGAIN = 1, 3  # exit codes
_SENTENCES = {
    "bytes equal": "this is the file that was audited",
    "contents equal": "contents equal, in other bytes: audit it again",
    "different": "this is not the file that was audited",
}


@command(only(ENDING, "json"))
def verify(
    args: Arguments,
    file: Annotated[Path, typer.Argument(help="The file that was received.")],
    statement: Annotated[Path, typer.Argument(help="Its statement, by `audit --statement`.")],
    key: Annotated[
        Path | None,
        typer.Option(help="Public key of the signer: check STATEMENT.sig, by `ssh-keygen -Y sign -n file`."),
    ] = None,
) -> None:
    """Compare a file with the statement of its audit.

    Exit codes: 0 this is the file; 1 it is another one, or the signature is not by this key; 2 bad input; 3 its arrays
    are those of the file and its bytes are not.
    """
    for path in (file, statement, key):
        if path is not None and not path.exists():
            raise BayesreconError(f"{path}: no such file")

    from bayesrecon.auditing.statement import is_signed, read_statement, verified
    from bayesrecon.cli import console

    made = read_statement(statement)
    if key is not None and not is_signed(statement, key):
        console.say(f"{statement}: it is not signed by {key}: {statement.name}.sig is missing or another signature")
        raise typer.Exit(_DIFFERENT)
    compared, stated = verified(file, made), made["predicate"]
    signer = (
        f"signed by {key}" if key is not None else "the signature was not checked (--key): anybody may have written it"
    )
    if args.json:
        console.emit_json({"compared": compared, "signature_checked": key is not None, "statement": stated})
    else:
        console.out.print(f"{file}: {_SENTENCES[compared]}", highlight=False, markup=False, soft_wrap=True)
        if compared == "bytes equal":
            for line in (*_told(stated), f"the statement: {signer}"):
                console.out.print(line, highlight=False, markup=False, soft_wrap=True)
    if compared != "bytes equal":
        raise typer.Exit(_AGAIN if compared == "contents equal" else _DIFFERENT)


COMMAND = verify


def _told(stated: "Json") -> list[str]:
    """A statement in sentences. It is what another person wrote, so nothing of it reaches the terminal as it is."""
    auditor, counted = (one if isinstance(one, dict) else {} for one in map(stated.get, ("auditor", "findings")))
    missing = stated.get("not_tried")
    found = ", ".join(f"{count} {severity}" for severity, count in counted.items()) or "none"
    not_tried = ", ".join(map(str, missing)) if isinstance(missing, list) else "not stated"
    model = stated.get("model") or "(none was given)"
    lines = [
        f"audited {stated.get('date')} by {auditor.get('name')} {auditor.get('version')}, under the model {model}",
        f"verdict: {stated.get('verdict')}; findings: {found}",
        f"not tried: {not_tried or 'nothing'}",
    ]
    return [visible(line) for line in lines]
