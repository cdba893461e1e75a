"""`TrainedDecoding`: a model's input from its outputs by a decoder that the user provides."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.outputs.decoding import decode_held_out
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.estimation.problem import generator
from bayesrecon.kernels.output_embedding import Outputs
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.results.input_estimate import InputEstimate


@dataclass(frozen=True)
class TrainedDecoding(Attack[InputEstimate]):
    """A decoder that you provide, for example a network trained with the model or afterwards.

    The public records must not have been used to train the decoder. Half of them calibrate the intervals, and the other
    half check the coverage.

    >>> TrainedDecoding(decoder=lambda z: z).name
    'trained-decoding'
    """

    name: ClassVar[str] = "trained-decoding"
    summary: ClassVar[str] = "an input from a model's outputs, by a decoder of your own"
    takes: ClassVar[tuple[type, ...]] = (Outputs,)
    uses: ClassVar[tuple[str, ...]] = ()

    decoder: Callable[[Any], Any] | None = option(None, "Function from outputs (m, K) to records (m, *shape).")

    def run(self, release: Outputs, knows: Knows, *, key: Any, progress: Progress) -> InputEstimate:
        began, rng = time.perf_counter(), generator(key)
        if self.decoder is None:
            raise BayesreconError("TrainedDecoding needs decoder=, a function of outputs (m, K) that gives records")
        decoder, width = self.decoder, release.public.shape[1]

        def decode(z: np.ndarray) -> np.ndarray:
            return decoded(decoder, z, width)

        held = rng.permutation(len(release.public))
        return decode_held_out(release, decode, self.name, held, len(held) // 2, rng, {}, began)


ATTACK = TrainedDecoding


def decoded(decoder: Callable[[Any], Any], z: np.ndarray, width: int) -> Float[np.ndarray, "m p"]:
    """Records `(m, p)` from the user's decoder.

    Raises:
        BayesreconError: the decoder fails, or returns something other than records.
    """
    try:
        found = np.asarray(decoder(z), float)
    except Exception as error:
        raise BayesreconError(f"the decoder fails on outputs {z.shape}: {first_line(error)}") from None
    if len(found) != len(z) or found.size != len(z) * width or not np.isfinite(found).all():
        raise BayesreconError(
            f"the decoder gives {found.shape} for outputs {z.shape}: expected {width} finite numbers each"
        )
    return found.reshape(len(z), width)
