"""The verb `audit_outputs`: what a model's outputs would reveal about its inputs, checked beforehand."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Key
from bayesrecon.attacks.outputs.calibration import varies
from bayesrecon.attacks.outputs.decoding import LinearDecoder, decoded, fitted_decoder
from bayesrecon.auditing.severity import of_share
from bayesrecon.disclosure.output_numbers import softmax_bits
from bayesrecon.divergence.output_embedding import Answer
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.evaluate.distances import linear_risk, mahalanobis
from bayesrecon.posteriors.fits.model_outputs import answers_of, outputs
from bayesrecon.precision import in_float64
from bayesrecon.results.audit import Audit, ordered
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy, Severity, Thresholds

_NOISE = (0.1, 0.3, 1.0)  # standard deviations of noise that are tried, in units of how the outputs vary
_DIGITS = (3, 2, 1)  # decimals of a softmax that are tried
_TOP = (5, 3)  # largest probabilities that are left, that are tried
_LEAST = 200  # records: half are used to fit, half as queries
_STATISTIC = "a field, root mean square"

NOT_TRIED = NotRun(
    "trained decoder",
    "a linear decoder does not recover what is encoded non-linearly, and no trained one was given",
    "train a decoder on the outputs of other records and pass it as decoder=",
    ("outputs",),
)

_WORSE = "the given decoder does worse than the best linear one, so it does not show what is encoded non-linearly"


@dataclass(frozen=True, eq=False)
class _Queries:
    """Public records with their logits, half to fit decoders and half as queries."""

    x: np.ndarray
    logits: np.ndarray
    records: np.ndarray
    answers: np.ndarray
    cut: float
    spread: np.ndarray

    def error(self, guess: np.ndarray) -> float:
        return float(np.sqrt(np.mean((guess - self.records) ** 2)))


@in_float64
def audit_outputs(
    predict: Callable[[np.ndarray], npt.ArrayLike],
    data: object,
    *,
    decoder: Callable[[np.ndarray], npt.ArrayLike] | None = None,
    values: tuple[float, float] | None = None,
    cut: float = 1e-3,
    thresholds: Thresholds | None = None,
    name: str = "model",
    key: Key = 0,
) -> Audit:
    """What a model's outputs would reveal about the records that are submitted to it.

    Half of the data fit the best linear decoder, and the other half are reconstructed from their outputs. The audit
    reports the error of each field, the PSNR, and the reconstruction risk R at a stated `cut`. It compares them with
    two references: the mean record, which needs no output, and the risk of *any* linear model with as many outputs
    (`evaluate.linear_risk`). It then measures remedies: softmax, only the largest probabilities, rounding, only the
    class, and noise.

    A linear decoder cannot find information that is encoded non-linearly. The verdict is therefore "incomplete" unless
    `decoder` is a trained decoder that does at least as well. No audit rules out decoders that it did not try.

    Args:
        predict: function `(m, *shape) -> (m, k)` from records to logits.
        data: `(m, *shape)`, at least 200 records from the distribution of the records that will be submitted.
        decoder: function from outputs `(m, k)` to records, trained on other records: trained after an honest model, or
            one that is suspected to have been trained with it.
        values: smallest and largest possible value of a field, the range in the PSNR: (0, 1) for images. Defaults to
            the range of the data.
        cut: R leaves out directions whose variance is below this share of the largest variance.
        thresholds: what counts as severe. `record` and `vague` are errors of a field in units of its standard
            deviation.
        name: name of the model.
        key: an integer or a JAX key.

    Raises:
        BayesreconError: there are too few records, records are not finite or outside `values`, the model or the decoder
            fails on them, or the cut is invalid.

    >>> rng = np.random.default_rng(0)
    >>> w = rng.normal(size=(6, 3))
    >>> found = audit_outputs(lambda x: x @ w, rng.normal(size=(400, 6)))
    >>> found.verdict, found.not_run[0].attack
    ('incomplete', 'trained decoder')
    """
    began, rng, limits = time.perf_counter(), generator(key), thresholds or Thresholds()
    if not 0 <= cut < 1:
        raise BayesreconError(f"cut={cut}: expected a share of the largest variance, from 0 to 1")
    try:
        records = np.asarray(data, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("data are one array of numbers, (m, *shape)") from None
    shape = records.shape
    if len(shape) < 2 or shape[0] < _LEAST:
        raise BayesreconError(f"data of shape {shape}: expected (m, *shape) with m at least {_LEAST}")
    # The conversion to a release checks the model, the records and their values.
    first = answers_of(predict, records[:1])[0]
    release = outputs(predict, first, public=records, values=values, name=name)
    order = rng.permutation(len(release.public))
    half = len(order) // 2
    if half <= release.answers.shape[1] + 1:
        raise BayesreconError(
            f"{len(order)} records for {release.answers.shape[1]} outputs: supply more than twice as many"
        )
    fit, held_out = order[:half], order[half:]
    queries = _Queries(
        release.public[fit],
        release.answers[fit],
        release.public[held_out],
        release.answers[held_out],
        cut,
        release.public.std(axis=0),
    )
    remedies = _remedies(queries, rng, limits)
    guess = fitted_decoder(queries.x, queries.logits)(queries.answers)
    findings = [_finding("linear decoder", guess, queries, limits, release.values, remedies)]
    untried = [NOT_TRIED]
    if decoder is not None:
        trained = decoded(decoder, queries.answers, queries.x.shape[1])
        findings.append(_finding("trained decoder", trained, queries, limits, release.values, ()))
        worse = queries.error(trained) > queries.error(guess)
        untried = [replace(NOT_TRIED, reason=_WORSE)] if worse else []
    return Audit(
        findings=ordered(findings),
        name=name,
        format=f"outputs of a model, {release.answers.shape[1]} numbers about {queries.x.shape[1]} fields",
        model=None,
        draws=0,
        files=(),
        settings={"records": len(order), "cut": cut, "values": list(release.values), "key": str(key)},
        thresholds=limits,
        warnings=(
            "decoders that were not tried may recover more: a model can be trained together with a decoder, to hide "
            "its inputs",
        ),
        seconds=time.perf_counter() - began,
        not_run=tuple(untried),
    )


def _finding(
    method: str,
    guess: np.ndarray,
    queries: _Queries,
    limits: Thresholds,
    values: tuple[float, float],
    remedies: tuple[Remedy, ...],
) -> Finding:
    """The finding on one decoder, with its null references."""
    mean = np.broadcast_to(queries.x.mean(axis=0), queries.records.shape)
    error = np.sqrt(np.mean((guess - queries.records) ** 2, axis=0))
    moving = varies(queries.spread)
    relative = error[moving] / queries.spread[moving]
    known, vague = float(np.mean(relative < limits.record)), float(np.mean(relative < limits.vague))
    severity = _severity(guess, queries, limits)
    width = values[1] - values[0]
    outputs_seen = int(np.linalg.matrix_rank(queries.logits - queries.logits.mean(axis=0)))
    covariance = np.atleast_2d(np.cov(queries.x, rowvar=False))
    rank = _rank_above(covariance, queries.cut)
    distances = mahalanobis(queries.records - guess, 0.0, covariance, rtol=queries.cut)
    ratios = mahalanobis(queries.records, queries.x.mean(axis=0), covariance, rtol=queries.cut) / np.maximum(
        distances, 1e-300
    )
    items = [
        Item("PSNR, dB", _psnr(guess, queries, width), truth=None),
        Item("PSNR of the mean record, dB", _psnr(mean, queries, width)),
        Item("visibility, mean over fields", float(np.mean(np.clip(1 - relative**2, 0, 1)))),
        Item("share of fields with an error below half their spread", vague),
        Item(f"risk R at cut {queries.cut:g}", float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))),
        Item("R of the mean record", 1.0),
    ]
    if outputs_seen <= rank - 2:
        items.append(Item(f"R of any linear model, {outputs_seen} outputs", linear_risk(rank, outputs_seen)))
    gain = _psnr(guess, queries, width) - _psnr(mean, queries, width)
    return Finding(
        kind="outputs",
        severity=severity,
        title=f"A {method} reconstructs the input",
        where=("outputs",),
        summary=(
            f"{gain:+.2f} dB over the mean record; {known:.1%} of the fields that vary are recovered to within "
            f"{limits.record:g} of their spread, {vague:.1%} within {limits.vague:g}"
        ),
        needs="the model and records from the same distribution",
        evidence=tuple(items),
        remedies=remedies,
    )


def _severity(guess: np.ndarray, queries: _Queries, limits: Thresholds) -> Severity:
    error, moving = np.sqrt(np.mean((guess - queries.records) ** 2, axis=0)), varies(queries.spread)
    relative = error[moving] / queries.spread[moving]
    return of_share(float(np.mean(relative < limits.record)), float(np.mean(relative < limits.vague)), limits.share)


def _rank_above(covariance: np.ndarray, cut: float) -> int:
    """Number of directions whose variance is above the cut."""
    values = np.linalg.eigvalsh(covariance)
    return int((values > cut * values[-1]).sum())


def _psnr(guess: np.ndarray, queries: _Queries, width: float) -> float:
    return float(20 * np.log10(width / max(queries.error(guess), 1e-300)))


def _remedies(queries: _Queries, rng: np.random.Generator, limits: Thresholds) -> tuple[Remedy, ...]:
    """Errors after coarser outputs: predicted from the fitted records, and measured on the queries."""
    classes = queries.logits.shape[1]
    before = queries.error(fitted_decoder(queries.x, queries.logits)(queries.answers))
    tried: list[Remedy] = []

    def add(text: str, decoder: LinearDecoder, released: np.ndarray) -> None:
        guess, predicted = decoder(released), math.sqrt(decoder.error)
        leaves = _severity(guess, queries, limits)
        tried.append(Remedy(text, _STATISTIC, before, predicted, queries.error(guess), leaves))

    if classes > 1:
        for text, view in _views(classes):
            known, released = view(queries.logits), view(queries.answers)
            add(text, fitted_decoder(queries.x, known), released)
    scale = float(np.sqrt(queries.logits.var(axis=0).mean()))
    for share in _NOISE:
        noise = share * scale
        decoder = fitted_decoder(queries.x, queries.logits, noise=noise)
        released = queries.answers + noise * rng.normal(size=queries.answers.shape)
        same = float(np.mean(released.argmax(axis=1) == queries.answers.argmax(axis=1)))
        text = f"normal noise of {noise:.3g} on every logit ({same:.1%} of the largest classes stay)"
        add(text, decoder, released)
    return tuple(tried)


def _views(classes: int) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Coarser views of logits, each with its description."""
    ignored = ()  # no model is queried: only the views are used
    softmax = Answer(ignored, (1,), "rounded", 12)
    views: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
        ("softmax, whose logarithm is read", Answer(ignored, (1,), "softmax").seen)
    ]
    for count in (n for n in _TOP if n < classes - 1):
        views.append((f"the {count} largest probabilities alone", partial(_largest, softmax, count)))
    for q in _DIGITS:
        text = f"softmax rounded to {q} decimal{'s' * (q > 1)} (at most {softmax_bits(classes, q):.1f} bits)"
        views.append((text, Answer(ignored, (1,), "rounded", q).seen))
    text = f"the largest class alone ({math.log2(classes):.1f} bits)"
    return [*views, (text, Answer(ignored, (1,), "argmax").seen)]


def _largest(softmax: Answer, count: int, logits: np.ndarray) -> np.ndarray:
    """Probabilities, with all but the `count` largest set to zero."""
    p = softmax.seen(logits)
    return np.where(p >= np.sort(p, axis=1)[:, [-count]], p, 0.0)
