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
    """Reconstructions, one per release without a record, and beside the truth if that was given.

    Attributes:
        found: the reconstructions.
        cosines: `{method: (N,)}` similarities with the truth; empty without it.
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
    """Reconstruct the record of every pair; the truth is only compared with, in the pairs' order."""
    from bayesrecon.attacks.choice import suited
    from bayesrecon.attacks.deletion.hrec import HRec
    from bayesrecon.attacks.reconstruction import reconstruct
    from bayesrecon.results.deletion import DeletedRecord

    first = pairs[0].before
    attack = suited(pairs[0], {}, public=public)
    found: list[DeletedRecord] = []
    for pair in pairs:
        result = reconstruct(pair, attack=attack, key=seed, total=total, domain=domain)
        assert isinstance(result, DeletedRecord), "of a pair"
        found.append(result)
    warnings = tuple(dict.fromkeys(w for f in found for w in f.warnings))
    if truth is None:
        return Deletions(tuple(found), {}, warnings)
    from bayesrecon.evaluate import cosine_similarity

    field = longest(found[0])
    true = np.asarray(truth[field], float).reshape(len(truth[field]), -1)
    if len(true) != len(found):
        raise BayesreconError(f"--truth holds {len(true)} records for {len(found)} deletions; give one row per AFTER")
    guesses = {found[0].method: np.stack([np.ravel(f.record[field]) for f in found])}
    if isinstance(attack, HRec):
        prepared = attack.prepare(first.model, total)
        each = [prepared.baselines(p) for p in pairs]
        guesses |= {"Avg": np.stack([g["avg"] for g in each]), "MaxDiff": np.stack([g["maxdiff"] for g in each])}
    return Deletions(tuple(found), {k: cosine_similarity(v, true) for k, v in guesses.items()}, warnings)


def longest(found: "DeletedRecord") -> str:
    """The field with most entries: the image, if there is one."""
    return max(found.record, key=lambda k: np.size(found.record[k]))


def draw_images(
    result: Deletions,
    shape: tuple[int, int],
    path: Path,
    *,
    public: Mapping[str, np.ndarray] | None,
    truth: Mapping[str, np.ndarray] | None,
) -> None:
    """Deleted (if known), found, and the public image nearest to what was found, side by side."""
    from bayesrecon.plots import plot_images

    results, field = result.found[:_COLUMNS], longest(result.found[0])
    found = np.stack([np.ravel(f.record[field]) for f in results])
    rows = {} if truth is None else {"deleted": np.asarray(truth[field], float)[: len(results)]}
    rows["found"] = found
    if public is not None:
        held = np.asarray(public[field], float)
        rows["public"] = np.stack([held[((held - f) ** 2).sum(axis=1).argmin()] for f in found])
    labels = [str(np.asarray(f.record["y"])) if np.ndim(f.record.get("y", [0])) == 0 else "" for f in results]
    plot_images(rows, shape, captions=labels, path=path)
