"""Handlers of the pickle opcodes outside the hot loop: one table, one small function each."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from assay.checkpoint.pickle.values import Array, ArrayType, Blob, Global, Stub

if TYPE_CHECKING:
    from assay.checkpoint.pickle.machine import PickleMachine

MAX_LINE_LENGTH = 1 << 16
MAX_STRING_LENGTH = 1 << 12
MAX_NUMBER_LENGTH = 512
"""Limit for the bytes or digits of an integer; parsing longer ones takes more than linear time."""
MAX_KEY = 1 << 60
"""Larger integers can be chosen so that their hashes all collide in a dictionary."""

Handler = Callable[["PickleMachine"], object]


class Stop(Exception):
    """The end of the pickle was reached."""


def text_units(text: str) -> int:
    """The memory of a string in the machine's units: one emoji makes all its characters four bytes wide."""
    return 1 + (len(text) >> (6 if text.isascii() else 4))


def _empty(kind: type) -> Handler:
    return lambda machine: machine.push(kind())


def _sized(width: int, push: Callable[[PickleMachine, int], None]) -> Handler:
    return lambda machine: push(machine, machine.stream.number(width))


def _text(machine: PickleMachine, length: int) -> None:
    machine.text(length)


def _string(machine: PickleMachine, length: int) -> None:
    """Push a Python 2 string; if it is not UTF-8, treat it as bytes."""
    start = machine.stream.offset
    if length > MAX_STRING_LENGTH:
        machine.blob(length)
        return
    data = machine.stream.take(length)
    try:
        text = data.decode("utf-8")
        machine.push(text, text_units(text))
    except UnicodeError:
        machine.push(Blob(start, length))


def _blob(machine: PickleMachine, length: int) -> None:
    machine.blob(length)


