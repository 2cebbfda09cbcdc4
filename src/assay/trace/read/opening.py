"""The bytes of a trace file in pieces; gzip is recognised by its first bytes, and truncated files are accepted."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from assay.errors import ReadError
from assay.messages import unreadable

PIECE = 1 << 20
GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

Progress = Callable[[int, int], None]


class Pieces:
    """Iterates over the file's uncompressed bytes; afterwards `problem` is why they ended early, if they did."""

    def __init__(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        self.path = Path(path)
        self.problem = ""
        self._progress = progress

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from self._unpacked(self._read(file))
        except OSError as error:
            raise ReadError(unreadable(self.path, error)) from error

    def _read(self, file: BinaryIO) -> Iterator[bytes]:
        size = self.path.stat().st_size
        done = 0
        while piece := file.read(PIECE):
            yield piece
            done += len(piece)
            if self._progress is not None:
                self._progress(done, size)

    def _unpacked(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        first = next(pieces, b"")
        if not first.startswith(GZIP):
            yield first
            yield from pieces
            return
        stream = zlib.decompressobj(_GZIP_WINDOW)
        piece: bytes | None = first
        while piece is not None:
            try:
                yield stream.decompress(piece, PIECE)
            except zlib.error as error:
                self.problem = f"the gzip stream is damaged ({error})"
                return
            rest = stream.unconsumed_tail
            if stream.eof:
                rest = stream.unused_data.lstrip(b"\0")
                stream = zlib.decompressobj(_GZIP_WINDOW) if rest.startswith(GZIP) else stream
                rest = rest if rest.startswith(GZIP) else b""
            piece = rest or next(pieces, None)
        yield stream.flush()
        if not stream.eof:
            self.problem = "the gzip stream is truncated"
