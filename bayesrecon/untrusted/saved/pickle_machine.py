"""An interpreter of the opcodes of pickles, of protocols 0 to 5, that imports nothing and calls nothing.

`pickletools` decodes opcodes and their arguments; here they only build descriptions (`nodes`). No memory is
allocated for a length or an index that a file states.
"""

import pickletools
from collections.abc import Callable
from typing import BinaryIO

from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Elsewhere, Group, Made, Named, Pairs, Unreadable, short_error

MOST_OPCODES = 5_000_000
"""Limit of opcodes, of which a saved model has some thousands. Each creates at most one small object."""

_CONSTANTS = frozenset(
    ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING",
     "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
     "BINUNICODE8", "FLOAT", "BINFLOAT")
)  # fmt: skip

_NEW: dict[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": Pairs,
    "EMPTY_SET": Group,
    "NEXT_BUFFER": lambda: Elsewhere("a buffer outside the pickle"),
}
"""What opcodes without arguments put on the stack."""

_COLLECTED: dict[str, Callable[[list[object]], object]] = {
    "LIST": list,
    "TUPLE": tuple,
    "DICT": lambda values: Pairs(_paired(values)),
    "FROZENSET": Group,
}
"""What opcodes make of the items above the topmost mark."""

_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = ("PROTO", "FRAME")  # opcodes are the same in all protocols, and frames only help to read ahead

Resolve = Callable[[object], object]
"""A function from a persistent id to its object; None if it is unknown."""


