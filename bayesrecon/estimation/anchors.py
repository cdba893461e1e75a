"""Generic records to evaluate the embedding at, drawn from what the attacker knows and nothing else."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaincinv

from bayesrecon.domains import Domain, Field, Records
from bayesrecon.errors import BayesreconError

_MOST_ROUNDS, _BATCH = 60, 512  # of draws, and records of each, before a distribution of unusable records is refused
_LARGEST = 1e35  # limit of responses: errors of their squares are made of eighth powers, which are finite below it
_FEW = 32  # accepted records, of more that were wanted, below which a distribution is refused


class UnusableRecordsError(BayesreconError):
    """A distribution of which hardly any record can be used."""

    def __init__(self) -> None:
        super().__init__("hardly any random record has a usable score under this model; narrow the fields with domain=")


def require_usable(usable: int, wanted: int) -> None:
    """Raise `UnusableRecordsError` when hardly any of the wanted records can be used."""
    if usable < min(wanted, _FEW):
        raise UnusableRecordsError


@dataclass(frozen=True)
class Reference:
    """The distribution of generic records: unknown fields spread over their domains, known fields drawn as whole rows.

    Args:
        fields: the model's record fields.
        known: `{field: (N, *shape)}`, the values an attacker already has, row by row.
        centre, scale: `{field: shape}` location and spread of the unknown fields; fields without them are
            drawn over many orders of magnitude.
        broad: share of the records that is drawn over many orders of magnitude in spite of `centre` and `scale`.
        accept: `records -> (M,)` mask of the records to keep; the others are drawn again.
        most: largest size of the pool from which a basis is chosen.
        source: draws records, `(rng, size) -> {field: (size, *shape)}`, instead of the domains.
        tails: degrees of freedom of a t distribution, whose random scale stretches each record; None for no stretch.
        predict: `(rng, records) -> records` with responses that the posterior predicts for them.
        predicted: share of the records whose responses are predicted; the others are drawn from their domain.
        unit: `{field: shape}`, factor of values over many orders of magnitude, for fields in other units.
    """

    fields: Mapping[str, Field]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    centre: Mapping[str, np.ndarray] = field(default_factory=dict)
    scale: Mapping[str, np.ndarray] = field(default_factory=dict)
    broad: float = 0.0
    accept: Callable[[Records], np.ndarray] | None = None
    most: int = 1024
    source: Callable[[np.random.Generator, int], Records] | None = None
    tails: float | None = None
    predict: Callable[[np.random.Generator, Records], Records] | None = None
    predicted: float = 0.0
    unit: Mapping[str, np.ndarray] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, size: int) -> Records:
        """`size` records, `{field: (size, *shape)}`.

        Known rows come in a random order, each used equally often, so that every unit is present.

        Raises `UnusableRecordsError` when hardly any record is accepted.
        """
        records = self._draw(rng, size)
        if self.accept is None:
            return records
        accepted = _subset(records, self.accept(records))
        for _ in range(_MOST_ROUNDS):
            missing = size - _count(accepted)
            if missing <= 0:
                return {k: v[:size] for k, v in accepted.items()}
            records = self._draw(rng, max(size, _BATCH))
            more = _subset(records, self.accept(records))
            accepted = {k: np.concatenate([v, more[k]]) for k, v in accepted.items()}
        require_usable(_count(accepted), size)
        return accepted

    def _draw(self, rng: np.random.Generator, size: int) -> Records:
        if self.source is not None:
            return self.source(rng, size)
        records: Records = {}
        rows = np.zeros(0, int)
        if self.known:
            count = _count(self.known)
            rows = np.concatenate([rng.permutation(count) for _ in range(-(-size // count))])[:size]
        is_broad = rng.random(size) < self.broad if self.broad else np.zeros(size, bool)
        combinations = self._combinations(rng, size)
        stretch = np.ones(1)
        if self.tails is not None:  # every quantile of its scale once: how far out they reach is not left to chance
            quantiles = (rng.permutation(size) + 0.5) / size
            stretch = np.sqrt(self.tails / (2 * gammaincinv(self.tails / 2, quantiles)))
        for name, spec in self.fields.items():
            shape = (size, *spec.shape)
            if name in self.known:
                records[name] = self.known[name][rows]
            elif name in combinations:
                records[name] = combinations[name]
            elif name in self.centre:
                scale = stretch.reshape(-1, *(1 for _ in spec.shape)) * self.scale[name]
                records[name] = spec.domain.draw(rng, shape, self.centre[name], scale)
                if is_broad.any():
                    records[name][is_broad] = self._broad(name, rng, int(is_broad.sum()))
            else:
                records[name] = self._broad(name, rng, size)
        return self._with_responses(rng, records) if self.predict is not None and self.predicted else records

    def _broad(self, name: str, rng: np.random.Generator, size: int) -> np.ndarray:
        """Values over many orders of magnitude."""
        values = self.fields[name].domain.draw_broad(rng, (size, *self.fields[name].shape))
        return values * self.unit[name] if name in self.unit else values

    def _with_responses(self, rng: np.random.Generator, records: Records) -> Records:
        assert self.predict is not None
        predicted, count = self.predict(rng, records), _count(records)
        chosen = rng.random(count) < self.predicted
        # What overflows, or whose powers do, is no response.
        chosen &= np.all([(np.abs(v.reshape(count, -1)) < _LARGEST).all(axis=1) for v in predicted.values()], axis=0)
        return {k: np.where(chosen.reshape(-1, *(1,) * (v.ndim - 1)), predicted[k], v) for k, v in records.items()}

    @property
    def combinations(self) -> int:
        """The number of different records, of which every one is drawn equally often; 0 if there is no end of them."""
        finite = self._finite
        endless = self.known or self.source is not None or len(finite) < max(2, len(self.fields))
        return 0 if endless else math.prod(len(domain.levels) for domain in finite.values())

    @property
    def _finite(self) -> dict[str, Domain]:
        return {
            k: f.domain
            for k, f in self.fields.items()
            if f.domain.kind == "levels" and not f.shape and k not in self.known
        }

    def _combinations(self, rng: np.random.Generator, size: int) -> Records:
        """Fields with finitely many values, every combination equally often: none is left out by chance."""
        finite = self._finite
        counts = [len(domain.levels) for domain in finite.values()]
        cells = math.prod(counts)
        if len(counts) < 2 or cells > size:
            return {}
        drawn = np.concatenate([rng.permutation(cells) for _ in range(-(-size // cells))])[:size]
        indices = np.unravel_index(rng.permutation(drawn), counts)
        return {
            k: np.asarray(domain.levels, domain.dtype)[i]
            for (k, domain), i in zip(finite.items(), indices, strict=True)
        }

    def recentred(self, mean: Mapping[str, np.ndarray], sd: Mapping[str, np.ndarray]) -> "Reference":
        """The same distribution with another centre and scale."""
        return replace(
            self,
            centre={k: np.array(v) for k, v in mean.items()},
            scale={k: np.array(v) for k, v in sd.items()},
        )


def _count(records: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(records.values())))


def _subset(records: Records, mask: np.ndarray) -> Records:
    return {k: v[mask] for k, v in records.items()}
