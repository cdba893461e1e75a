"""Does the spectrum of a kernel decay? A line of records tells, where it does.

A kernel of finite rank has it on every set of records. On a line a few of them show its end, where in all directions
together more features than records have to be told from a decay.
"""

from collections.abc import Mapping

import numpy as np

from bayesrecon.domains import Domain, Records
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.error_laws import ErrorLaw, law_of
from bayesrecon.estimation.spectrum import Spectrum, decompose
from bayesrecon.kernels.one_release import OneRelease

_LINE, _LINES = 128, 4  # records on a line, and fields along which there is one
_BENT = 16  # features on a line, from which they are those of a decay and not of a short polynomial drowned in rounding


def decays(embedding: OneRelease, reference: Reference, fields: Mapping[str, Domain], rng: np.random.Generator) -> bool:
    """Whether the spectrum decays along one number of a field, all else of a record held fixed.

    Args:
        fields: unknown ones, with their domains.

    Returns:
        True where it does; False says nothing.
    """
    law = law_of(embedding)
    if law.ends or embedding.features:
        return False
    few = reference.draw(rng, _LINE)
    if _spectrum(embedding, few, law).gap:
        return False
    lines = [f for f, domain in fields.items() if domain.kind != "levels" and domain.total is None]
    return any(_along(embedding, few, f, law) for f in lines[:_LINES])


def _along(embedding: OneRelease, few: Records, name: str, law: ErrorLaw) -> bool:
    records = {k: np.repeat(v[:1], _LINE, axis=0) for k, v in few.items()}
    values = records[name].reshape(_LINE, -1)
    values[:, 0] = few[name].reshape(_LINE, -1)[:, 0]
    spectrum = _spectrum(embedding, {**records, name: values.reshape(few[name].shape)}, law)
    return not spectrum.gap and not spectrum.full and spectrum.rank > _BENT


def _spectrum(embedding: OneRelease, records: Records, law: ErrorLaw) -> Spectrum:
    with np.errstate(all="ignore"):
        scores = embedding.scores(records, embedding.thinned(_LINE))
    return decompose(scores[:, np.isfinite(scores).all(axis=0)], True, law)[0]