class Machine:
    """Runs one pickle after another from a stream; see `run`.

    Attributes:
        names: names that the pickles would import, in order, and whether they would be called, `{(module, name):
            called}`.
        count: number of opcodes so far.
        discarded: objects that were put on the stack and are part of no object.
        odd: how many of its opcodes no program writes so: numbers of its memo that do not count on, frames that end
            within opcodes, a second protocol, numbers with more letters than they need, names that nothing needs.

    >>> import io
    >>> machine = Machine(io.BytesIO(b"cos\\nsystem\\n(S'echo'\\ntR."))
    >>> made = machine.run()
    >>> machine.names, made.arguments
    ({('os', 'system'): True}, ('echo',))
    """

    def __init__(self, stream: BinaryIO, resolve: Resolve | None = None) -> None:
        """
        Args:
            stream: stream in memory. From another one, as many bytes would be requested as a length states.
            resolve: function that resolves persistent ids.
        """
        self.names: dict[tuple[str, str], bool] = {}
        self.count = 0
        self.discarded: list[object] = []
        self.odd = 0
        self._stream, self._resolve = stream, resolve
        self._built: Callable[[Made], None] | None = None
        self._do = {name: getattr(self, f"_{name.lower()}") for name in _HANDLED}

    def after_state(self, built: Callable[[Made], None]) -> None:
        """Call this function after each state that is set. It may read from the stream."""
        self._built = built

    def run(self) -> object:
        """The description of the next object. Afterwards the stream is at the end of its pickle.

        Raises:
            Unreadable: an opcode is unknown or does not fit the stack, the end is missing, or the limit is reached.
        """
        self._stack: list[object] = []
        self._below: list[list[object]] = []
        self._memo: dict[int, object] = {}
        self._next = 0
        position, number, self._ends = 0, "", set[int]()
        try:
            for opcode, argument, opcode_position in pickletools.genops(self._stream):
                last, position = position, opcode_position or 0
                self.count += 1
                self._ends.discard(position)
                self.odd += (number != "" and position - last not in _widths(number)) + (
                    opcode.name == "PROTO" and self.count > 1 and bool(self._stack or self._below or number or last)
                )
                number = repr(argument) if opcode.name in ("FLOAT", "INT", "LONG") else ""
                if opcode.name == "FRAME":
                    self._ends.add(position + 9 + int(argument or 0))
                if self.count > MOST_OPCODES:
                    raise Unreadable(f"more than {MOST_OPCODES} opcodes")
                name = opcode.name
                if name in _CONSTANTS:
                    self._stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
                elif name == "STOP":
                    root = self._stack.pop()
                    self.odd += len(self._ends - {position + 1})
                    self.discarded += [*self._stack, *(item for stack in self._below for item in stack)]
                    return root
                elif name in _NEW:
                    self._stack.append(_NEW[name]())
                elif name in _COLLECTED:
                    values = self._marked()
                    self._stack.append(_COLLECTED[name](values))
                elif name in _TUPLES:
                    self._last(_TUPLES[name])
                elif name not in _IGNORED:
                    self._do[name](argument)
        except Unreadable:
            raise
        except READ_ERRORS as error:
            raise Unreadable(f"damaged behind byte {position}: {short_error(error)}; copy or save it again") from None
        raise Unreadable("its end is missing")

    def _marked(self) -> list[object]:
        """Remove and return the items above the topmost mark."""
        items, self._stack = self._stack, self._below.pop()
        return items

    def _mark(self, _: object) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _pop(self, _: object) -> None:
        if self._stack:
            self.odd += isinstance(self._stack[-1], Named)
            self.discarded.append(self._stack.pop())
        else:
            self.discarded += self._marked()

    def _pop_mark(self, _: object) -> None:
        self.discarded += self._marked()

    def _dup(self, _: object) -> None:
        self._stack.append(self._stack[-1])

    def _append(self, _: object) -> None:
        value = self._stack.pop()
        self._add(self._stack[-1], [value])

    def _appends(self, _: object) -> None:
        values = self._marked()
        self._add(self._stack[-1], values)

    def _additems(self, _: object) -> None:
        self._appends(None)

    @staticmethod
    def _add(target: object, values: list[object]) -> None:
        if isinstance(target, list):
            target += values
        elif isinstance(target, Made | Group):
            target.items += values
        else:
            raise Unreadable(f"something is appended to a {type(target).__name__}")

    def _last(self, count: int) -> None:
        if len(self._stack) < count:
            raise Unreadable("a tuple of more items than the stack has")
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _setitem(self, _: object) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set(self._stack[-1], [(key, value)])

    def _setitems(self, _: object) -> None:
        pairs = _paired(self._marked())
        self._set(self._stack[-1], pairs)

    @staticmethod
    def _set(target: object, pairs: list[tuple[object, object]]) -> None:
        if not isinstance(target, Made | Pairs):
            raise Unreadable(f"a key is set in a {type(target).__name__}")
        target.pairs += pairs

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    _binget = _long_binget = _get

    def _put(self, index: int) -> None:
        if index not in (self._next, self._next + 1):  # counted from 0 or 1, by every program that writes pickles
            self.odd += 1
        self._memo[index], self._next = self._stack[-1], index + 1

    _binput = _long_binput = _put

    def _memoize(self, _: object) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _name(self, module: object, name: object, called: bool = False) -> Named:
        if not isinstance(module, str) or not isinstance(name, str):
            raise Unreadable("the name of a module or of its attribute is not a text")
        self.names[module, name] = self.names.get((module, name), False) or called
        return Named(module, name)

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(self._name(module, name))

    def _stack_global(self, _: object) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(self._name(module, name))

    def _make(self, function: object, arguments: object) -> None:
        if isinstance(function, Named):
            self._name(function.module, function.name, called=True)
        self._stack.append(Made(function, arguments))

    def _reduce(self, _: object) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._make(function, arguments)

    _newobj = _reduce

    def _newobj_ex(self, _: object) -> None:
        keywords, arguments, function = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._make(function, (*arguments, keywords) if isinstance(arguments, tuple) else (arguments, keywords))

    def _inst(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._make(self._name(module, name), tuple(self._marked()))

    def _obj(self, _: object) -> None:
        function, *arguments = self._marked()
        self._make(function, tuple(arguments))

    def _build(self, _: object) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if not isinstance(target, Made):
            target = Made(target)  # Python would set attributes of a class or another object
            self._stack[-1] = target
        target.states.append(state)
        if self._built is not None:
            self._ends.discard(self._stream.tell())  # joblib's arrays stand between frames
            self._built(target)

    def _persid(self, argument: object) -> None:
        self._stack.append(self._resolved(argument))

    def _binpersid(self, _: object) -> None:
        self._stack.append(self._resolved(self._stack.pop()))

    def _resolved(self, key: object) -> object:
        resolved = None if self._resolve is None else self._resolve(key)
        if resolved is None:
            return Elsewhere("a persistent id, which only the program that wrote it can resolve", key)
        return resolved

    def _ext1(self, code: int) -> None:
        self._name("copyreg", f"extension {code}")
        self._stack.append(Elsewhere("an entry of the registry of extensions", code))

    _ext2 = _ext4 = _ext1

    def _readonly_buffer(self, _: object) -> None:
        if not self._stack:
            raise Unreadable("no buffer to make read-only")


def _widths(number: str) -> set[int]:
    """Bytes of an opcode with this number as text, as some version of Python writes it."""
    texts = {
        number,
        f"0{int(number == 'True')}" if number in ("True", "False") else f"{float(number):.17g}",
        number + "L",
    }
    return {len(text) + 2 for text in texts}


def _paired(values: list[object]) -> list[tuple[object, object]]:
    if len(values) % 2:
        raise Unreadable("a key without a value")
    return list(zip(values[::2], values[1::2], strict=True))


_HANDLED = (
    frozenset(op.name for op in pickletools.opcodes) - _CONSTANTS - {"STOP", *_NEW, *_COLLECTED, *_TUPLES, *_IGNORED}
)
