"""The trace scanner in pure Python: the fallback if the native one was not built, and its reference in tests."""

from __future__ import annotations

import re
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct, field
from numpy.typing import NDArray

from assay.trace.read.repairing import repaired, runs_on
from assay.trace.read.splitting import Splitter

COLUMNS = {
    "start": np.int64, "duration": np.int64, "name": np.int32, "track": np.int32, "shape": np.int32,
    "external": np.int32,
    "link_row": np.int64, "link_correlation": np.int64, "link_bytes": np.int64, "link_device": np.int32,
    "link_stream": np.int32,
    "sequence_row": np.int64, "sequence_number": np.int64, "sequence_backward": np.int8,
    "memory_time": np.int64, "memory_bytes": np.int64, "memory_total": np.int64, "memory_track": np.int32,
    "memory_device_type": np.int32, "memory_device": np.int32,
    "flow_id": np.int64, "flow_time": np.int64, "flow_track": np.int32, "flow_end": np.int8,
    "mark_time": np.int64, "mark_name": np.int32, "mark_track": np.int32, "mark_end": np.int8,
    "stack_row": np.int64, "stack_text": np.int32,
}  # fmt: skip
"""Every column and its type; the native scanner's sources document their contents."""

_NONE = Raw(b"")
_SEPARATOR = b"\x1f"
_INT64 = 1 << 63
_WHOLE = re.compile(rb"[+-]?[0-9]+(?=\.|\Z)")
_THREE_DECIMALS = re.compile(rb"-?[0-9]{1,15}\.[0-9]{3}\Z")
_PHASES = {bytes([letter]) for letter in b"BEXiICnbeSTpFstfPNODMVvRc(),="}
"""All phases defined by the trace format; most of them are not spans."""
_LABELS = (b"process_name", b"thread_name", b"process_labels")


class _Args(Struct):
    """The relevant arguments of an event, as raw JSON."""

    label: Raw = field(default=_NONE, name="name")
    labels: Raw = _NONE
    dims: Raw = field(default=_NONE, name="Input Dims")
    old_dims: Raw = field(default=_NONE, name="Input dims")
    external: Raw = field(default=_NONE, name="External id")
    old_external: Raw = field(default=_NONE, name="external id")
    correlation: Raw = _NONE
    sequence: Raw = field(default=_NONE, name="Sequence number")
    forward_thread: Raw = field(default=_NONE, name="Fwd thread id")
    stack: Raw = field(default=_NONE, name="Stack")
    call_stack: Raw = field(default=_NONE, name="Call stack")
    allocated: Raw = field(default=_NONE, name="Bytes")
    total: Raw = field(default=_NONE, name="Total Allocated")
    device_type: Raw = field(default=_NONE, name="Device Type")
    device_id: Raw = field(default=_NONE, name="Device Id")
    device: Raw = _NONE
    stream: Raw = _NONE
    copied: Raw = field(default=_NONE, name="bytes")
    finished: Raw = _NONE


class _Event(Struct):
    """The fields of an event, as raw JSON."""

    phase: Raw = field(default=_NONE, name="ph")
    category: Raw = field(default=_NONE, name="cat")
    name: Raw = _NONE
    time: Raw = field(default=_NONE, name="ts")
    duration: Raw = field(default=_NONE, name="dur")
    process: Raw = field(default=_NONE, name="pid")
    thread: Raw = field(default=_NONE, name="tid")
    id: Raw = _NONE
    finished: Raw = _NONE
    args: _Args | list[Any] | str | int | float | bool | None = None


_EVENTS = msgspec.json.Decoder(list[_Event])
_NO_ARGS = _Args()


