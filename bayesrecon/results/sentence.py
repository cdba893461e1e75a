"""The result of `deleted_sentence`: the sentence, and how many others explain the change equally well."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class DeletedSentence(Result):
    """A reconstruction of the deleted sentence.

    Attributes:
        words: the sentence. If several explain the change equally well, one of them, drawn at random.
        count: number of sentences that explain the change equally well.
        listed: some or all of these sentences, sorted by their words.
        length: n, the length of the n-grams.
    """

    words: tuple[str, ...]
    count: int
    listed: tuple[tuple[str, ...], ...]
    length: int
    warnings: tuple[str, ...] = ()

    @property
    def probability(self) -> float:
        """Probability that the words are right and in the right order, if one sentence was deleted: `1 / count`."""
        return 1 / self.count

    @property
    def complete(self) -> bool:
        """Whether all possible sentences are listed."""
        return len(self.listed) == self.count

    @property
    def headline(self) -> str:
        alone = "the only sentence" if self.count == 1 else f"one of {self.count} sentences"
        return f"deleted: {' '.join(self.words)!r}, {alone} with these {self.length}-grams"

    def to_dict(self) -> Json:
        """Plain types only."""
        names = ("words", "count", "probability", "listed", "complete", "length")
        return self._document(**{name: getattr(self, name) for name in names})

    def to_dataframe(self) -> "DataFrame":
        """One row per listed sentence."""
        import pandas as pd

        return pd.DataFrame({"sentence": [" ".join(words) for words in self.listed]}).rename_axis("sequence")
