"""What a release gives away about the private data behind it."""

import importlib
from pathlib import Path
from typing import Any

from bayesrecon._version import __version__ as __version__

# In a bare checkout the sub-packages `models` and `posteriors` lie beside this folder.
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__ = [*__path__, str(_root)]

_LAZY = {
    "Audit": "bayesrecon.auditing.findings",
    "BayesreconError": "bayesrecon.errors",
    "DeletedRecord": "bayesrecon.deleted",
    "Deletion": "bayesrecon.types",
    "DeletionInference": "bayesrecon.tilt",
    "Diagnosis": "bayesrecon.diagnosis",
    "HRec": "bayesrecon.hrec",
    "Improvements": "bayesrecon.hrec",
    "Inversion": "bayesrecon.inversion",
    "Matched": "bayesrecon.matched",
    "MissingRecord": "bayesrecon.informed",
    "Model": "bayesrecon.types",
    "PseudoData": "bayesrecon.types",
    "Reconstruction": "bayesrecon.pseudodata",
    "RecordTable": "bayesrecon.records.table",
    "Recovery": "bayesrecon.result",
    "Release": "bayesrecon.types",
    "Slicing": "bayesrecon.gradient",
    "audit": "bayesrecon.auditing.run",
    "bound": "bayesrecon.bounds",
    "condition": "bayesrecon.informed",
    "deletion": "bayesrecon.types",
    "diagnose": "bayesrecon.diagnosis",
    "infer_deletion": "bayesrecon.tilt",
    "invert_embedding": "bayesrecon.inversion",
    "load_result": "bayesrecon.result",
    "match_gradient": "bayesrecon.stationary",
    "missing_record": "bayesrecon.informed",
    "plan": "bayesrecon.planner",
    "reconstruct": "bayesrecon.reconstruction",
    "reconstruct_deleted": "bayesrecon.deleted",
    "recover": "bayesrecon.recovery",
    "witness": "bayesrecon.landscape",
}
_MODULES = ("models", "posteriors", "evaluate", "plots")

__all__ = [*_LAZY, *_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"bayesrecon.{name}")
    raise AttributeError(f"module 'bayesrecon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
