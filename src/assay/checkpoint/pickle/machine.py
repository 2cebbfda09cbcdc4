"""A pickle machine that runs nothing: protocols 0 to 5 into inert values, in bounded memory.

Every opcode outside the hot loop has a small function in `opcodes`. Memory is bounded by counting
what opcodes make in units of about 80 bytes, looked at whenever the window moves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from assay.checkpoint.pickle.opcodes import HANDLERS, Stop
from assay.checkpoint.pickle.represented import HARMLESS
from assay.checkpoint.pickle.values import Blob, Global, Stub
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import brief

MOST_UNITS = 3_500_000
"""Room for some 200,000 tensors, which is twice what the largest model seen has, in at most 200 MB."""
MOST_MARKS = 10_000
LONGEST_TEXT = 1 << 12
"""Longer texts and all bytes are passed over; only where they lie is kept."""

DAMAGE = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error)
"""What nonsense in a pickle makes the machine's own code raise."""

Persistent = Callable[[Any], Any]


class PickleMachine:
    """Reads pickles one after another from a stream."""

    __slots__ = ("called", "foreign", "known", "made", "marks", "memo", "persistent", "sparse", "stack", "stream")

    stream: Stream
    persistent: Persistent
    """What a persistent id stands for."""

    def __init__(self, stream: Stream, persistent: Persistent) -> None:
        self.stream = stream
        self.persistent = persistent
        self.known: dict[tuple[str, str], Global] = {}
        self.foreign: dict[str, Global] = {}
        """Named by the pickle and not on the list of harmless ones."""
        self.called: dict[str, None] = {}
        """Those of them that loading would have called."""
        self.made = 0
        self._begin()

    def _begin(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []
        self.sparse: dict[int, Any] = {}
        """Memo entries put out of order; an index of any size costs one entry."""

    def load(self) -> Any:
        """The next pickle's value; raises `ReadError` on anything that is not a whole pickle."""
        self._begin()
        try:
            self._run()
        except Stop:
            return self.stack.pop()
        except DAMAGE as error:
            where = self.stream.offset
            raise ReadError(f"{brief(self.stream.region.path)}: the pickle is damaged near byte {where}") from error
        raise self.stream.short()

    def _run(self) -> None:
        """The hot loop: the opcodes that fill real checkpoints stand here, ordered by how often they come."""
        stream, memo, sparse = self.stream, self.memo, self.sparse
        stack, handlers = self.stack, HANDLERS
        data, pos, safe = stream.data, stream.pos, stream.safe
        made = self.made
        while True:
            if pos >= safe:
                stream.pos, self.made = pos, made
                stream.refill()
                self.weigh()
                data, pos, safe = stream.data, stream.pos, stream.safe
                if pos >= len(data):
                    raise stream.short()
            code = data[pos]
            pos += 1
            if code == 0x72:  # LONG_BINPUT
                index = int.from_bytes(data[pos : pos + 4], "little")
                pos += 4
                if index == len(memo):
                    memo.append(stack[-1])
                else:
                    self.put(index)
                    made += 2
            elif code == 0x4B:  # BININT1
                stack.append(data[pos])
                pos += 1
            elif code == 0x68:  # BINGET
                index = data[pos]
                pos += 1
                stack.append(memo[index] if index < len(memo) else sparse[index])
            elif code == 0x94:  # MEMOIZE
                memo.append(stack[-1])
            elif code == 0x28:  # MARK
                self.marks.append(stack)
                stack = self.stack = []
                made += 1
            elif code == 0x74:  # TUPLE
                items = tuple(stack)
                stack = self.stack = self.marks.pop()
                stack.append(items)
                made += 1 + (len(items) >> 1)
            elif code == 0x86:  # TUPLE2
                second = stack.pop()
                stack[-1] = (stack[-1], second)
                made += 1
            elif code == 0x58 or code == 0x8C:  # BINUNICODE, SHORT_BINUNICODE
                width = 4 if code == 0x58 else 1
                length = int.from_bytes(data[pos : pos + width], "little")
                pos += width
                if length < 256 and pos + length <= len(data):
                    stack.append(str(data[pos : pos + length], "utf-8", "backslashreplace"))
                    pos += length
                    made += 1
                else:
                    stream.pos, self.made = pos, made
                    self.text(length)
                    data, pos, safe, made = stream.data, stream.pos, stream.safe, self.made
            elif code == 0x52 or code == 0x81:  # REDUCE, NEWOBJ
                args = stack.pop()
                stack[-1] = self.make(stack[-1], args)
                made += 1
            elif code == 0x51:  # BINPERSID
                stack[-1] = self.persistent(stack[-1])
                made += 1
            elif code == 0x89:  # NEWFALSE
                stack.append(False)
            elif code == 0x29:  # EMPTY_TUPLE
                stack.append(())
            elif code == 0x4D:  # BININT2
                stack.append(data[pos] | data[pos + 1] << 8)
                pos += 2
                made += 1
            elif code == 0x71:  # BINPUT
                index = data[pos]
                pos += 1
                if index == len(memo):
                    memo.append(stack[-1])
                else:
                    self.put(index)
                    made += 2
            elif code == 0x6A:  # LONG_BINGET
                index = int.from_bytes(data[pos : pos + 4], "little")
                pos += 4
                stack.append(memo[index] if index < len(memo) else sparse[index])
            else:
                stream.pos, self.made = pos, made
                handlers[code](self)
                data, pos, safe, made = stream.data, stream.pos, stream.safe, self.made
                stack = self.stack

    def weigh(self) -> None:
        """Refuse a pickle whose values would take too much memory."""
        stacked = len(self.stack) + sum(map(len, self.marks))
        if self.made + (stacked >> 1) + (len(self.memo) >> 3) > MOST_UNITS or len(self.marks) > MOST_MARKS:
            path = brief(self.stream.region.path)
            raise ReadError(f"{path} is refused: its pickle describes more values than a checkpoint has")

    def push(self, value: Any, units: int = 1) -> None:
        """Push a value that takes so many units of memory."""
        self.made += units
        self.stack.append(value)

    def text(self, length: int) -> None:
        """Push a text of `length` bytes, or where it lies when it is long."""
        if length > LONGEST_TEXT:
            self.blob(length)
        else:
            self.push(str(self.stream.take(length), "utf-8", "backslashreplace"), 1 + (length >> 5))

    def blob(self, length: int) -> None:
        """Push where `length` bytes lie, and pass over them."""
        self.push(Blob(self.stream.skip(length), length))

    def put(self, index: int) -> None:
        """Remember the top of the stack as number `index`."""
        memo: Any = self.memo if 0 <= index < len(self.memo) else self.sparse
        memo[index] = self.stack[-1]

    def get(self, index: int) -> Any:
        """What was remembered as number `index`."""
        return self.memo[index] if 0 <= index < len(self.memo) else self.sparse[index]

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def name(self, module: str, name: str) -> Global:
        """The global of that name, noted where it is not a harmless one."""
        found = self.known.get((module, name))
        if found is None:
            found = self.known[module, name] = Global(module, name, HARMLESS.get((module, name)))
            self.made += 4
            if (module, name) not in HARMLESS:
                self.foreign[found.path] = found
        return found

    def make(self, function: Any, args: Any) -> Any:
        """What calling `function` would give: represented where it is harmless, else a stub."""
        if type(function) is Global:
            if function.build is not None:
                return function.build(args)
            if function.path in self.foreign:
                self.called[function.path] = None
        return Stub(function, args)
