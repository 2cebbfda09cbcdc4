"""The KV cache of a decoder as a function of batch and length."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from assay.document.document import Document, KeyValueCache
from assay.document.provenance import Counted, Figure, Modelled
from assay.errors import UsageError

LINEAR = (
    "the cache grows linearly with batch and length: one capture cannot show a sliding window or a fixed state, "
    "which would limit it"
)


class KeyValue(Struct, frozen=True, omit_defaults=True):
    """A KV cache of `batch × (fixed + per_token × length)` bytes."""

    captured: KeyValueCache
    """The cache that the capture returned."""
    per_token: float
    """Bytes per token of each sequence."""
    fixed: float = 0
    """Bytes per sequence that do not depend on its length."""
    how: Counted | Modelled = Modelled("bytes of the captured cache ÷ its tokens", (LINEAR,))

    def at(self, batch: int, length: int) -> Figure:
        """Bytes for `batch` sequences of `length` tokens."""
        size = batch * (Fraction(self.fixed) + Fraction(self.per_token) * length)
        captured = (batch, length) == (self.captured.batch, self.captured.length)
        how = Counted("the captured cache") if captured else self.how
        return Figure(self.captured.bytes if captured else round(size), how)


def key_value(document: Document) -> KeyValue | None:
    """The KV cache that the document's forward pass returned; None if it returned none."""
    cache = document.run.cache
    if cache is None or not cache.batch * cache.length:
        return None
    return KeyValue(cache, cache.bytes / (cache.batch * cache.length))


def key_value_of_two(first: Document, second: Document) -> KeyValue:
    """The cache as a fixed part and a part per token, from captures of one model at two lengths."""
    shorter, longer = sorted((_cache(first), _cache(second)), key=lambda cache: cache.length)
    if shorter.length == longer.length:
        raise UsageError(f"both captures have length {longer.length}: capture two different lengths")
    low, high = Fraction(shorter.bytes, shorter.batch), Fraction(longer.bytes, longer.batch)
    slope = (high - low) / (longer.length - shorter.length)
    how = Modelled(
        f"linear fit to the caches at lengths {shorter.length} and {longer.length}",
        ("no sliding window limits the cache at other lengths",),
    )
    return KeyValue(longer, float(slope), float(low - slope * shorter.length), how)


def _cache(document: Document) -> KeyValueCache:
    if document.run.cache is None:
        raise UsageError(f"{document.origin.name or document.model_class} did not return a KV cache")
    return document.run.cache
