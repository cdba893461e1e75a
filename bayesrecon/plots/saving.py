"""Save figures to files. A file appears only when it is complete."""

from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".pdf", ".svg")


def check_path(path: str | Path | None) -> None:
    """Check the suffix of a path before anything is drawn."""
    if path is not None and Path(path).suffix.lower() not in _SUFFIXES:
        raise BayesreconError(f"cannot write {path}: the name must end in {', '.join(_SUFFIXES)}")


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write the figure completely or not at all."""
    write_whole(Path(path), lambda temporary: figure.savefig(temporary, dpi=150))
