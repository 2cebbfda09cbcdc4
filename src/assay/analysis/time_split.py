"""Where the time of a pass goes: the module tree split into a few rows that add up to the pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from assay.analysis.name_ranges import fold_names, odd_one
from assay.document import tree
from assay.document.document import Document
from assay.document.timing import ModuleTime, Timing

MAX_ROWS = 10
"""If there are more rows, none is split further, and the smallest are summed."""
_LARGE = 1 / 3
"""Rows above this share of the pass are split further."""
_SMALL = 0.005
"""Rows below this share of the pass are summed."""
OUTSIDE = "outside any module"


class TimeRow(Struct, frozen=True):
    """A module, or the same module of repeated blocks, including submodules; or a sum of what is not listed."""

    name: str
    """Its path, with ranges for several modules: `layers.0–31.mlp`."""
    class_name: str
    count: int
    """Number of modules."""
    seconds: float | None
    """Seconds of all of them; None if only shares are known."""
    share: float
    """Their share of the pass."""
    own: bool = False
    """Whether only the ops that the modules run themselves are meant."""
    odd: tuple[str, float] | None = None
    """The one module that takes much longer than the others of the row, and how many times as long."""


class TimeSplit(Struct, frozen=True):
    """The rows of a pass, longest first; together with `rest`, they add up to the pass."""

    rows: list[TimeRow]
    rest: list[TimeRow]
    """The sum of the rows that are not listed, and the time outside any module, if there is any."""
    on_device: bool
    """Whether the times are those of kernels."""


class _Clock(Struct, frozen=True):
    """Where the times of modules and of the pass are read."""

    own: Callable[[ModuleTime], float | None]
    total: Callable[[ModuleTime], float | None]
    whole: Callable[[Timing], float | int | None]

    def knows(self, timing: Timing) -> bool:
        return any(time and (self.own(time) is not None or self.total(time) is not None) for time in timing.modules)


_DEVICE = _Clock(
    lambda time: time.device_self_s, lambda time: time.device_total_s, lambda timing: timing.device.value
)
_HOST = _Clock(
    lambda time: time.self_s,
    lambda time: time.total_s,
    lambda timing: timing.whole.value if timing.host.value is None else timing.host.value,
)
_SHARES = _Clock(lambda time: time.self_share, lambda time: time.total_share, lambda timing: 1.0)


def time_split(document: Document) -> TimeSplit | None:
    """The split of the timed pass; None if neither times nor shares are known."""
    timing = document.timing or Timing()
    clock = next((clock for clock in (_DEVICE, _HOST, _SHARES) if clock.knows(timing)), None)
    if clock is None:
        return None
    splitter = _Splitter(document, timing, clock)
    parts = sorted(splitter.split(), key=lambda part: -part.time)
    kept = [part for part in parts if part.time >= _SMALL * splitter.whole][:MAX_ROWS]
    omitted = parts[len(kept) :]
    rest = [_Part(f"{len(omitted)} more", (), sum(part.time for part in omitted))] if omitted else []
    rest += [_Part(OUTSIDE, (), splitter.outside)] if splitter.outside else []
    return TimeSplit(list(map(splitter.row, kept)), list(map(splitter.row, rest)), clock is _DEVICE)


class _Part(Struct, frozen=True):
    """Modules that share a row; with `own`, only their own ops."""

    name: str
    modules: tuple[int, ...]
    time: float
    own: bool = False


class _Splitter:
    """The module tree with the time of each module."""

    def __init__(self, document: Document, timing: Timing, clock: _Clock) -> None:
        self._modules, self._clock = document.modules, clock
        self._children = tree.children(document.modules)
        self._own, self._total = self._times(timing)
        roots = [index for index, module in enumerate(document.modules) if module.parent is None]
        self._roots = self._folded(roots)
        inside = sum(self._total[root] for root in roots)
        self.outside = max((clock.whole(timing) or 0.0) - inside, 0.0)
        self.whole = inside + self.outside

    def _times(self, timing: Timing) -> tuple[list[float], list[float]]:
        """The time of each module without and with its submodules; its total says it if its own time is unknown."""
        own, total = [0.0] * len(self._modules), [0.0] * len(self._modules)
        for index in range(len(self._modules) - 1, -1, -1):
            time = timing.modules[index] if index < len(timing.modules) else None
            alone, everything = (self._clock.own(time), self._clock.total(time)) if time else (None, None)
            own[index] = alone if alone is not None else max((everything or 0.0) - total[index], 0.0)
            total[index] += own[index]
            parent = self._modules[index].parent
            if parent is not None:
                total[parent] += total[index]
        return own, total

    def split(self) -> list[_Part]:
        """Parts that cover the tree: the largest are split until all are small or there are many."""
        parts = [settled for root in self._roots for settled in self._settled(root)]
        while sum(part.time >= _SMALL * self.whole for part in parts) <= MAX_ROWS:
            large = [part for part in parts if part.time > _LARGE * self.whole and self._inner(part)]
            if not large:
                break
            largest = max(large, key=lambda part: part.time)
            parts.remove(largest)
            parts += [settled for part in self._expanded(largest) for settled in self._settled(part)]
        return parts

    def _settled(self, part: _Part) -> list[_Part]:
        """The part, or what it consists of as long as that is a single part."""
        beside: list[_Part] = []
        while len(inner := self._inner(part)) == 1 and part.time - inner[0].time <= _SMALL * self.whole:
            beside += self._own_ops(part)
            part = inner[0]
        return [part, *beside]

    def _expanded(self, part: _Part) -> list[_Part]:
        return [*self._inner(part), *self._own_ops(part)]

    def _inner(self, part: _Part) -> list[_Part]:
        """The parts inside, one for equal names with different numbers and the same class."""
        return [] if part.own else self._folded(child for index in part.modules for child in self._children[index])

    def _own_ops(self, part: _Part) -> list[_Part]:
        time = sum(self._own[index] for index in part.modules)
        return [_Part(part.name, part.modules, time, own=True)] if time else []

    def _folded(self, indices: Iterable[int]) -> list[_Part]:
        timed = [index for index in indices if self._total[index]]
        modules = [self._modules[index] for index in timed]
        names, classes = [tree.path_text(each.path) for each in modules], [each.class_path for each in modules]
        parts = []
        for folded in fold_names(names, classes, whole=True):
            members = tuple(timed[at] for at in folded.members)
            parts.append(_Part(folded.text, members, sum(self._total[index] for index in members)))
        return parts

    def row(self, part: _Part) -> TimeRow:
        """The row of a part."""
        times = self._own if part.own else self._total
        # Shares of times that were withheld are too rough to single one out.
        odd = None if self._clock is _SHARES else odd_one([times[index] for index in part.modules])
        return TimeRow(
            name=part.name,
            class_name=self._modules[part.modules[0]].class_name if part.modules else "",
            count=len(part.modules),
            seconds=None if self._clock is _SHARES else part.time,
            share=part.time / self.whole,
            own=part.own,
            odd=(self._modules[part.modules[odd[0]]].path, odd[1]) if odd else None,
        )
