"""Tensors quantised in blocks: what their stored bytes tell, beside the statistics of the values they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.statistics.analysis import analyse_here
from assay.checkpoint.statistics.chunks import Weight, plan
from assay.checkpoint.statistics.engine import FAILURES
from assay.document.weights import TensorStatistics


def with_stored_bytes(coded: EncodedBytes, row: TensorStatistics, read: Callable[[Any], Any]) -> TensorStatistics:
    """The row of dequantised values with the entropy and the digest of the bytes in the file, and a note on it."""
    span = coded.span
    stored = Weight(row.names, "uint8", (span.length,), span.file, span.offset, span.length)
    try:
        found = analyse_here(plan(0, stored), read)
    except FAILURES as error:
        return replace(row, problem=f"its stored bytes cannot be read: {error}")
    bits = None if found.entropy_bits is None else found.entropy_bits * span.length / row.count
    return replace(
        row,
        note=f"statistics of the dequantised values; {8 * span.length / row.count:.4g} bits a weight in the file",
        content=found.content,
        entropy_bytes=found.entropy_bytes,
        entropy_bits=bits,
    )
