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
    "Attack": "bayesrecon.attacks.attack",
    "Audit": "bayesrecon.results.audit",
    "Box": "bayesrecon.regularisers",
    "BayesreconError": "bayesrecon.errors",
    "DeletedRecord": "bayesrecon.results.deletion",
    "DeletedSentence": "bayesrecon.results.sentence",
    "Deletion": "bayesrecon.pairs",
    "DeletionInference": "bayesrecon.results.deletion",
    "Difference": "bayesrecon.attacks.deletion.difference",
    "Diagnosis": "bayesrecon.results.diagnosis",
    "Estimator": "bayesrecon.estimation.problem",
    "GradientMatching": "bayesrecon.attacks.matching.gradient",
    "HRec": "bayesrecon.attacks.deletion.hrec",
    "Improvements": "bayesrecon.attacks.deletion.prepared",
    "InputEstimate": "bayesrecon.results.outputs",
    "Inversion": "bayesrecon.results.deletion",
    "Knows": "bayesrecon.knowledge",
    "Matched": "bayesrecon.results.matched",
    "LinearDecoding": "bayesrecon.attacks.outputs.decoding",
    "MissingRecord": "bayesrecon.results.deletion",
    "Model": "bayesrecon.model",
    "OutputInversion": "bayesrecon.attacks.outputs.inversion",
    "PosteriorSampling": "bayesrecon.attacks.outputs.sampling",
    "PseudoData": "bayesrecon.model",
    "Reconstruction": "bayesrecon.results.reconstruction",
    "RecordTable": "bayesrecon.results.records",
    "Recovery": "bayesrecon.results.recovery",
    "Release": "bayesrecon.releases",
    "Sanitised": "bayesrecon.results.sanitised",
    "ScoreMatching": "bayesrecon.attacks.pseudodata.score_matching",
    "SingleRecords": "bayesrecon.attacks.records.single",
    "Slicing": "bayesrecon.attacks.pseudodata.adam",
    "Tilt": "bayesrecon.attacks.deletion.tilted",
    "TotalVariation": "bayesrecon.regularisers",
    "TrainedDecoding": "bayesrecon.attacks.outputs.own",
    "WeightedRecords": "bayesrecon.attacks.pseudodata.weighted",
    "audit": "bayesrecon.auditing.run",
    "audit_outputs": "bayesrecon.auditing.outputs",
    "bound": "bayesrecon.disclosure.bounds",
    "compile_cache": "bayesrecon.running.compiled",
    "condition": "bayesrecon.attacks.deletion.informed",
    "deleted_sentence": "bayesrecon.attacks.deletion.sentence",
    "deletion": "bayesrecon.verbs.door",
    "held_out_residual": "bayesrecon.attacks.matching.held_out",
    "diagnose": "bayesrecon.disclosure.diagnosis",
    "infer_deletion": "bayesrecon.attacks.deletion.inferred",
    "invert_embedding": "bayesrecon.attacks.deletion.inversion",
    "load_result": "bayesrecon.results.loading",
    "missing_record": "bayesrecon.attacks.deletion.informed",
    "plan": "bayesrecon.disclosure.planner",
    "reconstruct": "bayesrecon.attacks.reconstruction",
    "recover": "bayesrecon.attacks.recovery",
    "sanitise": "bayesrecon.disclosure.sanitising.run",
    "using": "bayesrecon.running.engine",
    "witness": "bayesrecon.disclosure.witness",
}
_MODULES = ("datasets", "models", "posteriors", "evaluate", "games", "plots")

__all__ = [*_LAZY, *_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"bayesrecon.{name}")
    raise AttributeError(f"module 'bayesrecon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
