"""Descriptions of tensors to create: shape, dtype and range, written `input_ids=1x128:int64[0,50257]`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from assay import units
from assay.errors import InputsError
from assay.messages import one_line
from assay.sources.needs import need

DTYPES = {
    "float32": "f32 float fp32",
    "float64": "f64 double fp64",
    "float16": "f16 half fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8 fp8",
    "float8_e5m2": "",
    "complex64": "c64",
    "complex128": "c128",
    "int64": "i64 long",
    "int32": "i32 int",
    "int16": "i16 short",
    "int8": "i8",
    "uint8": "u8 byte",
    "bool": "b1",
}
"""The dtypes that a literal can use, each with its short names."""

_BY_NAME = {short: name for name, shorts in DTYPES.items() for short in (name, *shorts.split())}
_REAL_RANDOM = ("float32", "float64", "complex64", "complex128")
"""Dtypes in which torch draws normal numbers directly; the rest are converted from float32."""


class TensorSpec(Struct, frozen=True):
    """A tensor to create: `TensorSpec((1, 128), "int64", name="input_ids", low=0, high=50257)`."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str | None = None
    low: int | None = None
    high: int | None = None
    """Values are drawn from `low` up to, but not including, `high`; None: normal numbers, or 0 and 1 for integers."""
    values: tuple[int, ...] | None = None
    """The exact values, if random ones would not be valid."""

    @property
    def floating(self) -> bool:
        """Whether the dtype is floating-point or complex."""
        return is_floating(self.dtype)

    @property
    def text(self) -> str:
        """The literal that describes this tensor."""
        low, high = (min(self.values), max(self.values) + 1) if self.values else (self.low, self.high)
        span = "" if high is None else f"[{low or 0},{high}]"
        label = "" if self.name is None else f"{self.name}="
        return f"{label}{units.shape(self.shape)}:{self.dtype}{span}"


def dtype_name(text: str) -> str | None:
    """The full name of the dtype that `text` names (in full or short); None if it is unknown."""
    return _BY_NAME.get(text.removeprefix("torch."))


def is_floating(name: str) -> bool:
    """Whether the dtype of this full name is floating-point or complex."""
    return name.startswith(("float", "bfloat", "complex"))


def torch_dtype(text: str | None) -> Any:
    """The torch dtype that `text` names (in full or short); None for None, InputsError if it is unknown."""
    if text is None:
        return None
    name = dtype_name(text)
    if name is None:
        raise InputsError(f"unknown dtype {one_line(text)!r}: expected one of {', '.join(DTYPES)}")
    return getattr(need("torch"), name)


def literal_text(specs: Iterable[TensorSpec]) -> str:
    """All of `specs` as one literal."""
    return ", ".join(spec.text for spec in specs)


def make(specs: Iterable[TensorSpec], device: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Create the tensors as (args, kwargs), unnamed ones in args; the global random state does not change."""
    torch = need("torch")
    generator = torch.Generator(device="cpu").manual_seed(0)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        try:
            tensor = _one(spec, torch, generator, device)
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            reason = f"cannot create {one_line(spec.text)} ({one_line(error)})"
            raise InputsError(f"{reason}: give a smaller shape or range") from error
        if spec.name is None:
            args.append(tensor)
        else:
            kwargs[spec.name] = tensor
    return tuple(args), kwargs


def _one(spec: TensorSpec, torch: Any, generator: Any, device: str | None) -> Any:
    dtype = getattr(torch, spec.dtype)
    if device == "meta" and spec.floating:
        return torch.empty(spec.shape, dtype=dtype, device="meta")
    target = None if device == "meta" else device
    return _content(spec, torch, generator, dtype).to(device=target or "cpu", dtype=dtype)


def _content(spec: TensorSpec, torch: Any, generator: Any, dtype: Any) -> Any:
    if spec.values is not None:
        return torch.tensor(spec.values).reshape(spec.shape)
    if not spec.floating:
        high = 2 if spec.high is None else spec.high
        return torch.randint(spec.low or 0, high, spec.shape, generator=generator, device="cpu")
    if spec.high is not None:
        span = torch.rand(spec.shape, generator=generator, device="cpu")
        return span * (spec.high - (spec.low or 0)) + (spec.low or 0)
    drawn = dtype if spec.dtype in _REAL_RANDOM else torch.float32
    return torch.randn(spec.shape, generator=generator, dtype=drawn, device="cpu")
