"""JSON schemas of the documents that `--json` prints and `to_dict` returns."""

import json
from functools import cache
from pathlib import Path

from bayesrecon.errors import BayesreconError, near
from bayesrecon.json_types import Json

VERSION = 2
"""Version of all schemas. It increases when a key is added, renamed, or changes its type."""


@cache
def _text() -> str:
    return Path(__file__).with_name("documents.json").read_text(encoding="utf-8")


def schema(name: str) -> Json:
    """The JSON Schema (draft 2020-12) of one kind of document.

    Args:
        name: the value of `"schema"` in the document, such as "Recovery/2", with or without the version. For documents
            that are not results: "fit", "models", "posteriors", "verdicts" and "games".

    Raises:
        BayesreconError: no document has this name, or this version.

    >>> schema("Recovery/2")["$ref"]
    '#/$defs/Recovery'
    """
    document = json.loads(_text())
    kind, _, version = name.partition("/")
    if kind not in document["$defs"]:
        raise BayesreconError(f"no JSON document {kind!r}{near(kind, document['$defs'])}")
    if version and version != str(VERSION):
        raise BayesreconError(f"{name}: this version of bayesrecon has schemas of version {VERSION}")
    return {**document, "$ref": f"#/$defs/{kind}"}
