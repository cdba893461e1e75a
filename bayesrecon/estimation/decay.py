"""Test whether the spectrum of a kernel decays, with records along a line.

A kernel of finite rank has finite rank on every set of records. On a line a few records show where its spectrum ends.
In all directions together, the rank could exceed the number of records and look like a decay.
"""

from collections.abc import Mapping

import numpy as np

from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.domains import Domain, Records
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.error_laws import ErrorLaw, law_of
from bayesrecon.estimation.spectrum import Spectrum, decompose

_LINE, _LINES = 128, 4  # number of records on a line, and largest number of fields with a line
_MANY = 16  # this many features on a line mean a decay, and not a polynomial of low degree that is lost in rounding


def decays(embedding: OneRelease, reference: Reference, fields: Mapping[str, Domain], rng: np.random.Generator) -> bool:
    """Whether the spectrum decays along one number of a field, with the rest of the record fixed.

    Args:
        embedding: the mean embedding of the release.
        reference: the distribution of generic records.
        fields: unknown fields with their domains.
        rng: random generator.

    Returns:
        True if it decays. False is inconclusive.
    """
    error_law = law_of(embedding)
    if error_law.ends or embedding.features:
        return False
    sample = reference.draw(rng, _LINE)
    if _spectrum(embedding, sample, error_law).gap:
        return False
    lines = [f for f, domain in fields.items() if domain.kind != "levels" and domain.total is None]
    return any(_along(embedding, sample, f, error_law) for f in lines[:_LINES])


def _along(embedding: OneRelease, sample: Records, name: str, error_law: ErrorLaw) -> bool:
    records = {k: np.repeat(v[:1], _LINE, axis=0) for k, v in sample.items()}
    values = records[name].reshape(_LINE, -1)
    values[:, 0] = sample[name].reshape(_LINE, -1)[:, 0]
    spectrum = _spectrum(embedding, {**records, name: values.reshape(sample[name].shape)}, error_law)
    return not spectrum.gap and not spectrum.full and spectrum.rank > _MANY


def _spectrum(embedding: OneRelease, records: Records, error_law: ErrorLaw) -> Spectrum:
    with np.errstate(all="ignore"):
        scores = embedding.scores(records, embedding.thinned(_LINE))
    return decompose(scores[:, np.isfinite(scores).all(axis=0)], True, error_law)[0]
