"""Several deletions from one trained model: a table, a grid of images, and the distribution of the similarities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame

    from bayesrecon.pairs import Deletion
    from bayesrecon.results.deletion import DeletedRecord

_COLUMNS = 12  # of a grid of images


@dataclass(frozen=True, eq=False, repr=False)
class Deletions(Result):
    """Reconstructed records, one per release after a deletion, with their similarity to the true ones.

    Attributes:
        found: the reconstructions.
        cosines: `{method: (N,)}` cosine similarities with the true records; empty without them.
    """

    found: tuple["DeletedRecord", ...]
    cosines: Mapping[str, np.ndarray]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> Json:
        """Plain types only."""
        return self._document(deletions=[f.to_dict() for f in self.found], cosine_similarity=self.cosines)

    @property
    def headline(self) -> str:
        return f"{self.found[0].before}: {len(self.found)} deletions"

    def to_dataframe(self) -> "DataFrame":
        """One row per deletion."""
        import pandas as pd

        frame = pd.DataFrame([f.to_dataframe()["estimate"] for f in self.found])
        for name, values in reversed(list(self.cosines.items())):
            frame.insert(0, f"cosine, {name}", values)
        return frame.set_index(pd.Index([f.after for f in self.found], name="after"))


def several(
    pairs: Sequence["Deletion"],
    *,
    public: Mapping[str, np.ndarray] | None,
    truth: Mapping[str, np.ndarray] | None,
    total: float | None,
    domain: Mapping[str, object] | None,
    seed: int,
) -> Deletions:
    """Reconstruct the record of every pair. True records, in the order of the pairs, are used only for comparison."""
    from bayesrecon.attacks.choice import suited
    from bayesrecon.attacks.deletion.hrec import HRec
    from bayesrecon.attacks.reconstruction import reconstruct
    from bayesrecon.results.deletion import DeletedRecord

    first = pairs[0].before
    attack = suited(pairs[0], {}, public=public)
    records: list[DeletedRecord] = []
    for pair in pairs:
        result = reconstruct(pair, attack=attack, key=seed, total=total, domain=domain)
        assert isinstance(result, DeletedRecord), "of a pair"
        records.append(result)
    warnings = tuple(dict.fromkeys(w for f in records for w in f.warnings))
    if truth is None:
        return Deletions(tuple(records), {}, warnings)
    from bayesrecon.evaluate import cosine_similarity

    field = longest(records)
    true = np.asarray(truth[field], float).reshape(len(truth[field]), -1)
    if len(true) != len(records):
        raise BayesreconError(f"--truth holds {len(true)} records for {len(records)} deletions; give one row per AFTER")
    named = next((f.method for f in records if f.record), records[0].method)
    guesses = {named: np.stack([np.ravel(f.record.get(field, np.full(true.shape[1], np.nan))) for f in records])}
    if isinstance(attack, HRec):
        prepared = attack.prepare(first.model, total)
        baselines = [prepared.baselines(p) for p in pairs]
        guesses |= {
            "Avg": np.stack([g["avg"] for g in baselines]),
            "MaxDiff": np.stack([g["maxdiff"] for g in baselines]),
        }
    return Deletions(tuple(records), {k: cosine_similarity(v, true) for k, v in guesses.items()}, warnings)


def longest(results: Sequence["DeletedRecord"]) -> str:
    """The field with the most entries, which is the image if there is one.

    Raises:
        BayesreconError: nothing can be said of any deletion, or each is of several records.
    """
    record = next((f.record for f in results if f.record), None)
    if record is None:
        raise BayesreconError((*results[0].doubts, f"{results[0].after}: {results[0].title}, and no single one")[0])
    return max(record, key=lambda k: np.size(record[k]))


def draw_images(
    result: Deletions,
    shape: tuple[int, int],
    path: Path,
    *,
    public: Mapping[str, np.ndarray] | None,
    truth: Mapping[str, np.ndarray] | None,
) -> None:
    """Plot each deleted image (if known), its reconstruction and the nearest public image side by side."""
    from bayesrecon.plots import plot_images

    results, field = [f for f in result.found if f.record][:_COLUMNS], longest(result.found)
    reconstructed = np.stack([np.ravel(f.record[field]) for f in results])
    named = [i for i, f in enumerate(result.found) if f.record][:_COLUMNS]
    rows = {} if truth is None else {"deleted": np.asarray(truth[field], float)[named]}
    rows["found"] = reconstructed
    if public is not None:
        public_images = np.asarray(public[field], float)
        rows["public"] = np.stack(
            [public_images[((public_images - f) ** 2).sum(axis=1).argmin()] for f in reconstructed]
        )
    labels = [str(np.asarray(f.record["y"])) if np.ndim(f.record.get("y", [0])) == 0 else "" for f in results]
    plot_images(rows, shape, captions=labels, path=path)
