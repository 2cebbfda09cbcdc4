"""A progress line on stderr for long reads: bytes, speed and time left."""

from __future__ import annotations

import sys
import time

from assay import units

_EVERY_S = 0.1
_WIDTH = 24
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Redraws itself as bytes are read and clears itself at the end; prints nothing unless stderr is a terminal."""

    def __init__(self, enabled: bool = True) -> None:
        self._shown = enabled and sys.stderr.isatty()
        self._start = time.monotonic()
        self._next = self._start + _EVERY_S

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + _EVERY_S
            sys.stderr.write(_CLEAR + line(done, total, now - self._start))
            sys.stderr.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def line(done: int, total: int, elapsed_s: float) -> str:
    """A progress bar as text: `[######      ] 25.0 %  1 GiB of 4 GiB  2.15 GB/s  1.5 s left`."""
    bar = "#" * (_WIDTH * done // total if total else _WIDTH)
    speed = done / elapsed_s if elapsed_s > 0 else 0.0
    left_s = (total - done) / speed if speed else None
    parts = (
        f"[{bar:<{_WIDTH}}] {units.share(done, total)}",
        f"{units.size(done)} of {units.size(total)}",
        f"{speed / 1e9:.2f} GB/s",
        f"{units.seconds(left_s)} left",
    )
    return "  ".join(parts)
