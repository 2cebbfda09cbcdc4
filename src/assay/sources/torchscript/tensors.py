"""The tensors of a TorchScript file on meta; short integer tensors and constants keep their values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.torch_zip import is_swapped, prefix_of
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import MAX_DIMENSIONS, RawStorage, TensorValue
from assay.errors import ReadError
from assay.sources.torchscript import quantized
from assay.sources.torchscript.values import Opaque

QUANTIZED = (torch.qint8, torch.quint8)
KNOWN_ELEMENTS = 1 << 16
"""Integer tensors with more elements do not keep their values."""
KNOWN_CONSTANTS = 4096
"""The same limit for constants of floating-point types."""
KNOWN_BYTES = 16 << 20
"""Limit, in bytes, for all values that are read."""


class FileTensors:
    """The tensors that a pickle of the archive describes; each view of a storage is made once."""

    def __init__(self, archive: ZipArchive, records: str, *, constants: bool = False) -> None:
        self._archive = archive
        self._folder = prefix_of(archive) + records
        self._constants = constants
        self._readable = not is_swapped(archive)
        self._remaining = KNOWN_BYTES
        self._storages: dict[tuple[int, bool], torch.Tensor] = {}
        self._tensors: dict[Any, torch.Tensor] = {}
        self._parameters: dict[Any, nn.Parameter] = {}

    def tensor(self, value: TensorValue) -> Any:
        """The tensor, or the parameter if it is one; `Opaque` if there is no such tensor on meta."""
        key = _key(value)
        if key in self._parameters:
            return self._parameters[key]
        if key not in self._tensors:
            made = self._made(value)
            if isinstance(made, Opaque):
                return made
            self._tensors[key] = made
        return self._tensors[key]

    def parameter(self, value: TensorValue) -> Any:
        """The tensor as a parameter."""
        key, tensor = _key(value), self.tensor(value)
        if isinstance(tensor, Opaque) or key in self._parameters:
            return tensor
        floating = tensor.is_floating_point() or tensor.is_complex()
        parameter = nn.Parameter(tensor, requires_grad=floating and value.requires_grad is True)
        self._parameters[key] = parameter
        return parameter

    def _made(self, value: TensorValue) -> Any:
        storage, name = value.storage, dtype_name(value.dtype)
        if not isinstance(storage, RawStorage):
            return Opaque("a tensor without data")
        dtype = getattr(torch, name or storage.dtype, None)
        if not isinstance(dtype, torch.dtype) or dtype.itemsize == 0:
            return Opaque(f"a tensor of type {name or storage.dtype}")
        try:
            if len(value.shape) > MAX_DIMENSIONS:
                raise ValueError("too many dimensions")
            if dtype in QUANTIZED:
                return quantized.empty(tuple(value.shape), dtype)
            return self._view(storage, dtype, value, known=self._is_known(storage, dtype))
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise ReadError("a tensor does not fit its storage, or has too many dimensions") from error

    def _is_known(self, storage: RawStorage, dtype: torch.dtype) -> bool:
        floating = dtype.is_floating_point or dtype.is_complex
        limit = KNOWN_ELEMENTS if not floating else KNOWN_CONSTANTS if self._constants else 0
        return (
            self._readable and bool(storage.file) and storage.length <= min(limit * dtype.itemsize, self._remaining)
        )

    def _view(self, storage: RawStorage, dtype: torch.dtype, value: TensorValue, *, known: bool) -> torch.Tensor:
        whole = self._storages.get((id(storage), known))
        if whole is None:
            whole = self._storages[id(storage), known] = self._whole(storage, dtype, known=known)
        typed = whole if whole.dtype is dtype else whole.view(dtype)
        if 0 not in value.shape and _last(value) >= typed.numel():
            raise ValueError("reaches beyond its storage")
        return typed.as_strided(tuple(value.shape), tuple(value.strides), value.offset)

    def _whole(self, storage: RawStorage, dtype: torch.dtype, *, known: bool) -> torch.Tensor:
        count = storage.length // dtype.itemsize
        if not known or not count:
            return torch.empty(count, dtype=dtype, device="meta" if not known else "cpu")
        data = bytearray(self._archive.read(self._folder + storage.key, storage.length))
        self._remaining -= len(data)
        return torch.frombuffer(data[: count * dtype.itemsize], dtype=dtype)


def _last(value: TensorValue) -> int:
    """The largest element of its storage that a tensor has."""
    return int(value.offset + sum((size - 1) * step for size, step in zip(value.shape, value.strides, strict=True)))


def _key(value: TensorValue) -> Any:
    """Equal for views of the same elements."""
    storage = value.storage
    identity = id(storage) if storage is not None else id(value)
    return identity, value.offset, _tuple(value.shape), _tuple(value.strides), dtype_name(value.dtype)


def _tuple(numbers: Any) -> tuple[int, ...]:
    return tuple(number for number in numbers if type(number) is int) if isinstance(numbers, (tuple, list)) else ()
