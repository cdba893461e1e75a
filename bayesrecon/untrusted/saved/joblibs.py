"""Arrays of joblib, which are plain bytes between the opcodes of its pickle."""

import math
import sys
from typing import BinaryIO

from bayesrecon.untrusted.saved.arrays import array_of, beside, dtype_of, from_bytes, is_array, sizes_of
from bayesrecon.untrusted.saved.nodes import Made, Pairs, Unreadable
from bayesrecon.untrusted.saved.pickle_machine import Machine

_WRAPPER = frozenset([("joblib.numpy_pickle", "NumpyArrayWrapper")])
_BESIDE = frozenset(
    (f"joblib.{module}", name)
    for module in ("numpy_pickle", "numpy_pickle_compat")
    for name in ("NDArrayWrapper", "ZNDArrayWrapper")
)


class Joblib:
    """Reads the values of an array, which follow its description.

    Args:
        stream: stream from which a machine reads opcodes.
        names: names of that machine. Those in arrays of objects, which are pickles, are added.
    """

    def __init__(self, stream: BinaryIO, names: dict[tuple[str, str], bool]) -> None:
        self._stream, self._names = stream, names

    def __call__(self, made: Made) -> None:
        """Read the values of an array whose description has just been completed."""
        if made.is_of(_BESIDE):
            raise Unreadable("its arrays lie in other files")
        state = made.states[-1]
        if not made.is_of(_WRAPPER) or not isinstance(state, Pairs):
            return
        dtype, sizes = dtype_of(state.get("dtype")), sizes_of(state.get("shape"))
        if dtype.hasobject:
            machine = Machine(self._stream)
            try:
                described = machine.run()
            finally:
                self._names.update(machine.names)
            if not is_array(described):
                raise Unreadable("an invalid array of objects")
            made.stored = array_of(described)
            made.items += beside(described)
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            padding = self._stream.read(1)
            padding = self._stream.read(padding[0] if padding else 0)
            if padding.strip(b"\xff"):
                made.items.append(padding)
        count = math.prod(sizes) * dtype.itemsize
        raw = self._stream.read(min(count, sys.maxsize))  # the stream is in memory, so no more is allocated than it has
        made.stored = from_bytes(raw, dtype, sizes, state.get("order"))
