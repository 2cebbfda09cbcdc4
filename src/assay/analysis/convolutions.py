"""Which ops are convolutions: those that models in Python call, and the general ones that traced files call."""

from __future__ import annotations

from assay.document.rows import OpKind

_PLAIN = frozenset({"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten._convolution_mode"})
_TRANSPOSED = frozenset({"aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"})
_GENERAL = frozenset({"aten.convolution", "aten._convolution"})
"""Ops whose attribute `transposed` decides."""


def is_convolution(kind: OpKind) -> bool:
    """Whether it is a convolution, transposed or not."""
    return kind.target.rpartition(".")[0] in _PLAIN | _TRANSPOSED | _GENERAL


def is_plain_convolution(kind: OpKind) -> bool:
    """Whether it is a convolution that is not transposed."""
    name = kind.target.rpartition(".")[0]
    return name in _PLAIN or (name in _GENERAL and not kind.attributes.get("transposed"))
