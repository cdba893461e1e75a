"""What a run of the command line left behind, and how to read it."""

import json
from typing import NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def document(outcome):
    """The one JSON document on stdout, without NaN or Infinity."""
    assert outcome.code == 0, outcome.err

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=refuse)
