"""How long each operation of a recorded pass takes, without what recording it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.document.rows import Op, OpKind
from assay.timing.device import now

BODIES = frozenset(f"higher_order.{name}" for name in ("cond", "while_loop", "scan", "map_impl"))
"""Operators that are nothing but their bodies, whose operations have times of their own."""


class OpClock:
    """Times the operations it is asked to call, by the processor's clock."""

    def __init__(self) -> None:
        self._spent: list[int] = []

    def __enter__(self) -> OpClock:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result."""
        begin = now()
        result = func(*args, **kwargs)
        self._spent.append(now() - begin)
        return result

    def times_ns(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The time of each operation in the order of `ops`; None for one that is only its body."""
        spent = iter(self._spent)
        return [None if kinds[op.kind].target in BODIES else next(spent) for op in ops]
