"""Comparison with the truth. Nothing that attacks a release imports this package."""

from bayesrecon.evaluate.truth import compare as compare
from bayesrecon.evaluate.truth import true_statistics as true_statistics
