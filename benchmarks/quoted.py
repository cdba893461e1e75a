"""Numbers that pages quote, filled in from the rows that benchmarks measured.

python benchmarks/quoted.py

A comment behind a number names its row, as the path through the JSON file of a benchmark:

    0.977<!-- deletion > MNIST, softmax > rows > HRec improved > median -->

A key leads into an object, a position into a list; any other word keeps those rows of a list that hold it. `size=10`
asks for a field. `*` takes everything, and `least()`, `most()`, `median()`, `sum()` and `count()` make one number of
many. A
position into a text is that of one of its numbers. A number keeps its decimals, and `%` makes a percentage of it.
"""

import json
import re
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
QUOTED = re.compile(rf"(?P<number>{NUMBER})(?P<percent> ?%)?<!-- (?P<row>(?:(?!-->).)+ > (?:(?!-->).)+) -->")
OF_MANY: dict[str, Callable[[list[Any]], Any]] = {
    "least()": min,
    "most()": max,
    "median()": statistics.median,
    "count()": len,
    "sum()": sum,
}


@cache
def rows_of(program: str) -> Any:
    """What a benchmark kept."""
    return json.loads((HERE / f"{program}.json").read_text())


def value_at(row: str) -> float:
    """The number that a path leads to.

    Raises:
        LookupError: there is none, or more than one.
    """
    program, *path = row.split(" > ")
    found = [rows_of(program)]
    for step in path:
        found = [OF_MANY[step](found)] if step in OF_MANY else [end for one in found for end in _ends(one, step)]
    if len(found) != 1 or isinstance(found[0], bool) or not isinstance(found[0], int | float):
        raise LookupError(f"{row}: {len(found)} rows, {str(found)[:80]}")
    return found[0]


def _ends(one: Any, step: str) -> list[Any]:
    """Where one step leads."""
    if isinstance(one, dict):
        if step in one:
            return [one[step]]
        return list(one.values()) if step == "*" else [one] if _holds(one, step) else []
    if isinstance(one, list) and step == "*":
        return one
    if isinstance(one, list) and not step.isdigit():
        return [row for row in one if _holds(row, step)]
    if isinstance(one, str):
        one = [_number(text, percent) for text, percent in re.findall(rf"({NUMBER})( ?%)?", one)]
    return [one[int(step)]] if isinstance(one, list) and int(step) < len(one) else []


def _holds(row: Any, step: str) -> bool:
    name, equals, wanted = step.partition("=")
    if not isinstance(row, dict):
        return row == step
    return str(row.get(name)) == wanted if equals and name in row else step in map(str, row.values())


def _number(text: str, percent: str) -> float:
    return float(text.replace(",", "")) / (100 if percent else 1)


def written(value: float, like: str, *, percent: bool) -> str:
    """A number with the decimals of another one.

    >>> written(0.97701, "0.970", percent=False), written(0.928, "90", percent=True)
    ('0.977', '93')
    >>> written(3.1e-8, "1e-9", percent=False)
    '3e-8'
    """
    value, (mantissa, power, _) = value * (100 if percent else 1), like.partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not power:
        return f"{value:,.{decimals}f}"
    mantissa, _, power = f"{value:.{decimals}e}".partition("e")
    return f"{mantissa}e{int(power)}"


def filled(text: str) -> str:
    """A page with the numbers of its rows."""

    def one(match: re.Match[str]) -> str:
        percent = match["percent"] or ""
        number = written(value_at(match["row"]), match["number"], percent=bool(percent))
        return f"{number}{percent}<!-- {match['row']} -->"

    return QUOTED.sub(one, text)


def main() -> None:
    for page in PAGES:
        held = page.read_text(encoding="utf-8")
        if (now := filled(held)) != held:
            page.write_text(now, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
