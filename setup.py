"""The README as a package index shows it. Everything else is in pyproject.toml.

An index shows one file: links into the repository would lead nowhere there, and its picture would be missing. As long
as the project has no address, their words stay and they go.
"""

import re
from pathlib import Path

from setuptools import setup


def standalone(text: str) -> str:
    """Without pictures (and their captions) and without links that are not addresses."""
    text = re.sub(r"^<img src=\"(?![a-z]+:)[^>]*>\n\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r"^!\[[^\]]*\]\((?![a-z]+:)[^)]*\)\n(\n\*[^*]+\*\n)?\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:)[^)]*\)", r"\1", text)


if __name__ == "__main__":
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    setup(long_description=standalone(readme), long_description_content_type="text/markdown")
