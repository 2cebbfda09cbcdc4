"""The public Python name of a dispatcher op: `aten.conv2d` is `torch.conv2d`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec


def public_name(namespace: str, base: str) -> str:
    """The name as written in Python code: `public_name("aten", "linear") == "torch.nn.functional.linear"`."""
    default = f"torch.ops.{namespace}.{base}"
    return _public_aten().get(base, default) if namespace == "aten" else default


@cache
def _public_aten() -> dict[str, str]:
    """The public names of ATen ops, by base name."""
    data = files("assay.document").joinpath("op_names.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])
