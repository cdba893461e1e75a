"""Rows of programs that have no page of their own; pages quote them (`quoted.py`)."""

import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def kept(program: str) -> dict[str, Any]:
    """What the parts of a program measured, by their names."""
    path = HERE / f"{program}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(program: str, **measured: Any) -> None:
    """Parts replace those of the same name."""
    path = HERE / f"{program}.json"
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(json.dumps(kept(program) | measured, indent=1) + "\n")
    beside.replace(path)  # at once: another run may read it
