"""The error of code that is not interpreted, and the limits of one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NoReturn

from assay.errors import ReadError
from assay.messages import ALLOW_CODE

MAX_STEPS = 200_000
"""Statements and calls in a pass; the largest of 120 real files takes 20,000."""
MAX_OPS = 50_000
MAX_SECONDS = 0.9
"""CPU time of the passes of a small file; a traced GPT-2 of 48 layers takes 0.4 s, a Llama of 80 layers 1.2 s."""
MAX_ASSUMED_ROUNDS = 1000
"""Rounds of a loop in which conditions were assumed."""
MAX_CALLS = 60
"""Depth of nested calls."""
MAX_NESTING = 60
"""Depth of nested containers."""
MAX_ITEMS = 50_000
"""Items of a list, characters of a string, and leaves of nested containers."""
MAX_TENSORS = 100_000
"""Results of all ops of a pass."""
MAX_OUTPUTS = 10_000
"""Tensors that one op may return."""
MAX_KNOWN_BYTES = 48 << 20
"""Bytes of the tensors with known values that exist at one time."""
LARGEST_INTEGER = (1 << 63) - 1


class Refusal(ReadError):
    """The code does something that is not interpreted, or exceeds a limit."""

    verb: ClassVar[str] = "is not interpreted"
    """What a message says of the place in the file."""
    remedy: ClassVar[str] = f"; to run the file itself, {ALLOW_CODE}"
    """What to do about it; empty if running the file with data would fail as well."""


class Exceeded(Refusal):
    """The code exceeds a limit."""

    verb = "exceeds a limit"


class Endless(Exceeded):
    """A loop did not end, because its condition depends on values that exist only with data."""

    verb = "does not end on shapes"


class Failed(Refusal):
    """An operator cannot be applied to its arguments."""

    verb, remedy = "failed", ""


class Raised(Refusal):
    """The code itself raised an error, as for an input of the wrong shape."""

    verb, remedy = "raised", ""


def refuse(what: str) -> NoReturn:
    """Raise `Refusal`."""
    raise Refusal(what)


def exceed(what: str) -> NoReturn:
    """Raise `Exceeded`."""
    raise Exceeded(what)


class StepBudget:
    """The steps of one pass: statements, calls, and the work that operators do beyond a single step; and its time."""

    def __init__(self, allowance: float = 1.0, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._most = self._left = allowance * MAX_SECONDS
        self.begin()

    def begin(self) -> None:
        """Begin a pass."""
        self._steps = 0
        self._began = self._clock()

    def fail(self) -> None:
        """End a pass that failed: the time that it took is not available to the next ones, which try other inputs."""
        self._left -= self._clock() - self._began

    @property
    def is_half_spent(self) -> bool:
        """Whether half of the CPU time was used."""
        return self._clock() - self._began > self._left / 2

    def spend(self, steps: int = 1) -> None:
        """Count steps; refuses more than a pass may take."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            exceed(f"a pass of more than {MAX_STEPS:,} steps")
        if self._clock() - self._began > self._left:
            exceed(f"more than {self._most:.2g} s of CPU time")


def checked_integer(value: int) -> int:
    """`value`, if TorchScript's integers can hold it."""
    return value if -LARGEST_INTEGER - 1 <= value <= LARGEST_INTEGER else exceed("an integer of more than 64 bits")


def checked_text(text: str) -> str:
    """`text`, if it is not too long."""
    return text if len(text) <= MAX_ITEMS else exceed(f"a string of more than {MAX_ITEMS:,} characters")


def leaves(value: Any, forbidden: Iterable[Any] = (), limit: int = MAX_ITEMS) -> int:
    """The number of items in nested containers; refuses too many, and one that contains a `forbidden` object."""
    banned = {id(each) for each in forbidden}
    count = 0
    for item in _items(value):
        count += 1
        if id(item) in banned:
            refuse("a container contains itself")
        if count > limit:
            exceed(f"nested containers of more than {limit:,} items")
    return count


def leaves_exceed(value: Any, limit: int) -> bool:
    """Whether nested containers have more than `limit` items; one that contains itself has."""
    return any(count >= limit for count, _ in enumerate(_items(value)))


def _items(value: Any) -> Iterator[Any]:
    """The containers and other values in a nested container, that itself first."""
    pending = [iter((value,))]
    while pending:
        item = next(pending[-1], _END)
        if item is _END:
            pending.pop()
            continue
        yield item
        if isinstance(item, (list, tuple, dict)):
            if len(pending) > MAX_NESTING:
                exceed(f"containers that nest more than {MAX_NESTING} levels deep")
            pending.append(iter(item.values() if isinstance(item, dict) else item))


_END = object()
