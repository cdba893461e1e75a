"""What a release gives away about the private data behind it."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import lazy_loader

from bayesrecon._version import __version__ as __version__

# In a bare checkout the sub-packages `models` and `posteriors` lie beside this folder.
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__ = [*__path__, str(_root)]

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_MOVED = {
    "attacks": ("Improvements", "Slicing", "held_out_residual"),
    "results": (
        *("Audit", "DeletedRecord", "DeletedSentence", "DeletionInference", "Diagnosis", "InputEstimate", "Inversion"),
        *("Matched", "MissingRecord", "Reconstruction", "RecordTable", "Recovery", "Sanitised"),
    ),
    "running": ("compile_cache", "using"),
    "types": ("Box", "Deletion", "Knows", "Model", "PseudoData", "Release", "TotalVariation"),
}
"""Names that were here, and where they are; this version still finds them."""


def __getattr__(name: str) -> Any:
    for place, names in _MOVED.items():
        if name in names:
            text = f"bayesrecon.{name} is bayesrecon.{place}.{name}; the next version has it there alone"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(f"bayesrecon.{place}"), name)
    return _loaded(name)
