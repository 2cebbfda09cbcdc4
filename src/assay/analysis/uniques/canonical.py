"""Plain values as bytes that are equal exactly when the values are, whatever the order of their keys."""

from __future__ import annotations

import msgspec

canonical = msgspec.json.Encoder(order="deterministic").encode
