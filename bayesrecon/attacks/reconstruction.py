"""The verb `reconstruct`: run one attack on a release, given what the attacker knows."""

from dataclasses import replace
from typing import TypeVar, Unpack, cast, overload

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.choice import suited
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.pairs import Deletion, Unchanged
from bayesrecon.results.base import Result
from bayesrecon.results.deletion import DeletedRecord
from bayesrecon.results.input_estimate import InputEstimate
from bayesrecon.results.reconstruction import Matched, Reconstruction
from bayesrecon.results.records import RecordTable
from bayesrecon.verbs.verb import verb

R = TypeVar("R", bound=Result)
Reconstructed = Reconstruction | RecordTable | Matched | DeletedRecord | InputEstimate


@overload
def reconstruct(
    release: object,
    *,
    model: object = None,
    attack: Attack[R],
    n: None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> R: ...
@overload
def reconstruct(
    release: object,
    *,
    model: object = None,
    attack: None = None,
    n: int | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Reconstructed: ...
@verb(uses=None)
def reconstruct(
    release: object,
    *,
    model: object = None,
    attack: Attack[Result] | None = None,
    n: int | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Result:
    """Reconstruct records from a release.

    Args:
        release: draws, a trained parameter, the outputs of a model, or a `Deletion` (two releases around a deletion).
            Also any object or file that holds draws, together with its `model`.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        attack: an attack with its options. The default depends on the release. It is `WeightedRecords` for draws and
            trained parameters, `SingleRecords` if `unit` is given, and `GradientMatching` for a network. It is
            `LinearDecoding` for the outputs of a model. Around a deletion it is `Tilt` for draws, and `Difference` for
            approximations (tables, modes with covariances, variational fits). For trained parameters around a deletion,
            pass `HRec(public=...)`.
        n: number of records of the default attack, as a shortcut for passing `attack`.
        force: show numbers even if a check of draws and model failed. None of them is then called determined.
        key: an integer or a JAX key.
        progress: called with a label and the completed fraction, which ends at one.
        knows: what the attacker knows (`Knows`): `known`, `unit`, `total`, `domain`.

    Returns:
        The result of the attack: `Reconstruction`, `RecordTable`, `Matched`, `DeletedRecord` or `InputEstimate`. If two
        models differ by rounding, the `DeletedRecord` has no fields.

    Raises:
        BayesreconError: the attack does not accept this release or a keyword, or the input cannot be used.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> reconstruct(release, n=5).relative_gap < 1e-6
    True
    """
    if attack is None:
        attack = suited(release, knows, n=n)
    elif n is not None:
        raise BayesreconError(f"n= is a shortcut for the default attack: {type(attack).__name__}(n={n})")
    attack.check(release, knows)
    stated = cast(Knows, {name: value for name, value in knows.items() if value is not None})
    try:
        result = attack.run(release, stated, key=key, progress=progress or (lambda label, fraction: None))
    except Unchanged as said:
        return DeletedRecord.unchanged(cast(Deletion, release), attack.name, str(said))
    if not isinstance(result, DeletedRecord):
        return result
    fields = cast(Deletion, release).before.model.fields
    return replace(result, columns={k: fields[k].columns for k in result.record if fields[k].columns})
