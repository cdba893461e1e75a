"""JSON in which a key stands once."""

from bayesrecon.json_types import Json


def no_repeats(pairs: list[tuple[str, object]]) -> Json:
    """A JSON object in which no key stands twice: libraries differ in which of them they take.

    Raises:
        ValueError: one does; readers add the file's name.

    >>> import json
    >>> json.loads('{"a": 1, "a": 2}', object_pairs_hook=no_repeats)
    Traceback (most recent call last):
    ValueError: a key appears twice in one object
    """
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return unique