def _long(machine: PickleMachine, length: int) -> None:
    if length > MAX_NUMBER_LENGTH:
        raise ValueError(length)
    machine.push(machine.stream.number(length, signed=True), 1 + length // 64)


def _raw_line(machine: PickleMachine) -> bytes:
    line = machine.stream.line(MAX_LINE_LENGTH)
    machine.units += 1 + (len(line) >> 4)
    return line


def _line(machine: PickleMachine) -> str:
    return _raw_line(machine).decode("utf-8", "backslashreplace")


def _line_int(machine: PickleMachine) -> None:
    line = _line(machine)
    if len(line) > MAX_NUMBER_LENGTH:
        raise ValueError(line)
    machine.stack.append(line == "01" if line in ("00", "01") else int(line.rstrip("L")))


def _line_string(machine: PickleMachine) -> None:
    line = _raw_line(machine)
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in (b"'", b'"'):
        raise ValueError(line)
    raw = codecs.escape_decode(line[1:-1])[0]
    machine.stack.append(raw.decode("utf-8", "backslashreplace"))


def _line_unicode(machine: PickleMachine) -> None:
    text = codecs.raw_unicode_escape_decode(_raw_line(machine))[0]
    machine.stack.append(text.encode("utf-8", "backslashreplace").decode())


def _put_line(machine: PickleMachine) -> None:
    machine.units += 2
    machine.put(int(_line(machine)))


def _tuple_of(count: int) -> Handler:
    def push(machine: PickleMachine) -> None:
        items = tuple(machine.stack[-count:])
        if len(items) != count:
            raise IndexError(count)
        del machine.stack[-count:]
        machine.push(items)

    return push


def _list(machine: PickleMachine) -> None:
    items = machine.pop_mark()
    machine.push(items, 1 + (len(items) >> 1))


def _dict(machine: PickleMachine) -> None:
    items = machine.pop_mark()
    machine.stack.append({})
    _set_pairs(machine, items)


def _set_item(machine: PickleMachine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set_pairs(machine, [key, value])


def _set_pairs(machine: PickleMachine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if len(items) % 2:
        raise ValueError(len(items))
    machine.units += 3 + len(items)
    pairs = zip(items[::2], items[1::2], strict=True)
    if type(target) is dict:
        for key, value in pairs:
            target[key if type(key) is str else _key(key)] = value
    elif isinstance(target, Stub):
        target.extend(pairs)
    else:
        raise TypeError(target)


def _key(value: Any) -> Any:
    """A key that is safe to hash: large integers and tuples become text, so that they cannot be made to collide."""
    if isinstance(value, tuple):
        parts = [str(item) for item in value[:8] if isinstance(item, (str, int, float))]
        return f"({', '.join(parts)})"
    if isinstance(value, int) and abs(value) > MAX_KEY:
        return hex(value)
    if isinstance(value, Blob):
        return f"bytes at {value.start}"
    return value


def _extend(machine: PickleMachine, items: list[Any]) -> None:
    target = machine.stack[-1]
    machine.units += 1 + (len(items) >> 1)
    if type(target) is not list and not isinstance(target, Stub):
        raise TypeError(target)
    target.extend(items)


def _global_line(machine: PickleMachine) -> Global:
    return machine.global_named(_line(machine), _line(machine))


def _global_stack(machine: PickleMachine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError(name)
    machine.stack.append(machine.global_named(module, name))


def _extension(machine: PickleMachine, code: int) -> None:
    machine.stack.append(machine.global_named("copyreg", f"extension {code}"))


def _new_object_with_names(machine: PickleMachine) -> None:
    names, args = machine.stack.pop(), machine.stack.pop()
    result = machine.represent_call(machine.stack[-1], args)
    if isinstance(result, Stub) and isinstance(names, dict) and names:
        result.state = names
    machine.stack[-1] = result


def _instance(machine: PickleMachine) -> None:
    function, args = _global_line(machine), tuple(machine.pop_mark())
    machine.stack.append(machine.represent_call(function, args))


def _object(machine: PickleMachine) -> None:
    function, *args = machine.pop_mark()
    machine.stack.append(machine.represent_call(function, tuple(args)))


def _build(machine: PickleMachine) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if isinstance(target, Stub):
        target.state = state
    elif isinstance(target, Array):
        target.set_state(state)
    elif isinstance(target, ArrayType) and isinstance(state, tuple):
        target.order = str(state[1])


def _stop(machine: PickleMachine) -> None:
    if not machine.stack:
        raise IndexError
    raise Stop


HANDLERS: dict[int, Handler] = {
    # numbers and constants
    0x4E: lambda machine: machine.stack.append(None),
    0x88: lambda machine: machine.stack.append(True),
    0x4A: lambda machine: machine.push(machine.stream.number(4, signed=True)),
    0x47: lambda machine: machine.push(struct.unpack(">d", machine.stream.take(8))[0]),
    0x46: lambda machine: machine.stack.append(float(_line(machine))),
    0x49: _line_int, 0x4C: _line_int, 0x8A: _sized(1, _long), 0x8B: _sized(4, _long),
    # strings and bytes; bytes are skipped
    0x8D: _sized(8, _text), 0x54: _sized(4, _string), 0x55: _sized(1, _string),
    0x53: _line_string, 0x56: _line_unicode,
    0x42: _sized(4, _blob), 0x43: _sized(1, _blob), 0x8E: _sized(8, _blob), 0x96: _sized(8, _blob),
    # containers
    0x5D: _empty(list), 0x7D: _empty(dict), 0x8F: _empty(list), 0x85: _tuple_of(1), 0x87: _tuple_of(3),
    0x6C: _list, 0x64: _dict, 0x91: _list,
    0x61: lambda machine: _extend(machine, [machine.stack.pop()]),
    0x65: lambda machine: _extend(machine, machine.pop_mark()),
    0x90: lambda machine: _extend(machine, machine.pop_mark()),
    0x73: _set_item,
    0x75: lambda machine: _set_pairs(machine, machine.pop_mark()),
    # the stack and the memo
    0x30: lambda machine: machine.stack.pop() if machine.stack else machine.pop_mark(),
    0x31: lambda machine: machine.pop_mark(),
    0x32: lambda machine: machine.stack.append(machine.stack[-1]),
    0x67: lambda machine: machine.stack.append(machine.get(int(_line(machine)))),
    0x70: _put_line,
    # objects; an out-of-band buffer becomes a stub, and READONLY_BUFFER is ignored
    0x63: lambda machine: machine.stack.append(_global_line(machine)),
    0x93: _global_stack, 0x92: _new_object_with_names, 0x69: _instance, 0x6F: _object, 0x62: _build,
    0x50: lambda machine: machine.stack.append(machine.persistent(_line(machine))),
    0x82: _sized(1, _extension), 0x83: _sized(2, _extension), 0x84: _sized(4, _extension),
    0x97: lambda machine: machine.stack.append(Stub(Global("pickle", "PickleBuffer", None), ())),
    0x98: lambda machine: None,
    # framing
    0x80: lambda machine: machine.stream.take(1),
    0x95: lambda machine: machine.stream.take(8),
    0x2E: _stop,
}  # fmt: skip
