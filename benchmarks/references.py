"""Posteriors of posteriordb that have a shipped model, with their private data."""

from functools import cache
from typing import Any

from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import open_database, read_data
from bayesrecon.types import Release


@cache
def reference(posterior: str, draws: int | None = None) -> tuple[Release, Any, dict[str, float]]:
    """Draws (the last ones, where not all are asked for), the private data, and the true statistics."""
    release = from_posteriordb(posterior, draws=draws)
    records = find(release.model.name).records(read_data(open_database(), posterior))
    return release, records, true_statistics(release.model, records)
