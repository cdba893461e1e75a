"""What annotations call the parts of JSON documents."""

from typing import Any

Json = dict[str, Any]
"""A JSON object, or what becomes one: its values are text, numbers, booleans, None, lists and further objects."""