class Scanner:
    """Turns the pieces of a file into columns, identical to those of the native scanner."""

    def __init__(self) -> None:
        self._splitter = Splitter()
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._texts: dict[str, dict[bytes, int]] = {"names": {}, "tracks": {}, "shapes": {}, "stacks": {}}
        self._labels: dict[tuple[bytes, bytes, bytes], bytes] = {}
        self._skipped: Counter[str] = Counter()
        self._phases: Counter[str] = Counter()
        self._unfinished = self._taken = self._untimed_ns = 0

    def feed(self, data: bytes, last: bool = False) -> None:
        """Scan the next piece of the file; `last` means that no other piece follows."""
        for text in self._splitter.feed(data, last):
            try:
                events = _EVENTS.decode(b"[" + text + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError):
                events = self._repaired(text)
            for event in events:
                self._keep(event)

    def rows(self) -> int:
        """The number of spans scanned since the last `take`."""
        return len(self._columns["start"])

    def take(self) -> dict[str, NDArray[Any]]:
        """The columns of everything scanned since the last `take`."""
        self._taken += self.rows()
        arrays = {name: np.array(self._columns[name], dtype=kind) for name, kind in COLUMNS.items()}
        for column in self._columns.values():
            column.clear()
        return arrays

    def tables(self) -> dict[str, Any]:
        """The texts that columns refer to by index, and all information stored once per file."""
        return {
            **{name: list(texts) for name, texts in self._texts.items()},
            "skipped": dict(self._skipped + self._splitter.skipped),
            "phases": dict(self._phases),
            "labels": [(*key, text) for key, text in sorted(self._labels.items())],
            "root": self._splitter.root,
            "unfinished": self._unfinished,
            "complete": self._splitter.complete,
        }

    def _repaired(self, text: bytes) -> list[_Event]:
        """The event of a text that is not valid JSON, repaired; several events are reread one at a time."""
        if self._splitter.reread(text):
            return []
        try:
            events = [] if runs_on(text) else _EVENTS.decode(b"[" + repaired(text) + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            events = []
        if not events:
            self._splitter.damaged(text)
        return events

    def _keep(self, event: _Event) -> None:
        phase = _unquoted(event.phase)[:1]
        self._phases[phase.decode() if b" " < phase < b"\x7f" else "?"] += 1
        args = event.args if isinstance(event.args, _Args) else _NO_ARGS
        name = _unquoted(event.name)
        if phase == b"X":
            self._keep_span(event, args)
        elif phase in (b"B", b"E"):
            self._keep_mark(event, phase)
        elif phase in (b"i", b"I") and name == b"[memory]":
            self._keep_memory(event, args)
        elif phase in (b"s", b"f") and _unquoted(event.category) == b"fwdbwd":
            self._keep_flow(event, phase)
        elif phase == b"M" and name in _LABELS:
            label = bytes(args.labels) or bytes(args.label)
            self._labels[name, bytes(event.process), bytes(event.thread)] = label
        elif phase not in _PHASES:
            self._skipped["with an unknown phase" if phase else "without a phase"] += 1

    def _keep_span(self, event: _Event, args: _Args) -> None:
        duration = parse_ns(bytes(event.duration))
        track: bytes | None = None
        if not bytes(event.time) and duration is not None and duration >= 0:
            self._skipped["without a timestamp, kept one after another"] += 1
            start, track = self._untimed_ns, _SEPARATOR
            self._untimed_ns += duration
        else:
            timed = self._time(event)
            if timed is None:
                return
            start = timed
        if duration is None or duration < 0:
            why = "without a duration" if duration is None else "with a negative duration"
            self._skipped[f"{why}, taken as 0"] += 1
            duration = 0
        self._unfinished += b"false" in (bytes(event.finished), bytes(args.finished))
        row = self._taken + self.rows()
        dims = bytes(args.old_dims) or bytes(args.dims)
        external = parse_int(bytes(args.old_external) or bytes(args.external))
        self._add(
            start=start,
            duration=duration,
            name=self._name(event),
            track=self._track(event) if track is None else self._id("tracks", track),
            shape=self._id("shapes", dims) if dims else -1,
            external=_narrow(0 if external is None else external),
        )
        self._keep_rest_of_span(args, row)

    def _keep_rest_of_span(self, args: _Args, row: int) -> None:
        correlation, sequence = parse_int(bytes(args.correlation)), parse_int(bytes(args.sequence))
        if correlation is not None:
            self._add(
                link_row=row,
                link_correlation=correlation,
                link_bytes=_or(args.copied, -1),
                link_device=_narrow(_or(args.device, -1)),
                link_stream=_narrow(_or(args.stream, -1)),
            )
        if sequence is not None and sequence >= 0:
            self._add(
                sequence_row=row,
                sequence_number=sequence,
                sequence_backward=int(_or(args.forward_thread, 0) != 0),
            )
        stack = bytes(args.call_stack) or bytes(args.stack)
        if stack:
            self._add(stack_row=row, stack_text=self._id("stacks", stack))

    def _keep_memory(self, event: _Event, args: _Args) -> None:
        time = self._time(event)
        if time is None:
            return
        size = parse_int(bytes(args.allocated))
        if size is None:
            self._skipped["an allocation without its size"] += 1
            return
        self._add(
            memory_time=time,
            memory_bytes=size,
            memory_total=_or(args.total, -1),
            memory_track=self._track(event),
            memory_device_type=_narrow(_or(args.device_type, -1)),
            memory_device=_narrow(_or(args.device_id, -1)),
        )

    def _keep_flow(self, event: _Event, phase: bytes) -> None:
        number = parse_int(bytes(event.id))
        time = self._time(event) if number is not None else None
        if number is not None and time is not None:
            self._add(flow_id=number, flow_time=time, flow_track=self._track(event), flow_end=int(phase == b"f"))

    def _keep_mark(self, event: _Event, phase: bytes) -> None:
        time = self._time(event)
        if time is not None:
            name, track = self._name(event), self._track(event)
            self._add(mark_time=time, mark_name=name, mark_track=track, mark_end=int(phase == b"E"))

    def _add(self, **values: int) -> None:
        for column, value in values.items():
            self._columns[column].append(value)

    def _id(self, kind: str, text: bytes) -> int:
        texts = self._texts[kind]
        return texts.setdefault(text, len(texts))

    def _name(self, event: _Event) -> int:
        return self._id("names", _unquoted(event.category) + _SEPARATOR + _unquoted(event.name))

    def _track(self, event: _Event) -> int:
        return self._id("tracks", bytes(event.process) + _SEPARATOR + bytes(event.thread))

    def _time(self, event: _Event) -> int | None:
        time = parse_ns(bytes(event.time))
        if time is None:
            why = "with an unreadable timestamp" if bytes(event.time) else "without a timestamp"
            self._skipped[why] += 1
        return time


def parse_int(raw: bytes) -> int | None:
    """The number truncated to an integer; None if it is not a number or does not fit 64 bits."""
    match = _WHOLE.match(_unquoted(raw))
    value = None if match is None else int(match[0])
    return value if value is not None and -_INT64 < value < _INT64 else None


def parse_ns(raw: bytes) -> int | None:
    """Decimal microseconds as whole nanoseconds, exactly; half a nanosecond rounds away from zero."""
    text = _unquoted(raw)
    if _THREE_DECIMALS.match(text):
        return int(text.replace(b".", b""))
    try:
        value = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not value.is_finite() or abs(value.adjusted()) > 30:
        return None
    whole = int(value.scaleb(3).quantize(Decimal(1), ROUND_HALF_UP)) if value else 0
    return whole if abs(whole) < _INT64 - 16 else None


def nest(
    start: NDArray[np.int64],
    duration: NDArray[np.int64],
    track: NDArray[np.int32],
    soft: NDArray[np.uint8],
    rows: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], int]:
    """Rows sorted by track and start, the index of each one's parent, their ends, and the number of spans cut.

    Of two spans that overlap without nesting, the soft one is cut; if both are equal, the one that loses less.
    """
    order = rows[np.lexsort((-duration[rows], start[rows], track[rows]))]
    tracks, starts, softness = track[order].tolist(), start[order].tolist(), soft[order].tolist()
    ends = (start[order] + duration[order]).tolist()
    parents = [-1] * len(order)
    open_: list[int] = []
    cuts = 0
    for place, begin in enumerate(starts):
        if place and tracks[place] != tracks[place - 1]:
            open_.clear()
        while open_ and ends[open_[-1]] <= begin:
            open_.pop()
        while open_ and ends[place] > ends[open_[-1]]:
            around = open_[-1]
            cuts += 1
            if (softness[place], ends[around] - begin) >= (softness[around], ends[place] - ends[around]):
                ends[place] = ends[around]
                break
            ends[around] = begin
            open_.pop()
        parents[place] = open_[-1] if open_ else -1
        open_.append(place)
    return (
        order.astype(np.int32),
        np.array(parents, dtype=np.int32),
        np.array(ends, dtype=np.int64),
        cuts,
    )


