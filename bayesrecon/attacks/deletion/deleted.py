"""`reconstruct_deleted`: the record between two releases, by the attack that suits them."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from bayesrecon.attacks.choice import suited
from bayesrecon.attacks.deletion.pair import read_pair
from bayesrecon.attacks.deletion.prepared import Improvements
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.pairs import Deletion
from bayesrecon.precision import in_float64
from bayesrecon.results.deletion import DeletedRecord


@in_float64
def reconstruct_deleted(
    pair: Deletion,
    *,
    public: Mapping[str, Any] | None = None,
    improvements: Improvements | None = None,
    embedding: Callable[[Any], Any] | None = None,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> DeletedRecord:
    """Reconstruct the record that was deleted: `reconstruct` with `Tilt` for draws, `HRec` for trained parameters and
    `Difference` for approximations.

    Args:
        public, improvements, embedding: of `HRec`, for trained parameters.
        key: seeds the starts.
        progress: called with a label and the fraction done.
        knows: `total` for trained parameters; `bounds`, `domain` for draws.

    Raises:
        BayesreconError: approximations with more than one record between them, trained parameters without public
            records, draws with public records or an embedding, or keywords that the attack has no use for.

    >>> import bayesrecon, numpy as np
    >>> from bayesrecon.posteriors import retrain_without, train
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor", features=2, penalty=1.0)
    >>> data = {"x": rng.normal(size=(400, 2)), "y": rng.normal(size=400)}
    >>> before = train(model, data).release
    >>> pair = bayesrecon.deletion(before, retrain_without(before, data, [7])[0].release)
    >>> found = reconstruct_deleted(pair, public={k: v[200:] for k, v in data.items()}, total=400)
    >>> bool(abs(found.record["x"] - data["x"][7]).max() < 0.1)
    True
    """
    pair = read_pair(pair)
    attack = suited(pair, knows, public=public, improvements=improvements, embedding=embedding)
    attack.check(pair, knows)
    return attack.run(pair, knows, key=key, progress=progress or (lambda *_: None))
