"""Arrays that joblib writes as they are, between the opcodes of its pickle."""

import math
import sys
from typing import BinaryIO

from bayesrecon.untrusted.saved.arrays import array_of, dtype_of, from_bytes, is_array, sizes_of
from bayesrecon.untrusted.saved.nodes import Made, Pairs, Unreadable
from bayesrecon.untrusted.saved.pickle_machine import Machine

_WRAPPER = frozenset([("joblib.numpy_pickle", "NumpyArrayWrapper")])
_BESIDE = frozenset(
    (f"joblib.{module}", name)
    for module in ("numpy_pickle", "numpy_pickle_compat")
    for name in ("NDArrayWrapper", "ZNDArrayWrapper")
)


class Joblib:
    """Reads on behind the description of an array, where joblib puts its values.

    Args:
        stream: that a machine reads opcodes from.
        names: names of that machine; those of arrays of objects, which are pickles of their own, are added.
    """

    def __init__(self, stream: BinaryIO, names: dict[tuple[str, str], bool]) -> None:
        self._stream, self._names = stream, names

    def __call__(self, made: Made) -> None:
        """Take the values of an array that was just described."""
        if made.is_of(_BESIDE):
            raise Unreadable("its arrays lie in other files")
        state = made.states[-1]
        if not made.is_of(_WRAPPER) or not isinstance(state, Pairs):
            return
        dtype, sizes = dtype_of(state.get("dtype")), sizes_of(state.get("shape"))
        if dtype.hasobject:
            machine = Machine(self._stream)
            try:
                found = machine.run()
            finally:
                self._names.update(machine.names)
            if not is_array(found):
                raise Unreadable("an array of objects that is none")
            inner = array_of(found)
            made.stored = inner
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            padding = self._stream.read(1)
            self._stream.read(padding[0] if padding else 0)
        count = math.prod(sizes) * dtype.itemsize
        raw = self._stream.read(min(count, sys.maxsize))  # of a stream in memory: no more than is there
        made.stored = from_bytes(raw, dtype, sizes, state.get("order"))
