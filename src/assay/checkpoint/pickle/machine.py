"""A pickle interpreter that runs no code: turns protocols 0 to 5 into inert values, in bounded memory.

Opcodes outside the hot loop each have a small function in `opcodes`. To bound memory, opcodes count what they create
in units of approximately 80 bytes; the count is checked whenever the window moves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from assay.checkpoint.pickle.opcodes import HANDLERS, Stop, text_units
from assay.checkpoint.pickle.represented import HARMLESS
from assay.checkpoint.pickle.values import Blob, Global, Stub
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line

MAX_UNITS = 3_500_000
"""Enough for approximately 200,000 tensors, twice those of the largest known model, in at most 200 MB."""
MAX_MARKS = 10_000
_MANY = 16
"""Items of a copy that are not worth counting."""
MAX_TEXT_LENGTH = 1 << 12
"""Longer strings, and all bytes objects, are skipped; only their position is kept."""

DAMAGE = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error)
"""Exceptions that the interpreter's own code raises on an invalid pickle."""

Persistent = Callable[[Any], Any]


class PickleMachine:
    """Reads pickles one after another from a stream."""

    __slots__ = ("called", "foreign", "globals", "marks", "memo", "persistent", "sparse", "stack", "stream", "units")

    stream: Stream
    persistent: Persistent
    """Resolves a persistent id."""

    def __init__(self, stream: Stream, persistent: Persistent) -> None:
        self.stream = stream
        self.persistent = persistent
        self.globals: dict[tuple[str, str], Global] = {}
        self.foreign: dict[str, Global] = {}
        """Globals that the pickle refers to and that are not on the list of harmless ones, by path."""
        self.called: dict[str, None] = {}
        """The paths of those that loading would call."""
        self.units = 0
        """Memory taken by values so far, in units of approximately 80 bytes."""
        self._begin()

    def _begin(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []
        self.sparse: dict[int, Any] = {}
        """Memo entries stored out of order; an index of any size takes one entry."""

    def load(self) -> Any:
        """The value of the next pickle; `ReadError` if it is incomplete or invalid."""
        self._begin()
        try:
            self._run()
        except Stop:
            value = self.stack.pop()
            self._begin()  # the memo holds every part of the value
            return value
        except DAMAGE as error:
            offset = self.stream.offset
            raise ReadError(
                f"{one_line(self.stream.region.path)}: the pickle is damaged near byte {offset}"
            ) from error
        raise self.stream.short()

    def _run(self) -> None:
        """The hot loop: handles the most common opcodes of real checkpoints, most frequent first."""
        stream, memo, sparse = self.stream, self.memo, self.sparse
        stack, handlers = self.stack, HANDLERS
        data, pos, safe = stream.data, stream.pos, stream.safe
        units = self.units
        while True:
            if pos >= safe:
                stream.pos, self.units = pos, units
                stream.refill()
                self.check_memory()
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
                    units += 2
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
                units += 1
            elif code == 0x74:  # TUPLE
                items = tuple(stack)
                stack = self.stack = self.marks.pop()
                stack.append(items)
                units += 1 + (len(items) >> 1)
            elif code == 0x86:  # TUPLE2
                second = stack.pop()
                stack[-1] = (stack[-1], second)
                units += 1
            elif code == 0x58 or code == 0x8C:  # BINUNICODE, SHORT_BINUNICODE
                width = 4 if code == 0x58 else 1
                length = int.from_bytes(data[pos : pos + width], "little")
                pos += width
                if length < 256 and pos + length <= len(data):
                    value = str(data[pos : pos + length], "utf-8", "backslashreplace")
                    stack.append(value)
                    pos += length
                    units += text_units(value)
                else:
                    stream.pos, self.units = pos, units
                    self.text(length)
                    if stream.data is not data:
                        self.check_memory()
                    data, pos, safe, units = stream.data, stream.pos, stream.safe, self.units
            elif code == 0x52 or code == 0x81:  # REDUCE, NEWOBJ
                args = stack.pop()
                self.units = units + 1
                stack[-1] = self.represent_call(stack[-1], args)
                units = self.units
            elif code == 0x51:  # BINPERSID
                stack[-1] = self.persistent(stack[-1])
                units += 1
            elif code == 0x89:  # NEWFALSE
                stack.append(False)
            elif code == 0x29:  # EMPTY_TUPLE
                stack.append(())
            elif code == 0x4D:  # BININT2
                stack.append(data[pos] | data[pos + 1] << 8)
                pos += 2
                units += 1
            elif code == 0x71:  # BINPUT
                index = data[pos]
                pos += 1
                if index == len(memo):
                    memo.append(stack[-1])
                else:
                    self.put(index)
                    units += 2
            elif code == 0x6A:  # LONG_BINGET
                index = int.from_bytes(data[pos : pos + 4], "little")
                pos += 4
                stack.append(memo[index] if index < len(memo) else sparse[index])
            else:
                stream.pos, self.units = pos, units
                handlers[code](self)
                if stream.data is not data:
                    self.check_memory()
                data, pos, safe, units = stream.data, stream.pos, stream.safe, self.units
                stack = self.stack

    def check_memory(self) -> None:
        """Raise `ReadError` if the values of the pickle would take too much memory."""
        stacked = len(self.stack) + sum(map(len, self.marks))
        if self.units + (stacked >> 1) + (len(self.memo) >> 3) > MAX_UNITS or len(self.marks) > MAX_MARKS:
            path = one_line(self.stream.region.path)
            raise ReadError(f"{path} is rejected: its pickle describes more values than any checkpoint has")

    def push(self, value: Any, units: int = 1) -> None:
        """Push a value that takes `units` of memory."""
        self.units += units
        self.stack.append(value)

    def text(self, length: int) -> None:
        """Push the next string, of `length` bytes; if it is long, skip it and push its position."""
        if length > MAX_TEXT_LENGTH:
            self.blob(length)
        else:
            value = str(self.stream.take(length), "utf-8", "backslashreplace")
            self.push(value, text_units(value))

    def blob(self, length: int) -> None:
        """Skip `length` bytes and push their position."""
        self.push(Blob(self.stream.skip(length), length))

    def put(self, index: int) -> None:
        """Store the top of the stack in the memo at `index`."""
        memo: Any = self.memo if 0 <= index < len(self.memo) else self.sparse
        memo[index] = self.stack[-1]

    def get(self, index: int) -> Any:
        """The memo entry at `index`."""
        return self.memo[index] if 0 <= index < len(self.memo) else self.sparse[index]

    def pop_mark(self) -> list[Any]:
        """Remove and return the values pushed since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def global_named(self, module: str, name: str) -> Global:
        """The global `module.name`; added to `foreign` if it is not a harmless one."""
        named = self.globals.get((module, name))
        if named is None:
            named = self.globals[module, name] = Global(module, name, HARMLESS.get((module, name)))
            self.units += 4
            if (module, name) not in HARMLESS:
                self.foreign[named.path] = named
        return named

    def represent_call(self, function: Any, args: Any) -> Any:
        """A stand-in for the result of calling `function`: inert data if it is harmless, else a stub."""
        if type(function) is Global:
            if function.build is not None:
                result = function.build(args)
                if type(result) in (dict, list, tuple) and result is not args and len(result) > _MANY:
                    self.units += len(result)  # a copy: a short pickle may ask for any number of them
                    self.check_memory()
                return result
            if function.path in self.foreign:
                self.called[function.path] = None
        return Stub(function, args)
