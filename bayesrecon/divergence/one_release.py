"""The interface of the mean embedding of one release: `OneRelease`."""

from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import Float

from bayesrecon.divergence.embedding import Featured, MeanEmbedding
from bayesrecon.domains import Records
from bayesrecon.model import Atoms, Progress


class OneRelease(MeanEmbedding, Featured, Protocol):
    """The embedding of one release: a dataclass, so that `replace` gives the same with another metric or other atoms.

    Attributes:
        release: atoms in the coordinates in use.
        metric: `(d, k)` factor of Sigma.
        progress: called with the share of a pass that is done.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def release(self) -> Atoms: ...
    @property
    def metric(self) -> Float[np.ndarray, "d k"]: ...
    @property
    def progress(self) -> Progress | None: ...

    def information(self, records: Records) -> Float[np.ndarray, " M"]:
        """`k(z, z) / d` of each record, `(M,)`, judged on a few atoms; infinite where the score overflows.

        In the metric of the posterior covariance the private records' values add up to about one.
        """
        ...

    def informations(self, records: Records) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, "A M"]]:
        """The weights of these atoms, which sum to one, and their shares in the information of each record."""
        ...
