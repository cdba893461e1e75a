"""What a release gives away about the private data behind it."""

from pathlib import Path

import lazy_loader

from bayesrecon._version import __version__ as __version__
from bayesrecon.moved import moved, now_in

# In a bare checkout the sub-packages `models` and `posteriors` lie beside this folder.
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__ = [*__path__, str(_root)]

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_MOVED = now_in(
    __name__,
    {
        "attacks": ("Improvements", "Slicing"),
        "attacks.matching.held_out": ("held_out_residual",),
        "results": (
            *(
                "Audit",
                "DeletedRecord",
                "DeletedSentence",
                "DeletionInference",
                "Diagnosis",
                "InputEstimate",
                "Inversion",
            ),
            *("Matched", "MissingRecord", "Reconstruction", "RecordTable", "Recovery", "Sanitised"),
        ),
        "running": ("compile_cache", "using"),
        "types": ("Box", "Deletion", "Knows", "Model", "PseudoData", "Release", "TotalVariation"),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
