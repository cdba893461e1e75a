"""`SingleRecords`: every record separately, where a parameter belongs to a person, a hospital or a county."""

from dataclasses import dataclass
from typing import ClassVar

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.records.attack import recover_records
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Progress
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.records import RecordTable


@dataclass(frozen=True)
class SingleRecords(Attack[RecordTable]):
    """Recovers the unknown fields of every row of a known design, with their errors.

    For answers, categories and counts, the result has the most probable value with its probability.

    >>> SingleRecords(unit=("person", "item")).unit
    ('person', 'item')
    """

    name: ClassVar[str] = "single-records"
    summary: ClassVar[str] = "each record separately, given its known covariates, with errors and probabilities"
    takes: ClassVar[tuple[type, ...]] = (PosteriorDraws,)

    unit: str | tuple[str, ...] | None = option(None, "Known field (or fields a,b) that identifies a record.")
    metric: Metric = option(Metric(), "Metric and coordinates.")

    def run(self, release: PosteriorDraws, knows: Knows, *, key: Key, progress: Progress) -> RecordTable:
        unit = self.unit or knows.get("unit")
        if unit is None:
            raise BayesreconError("SingleRecords needs the known field, or fields, that identify a record: unit=")
        knowledge = check_knowledge(release.model, **{**knows, "unit": unit})
        return recover_records(release, knowledge, self.metric, rng=generator(key), progress=progress)


ATTACK = SingleRecords
