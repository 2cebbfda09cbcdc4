"""Encoding of plain values as bytes: equal if and only if the values are equal, regardless of key order."""

from __future__ import annotations

import msgspec

canonical = msgspec.json.Encoder(order="deterministic").encode
