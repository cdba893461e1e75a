"""Values of options whose texts have a form of their own: settings, intervals, domains, factors, shapes of images."""

import json
from collections.abc import Sequence

from bayesrecon.errors import BayesreconError
from bayesrecon.factors import Factor
from bayesrecon.json_types import Json

StatedDomain = str | list[float] | tuple[float, ...]
"""The name of a domain, its values, or its ends."""


def parse_settings(text: str | None) -> Json:
    """Model settings given as a JSON object."""
    if text is None:
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise BayesreconError(
            f'--settings is not JSON: {error}; for example --settings \'{{"covariates": ["age", "bmi"]}}\''
        ) from None
    if not isinstance(settings, dict):
        raise BayesreconError('--settings must be a JSON object, e.g. \'{"covariates": ["age", "bmi"]}\'')
    return settings


def parse_intervals(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """`FIELD=LOW:HIGH` as `{field: (low, high)}`; LOW and HIGH may be inf or -inf."""
    intervals = {}
    for text in texts:
        field, _, bounds = text.partition("=")
        low, _, high = bounds.partition(":")
        try:
            intervals[field] = (float(low), float(high))
        except ValueError:
            raise BayesreconError(f"{text!r}: expected FIELD=LOW:HIGH, e.g. dist=0:340") from None
    return intervals


def parse_domains(texts: Sequence[str]) -> dict[str, StatedDomain]:
    """`FIELD=NAME`, `FIELD=LOW:HIGH` or `FIELD=A,B,C` as `{field: domain}`, as the verbs take it."""
    domains: dict[str, StatedDomain] = {}
    for text in texts:
        field, _, stated = text.partition("=")
        parts = stated.split(":" if ":" in stated else ",")
        try:
            values = [float(part) for part in parts]
        except ValueError:
            values = []
        if not field or not stated or (not values and len(parts) > 1):
            raise BayesreconError(
                f"{text!r}: expected FIELD=NAME, FIELD=LOW:HIGH or FIELD=A,B,C, e.g. age=positive, age=18:90, sex=0,1"
            )
        domains[field] = (tuple(values) if ":" in stated else values) if values else stated
    return domains


def parse_factors(texts: Sequence[str]) -> dict[str, Factor | tuple[str, ...]]:
    """`NAME=COLUMN,COLUMN` or `NAME=CONTRAST:COLUMN,COLUMN` as `{name: factor}`, as the verbs take it."""
    factors: dict[str, Factor | tuple[str, ...]] = {}
    for text in texts:
        name, _, stated = text.partition("=")
        contrast, colon, listed = stated.partition(":")
        columns = tuple(part.strip() for part in (listed if colon else stated).split(",") if part.strip())
        if not name or not columns:
            raise BayesreconError(f"{text!r}: expected NAME=COLUMN,COLUMN or NAME=sum:COLUMN,COLUMN, e.g. g=g2,g3")
        factors[name] = Factor(name, columns, contrast=contrast) if colon else columns
    return factors


def image_shape(text: str | None) -> tuple[int, int] | None:
    """`HEIGHTxWIDTH` of images."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdigit() and int(p) for p in parts):
        raise BayesreconError(f"--image {text}: expected HEIGHTxWIDTH, e.g. 28x28")
    return int(parts[0]), int(parts[1])
