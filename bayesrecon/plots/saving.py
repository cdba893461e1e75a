"""Figures as files that appear only once they are complete."""

from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole

_SUFFIXES = (".png", ".pdf", ".svg")


def check_path(path: str | Path | None) -> None:
    """Refuse a name with another suffix before anything is drawn."""
    if path is not None and Path(path).suffix.lower() not in _SUFFIXES:
        raise BayesreconError(f"cannot write {path}: the name must end in {', '.join(_SUFFIXES)}")


def save_figure(figure: Any, path: str | Path) -> None:
    """Write the figure, whole or not at all."""
    write_whole(Path(path), lambda temporary: figure.savefig(temporary, dpi=150))
