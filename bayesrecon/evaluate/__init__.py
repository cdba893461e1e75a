"""Comparison with the truth. Nothing that attacks a release imports this package."""

from bayesrecon.evaluate.distances import linear_risk as linear_risk
from bayesrecon.evaluate.distances import mahalanobis as mahalanobis
from bayesrecon.evaluate.distances import mmd as mmd
from bayesrecon.evaluate.distances import reconstruction_risk as reconstruction_risk
from bayesrecon.evaluate.distances import wasserstein as wasserstein
from bayesrecon.evaluate.divergence import divergence as divergence
from bayesrecon.evaluate.images import psnr as psnr
from bayesrecon.evaluate.images import ssim as ssim
from bayesrecon.evaluate.matching import Matching as Matching
from bayesrecon.evaluate.matching import cosine_similarity as cosine_similarity
from bayesrecon.evaluate.matching import match as match
from bayesrecon.evaluate.rates import Interval as Interval
from bayesrecon.evaluate.rates import bootstrap as bootstrap
from bayesrecon.evaluate.rates import bounded_mean as bounded_mean
from bayesrecon.evaluate.rates import clopper_pearson as clopper_pearson
from bayesrecon.evaluate.rates import true_positive_rate as true_positive_rate
from bayesrecon.evaluate.records import calibration_error as calibration_error
from bayesrecon.evaluate.records import score_records as score_records
from bayesrecon.evaluate.truth import compare as compare
from bayesrecon.evaluate.truth import true_statistics as true_statistics
