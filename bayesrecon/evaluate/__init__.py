"""Comparison with the truth. Nothing that attacks a release imports this package."""

from bayesrecon.evaluate.records import calibration_error as calibration_error
from bayesrecon.evaluate.records import score_records as score_records
from bayesrecon.evaluate.truth import compare as compare
from bayesrecon.evaluate.truth import true_statistics as true_statistics
