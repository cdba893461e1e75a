"""What commands print as JSON is held to its schema."""

import json
from functools import cache

import jsonschema

from bayesrecon.results.base import schema

LISTS = {"fit": "fit", "ledger": "ledger", "models": "models", "posteriors": "posteriors", "game": "games"}


def check_document(text, arguments):
    """The one document on stdout, against the schema that it names, or that its command has."""
    document = json.loads(text)
    if isinstance(document, dict) and "schema" in document:
        name = document["schema"]
    else:
        name = "verdicts" if "--verdict" in arguments else LISTS[arguments[0]]
    _validator(name).validate(document)


@cache
def _validator(name):
    """Whether each is a schema is tested where the schemas are."""
    return jsonschema.Draft202012Validator(schema(name))
