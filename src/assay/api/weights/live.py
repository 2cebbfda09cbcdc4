"""The tensors of a live module, presented as a checkpoint whose bytes are in memory; nothing is copied."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.checkpoint.dtypes import item_bytes, unreadable
from assay.checkpoint.entries import ByteRange, Checkpoint, Entry, ModuleRow, alignment
from assay.checkpoint.listing import uninitialized_note
from assay.document.roles import BUFFER, PARAMETER

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk

LIVE = "live"
"""The format name of tensors in memory."""


def live_checkpoint(module: Any) -> tuple[Checkpoint, Callable[[Chunk], Any]]:
    """The parameters and buffers of `module` as a checkpoint, and a function that reads the bytes of a chunk.

    Tied tensors are one entry with several names.
    """
    memory = _Memory()
    grouped: dict[Any, tuple[Any, str, list[str]]] = {}
    lazy: list[str] = []
    is_lazy = sys.modules["torch"].nn.parameter.is_lazy
    for name, tensor, role in _named(module):
        if is_lazy(tensor):
            lazy.append(name)
        else:
            grouped.setdefault(_identity(tensor), (tensor, role, []))[2].append(name)
    entries = [replace(memory.entry(tuple(names), tensor), role=role) for tensor, role, names in grouped.values()]
    modules = [
        ModuleRow(path, f"{type(child).__module__}.{type(child).__qualname__}") for path, child in _tree(module)
    ]
    notes = uninitialized_note(lazy)
    return Checkpoint(LIVE, type(module).__name__, entries, modules=modules, notes=notes), memory


class _Memory:
    """The storages of tensors as bytes, under made-up file names."""

    def __init__(self) -> None:
        self._storages: dict[str, Any] = {}

    def __call__(self, chunk: Chunk) -> Any:
        # On the CPU, neither step copies; from a device, only the chunk is copied.
        piece = self._storages[chunk.file][chunk.offset : chunk.offset + chunk.bytes].cpu()
        return _view(piece)

    def entry(self, names: tuple[str, ...], tensor: Any) -> Entry:
        """The entry of a tensor: its type, and its byte range in its storage."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        problem = _problem(tensor) or unreadable(dtype)
        if problem:
            return Entry(names, dtype, _shape(tensor), None, None, 0, 0, problem=problem)
        width = item_bytes(dtype) or 1
        storage = tensor.untyped_storage()
        file, size = f"storage {storage.data_ptr():x} of {tensor.device}", tensor.numel() * width
        if file not in self._storages:
            self._storages[file] = _as_bytes(storage)
        first = tensor.storage_offset() * width
        shape, aligned = _shape(tensor), alignment(storage.data_ptr() + first)
        if tensor.is_contiguous():
            return Entry(names, dtype, shape, None, ByteRange(file, first, size), size, aligned)
        span = ByteRange(file, 0, storage.nbytes())
        distinct = min(size, storage.nbytes())
        return Entry(names, dtype, shape, tuple(tensor.stride()), span, distinct, aligned, tensor.storage_offset())


def _view(piece: Any) -> memoryview:
    """The bytes of a tensor on the CPU; not by `numpy()`, after which torch refuses to resize the model's storage."""
    if not piece.numel():
        return memoryview(b"")
    buffer: Any = (ctypes.c_uint8 * piece.numel()).from_address(piece.data_ptr())
    buffer.tensor = piece  # keeps the memory alive
    return memoryview(buffer).cast("B")


def _named(module: Any) -> Iterator[tuple[str, Any, str]]:
    """Every name with its tensor and role; parameters first, so that a tied tensor that is one counts as one."""
    yield from ((*named, PARAMETER) for named in module.named_parameters(remove_duplicate=False))
    yield from ((*named, BUFFER) for named in module.named_buffers(remove_duplicate=False))


def _tree(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_modules()


def _identity(tensor: Any) -> Any:
    """A key that is equal for tensors that share exactly the same elements."""
    if _problem(tensor) or not tensor.numel():
        return id(tensor)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), str(tensor.device)


def _shape(tensor: Any) -> tuple[int, ...]:
    from assay.recorder.inventory import sizes

    return sizes(tensor)


def _problem(tensor: Any) -> str:
    """The reason why a tensor's elements cannot be read as plain memory; empty if they can."""
    torch = sys.modules["torch"]
    if tensor.device.type == "meta":
        return "on the meta device, which stores no values"
    if tensor.layout != torch.strided:
        return f"its layout is {str(tensor.layout).removeprefix('torch.')}: only strided tensors can be read"
    if tensor.is_nested:
        return "it is nested: only regular tensors can be read"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"its type is {type(tensor).__name__}: only plain tensors can be read"
    return ""


def _as_bytes(storage: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