def nearest(parent: NDArray[np.int32], flag: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Per span, the innermost flagged span among itself and its ancestors; -1 if none."""
    spans: list[int] = []
    for place, (above, flagged) in enumerate(zip(parent.tolist(), flag.tolist(), strict=True)):
        spans.append(place if flagged else -1 if above < 0 else spans[above])
    return np.array(spans, dtype=np.int32)


def own(
    parent: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64], flag: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """The time of each flagged span without the flagged spans nested in it; 0 for the rest."""
    around = nearest(parent, flag)
    flagged = np.flatnonzero(flag)
    times = np.zeros(len(parent), dtype=np.int64)
    times[flagged] = (end - start)[flagged]
    inner = flagged[parent[flagged] >= 0]
    above = around[parent[inner]]
    np.subtract.at(times, above[above >= 0], (end - start)[inner[above >= 0]])
    return times


def _unquoted(raw: Raw | bytes) -> bytes:
    text = bytes(raw)
    return text[1:-1] if len(text) >= 2 and text[:1] == b'"' else text


def _or(raw: Raw, otherwise: int) -> int:
    value = parse_int(bytes(raw))
    return otherwise if value is None else value


def _narrow(value: int) -> int:
    return value if -(1 << 31) <= value < 1 << 31 else -1
