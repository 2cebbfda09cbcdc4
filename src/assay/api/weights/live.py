"""The tensors of a live module or state dict, as a checkpoint whose bytes are in memory; nothing is copied."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.checkpoint.dtypes import FLIPPED, item_bytes, unreadable
from assay.checkpoint.entries import ByteRange, Checkpoint, Entry, ModuleRow, alignment
from assay.checkpoint.listing import uninitialized_note
from assay.document.roles import BUFFER, PARAMETER
from assay.sources.state_dict import is_array

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk

LIVE = "live"
"""The format name of tensors in memory."""


Reader = Callable[["Chunk"], Any]
"""A function that returns a buffer with the bytes of a chunk."""


def live_checkpoint(module: Any) -> tuple[Checkpoint, Reader]:
    """The parameters and buffers of `module` as a checkpoint, and the function that reads its bytes."""
    modules = [
        ModuleRow(path, f"{type(child).__module__}.{type(child).__qualname__}") for path, child in _tree(module)
    ]
    return _checkpoint(type(module).__name__, _named(module), modules)


def state_checkpoint(tensors: Mapping[str, Any]) -> tuple[Checkpoint, Reader]:
    """The tensors and arrays of a state dict as a checkpoint, and the function that reads its bytes."""
    return _checkpoint("state dict", ((name, tensor, "") for name, tensor in tensors.items()), [])


def _checkpoint(
    path: str, named: Iterable[tuple[str, Any, str]], modules: list[ModuleRow]
) -> tuple[Checkpoint, Reader]:
    """The checkpoint of tensors with their names and roles; tied tensors are one entry with several names."""
    memory = _Memory()
    grouped: dict[Any, tuple[Any, str, list[str]]] = {}
    lazy: list[str] = []
    for name, tensor, role in named:
        if not is_array(tensor) and sys.modules["torch"].nn.parameter.is_lazy(tensor):
            lazy.append(name)
        else:
            grouped.setdefault(_identity(tensor), (tensor, role, []))[2].append(name)
    entries = [replace(memory.entry(tuple(names), tensor), role=role) for tensor, role, names in grouped.values()]
    return Checkpoint(LIVE, path, entries, modules=modules, notes=uninitialized_note(lazy)), memory


class _Memory:
    """The storages of tensors and the memory of arrays as bytes, under made-up file names."""

    def __init__(self) -> None:
        self._storages: dict[str, Any] = {}

    def __call__(self, chunk: Chunk) -> Any:
        # On the CPU, neither step copies; from a device, only the chunk is copied.
        piece = self._storages[chunk.file][chunk.offset : chunk.offset + chunk.bytes]
        return piece if isinstance(piece, memoryview) else _view(piece.cpu())

    def entry(self, names: tuple[str, ...], tensor: Any) -> Entry:
        """The entry of a tensor or array: its type, and its byte range in its storage."""
        if is_array(tensor):
            return self._array_entry(names, tensor)
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

    def _array_entry(self, names: tuple[str, ...], array: Any) -> Entry:
        array, dtype, shape = _forward(array), array.dtype.name, tuple(array.shape)
        problem = unreadable(dtype)
        if problem:
            return Entry(names, dtype, shape, None, None, 0, 0, problem=problem)
        steps = list(zip(array.strides, shape, strict=True))
        reach = sum(stride * (size - 1) for stride, size in steps) + array.itemsize if array.size else 0
        first = array.ctypes.data
        file = f"array at {first:x}, {reach} bytes"
        self._storages[file] = _memory(first, reach, array)
        span, aligned = ByteRange(file, 0, reach), alignment(first)
        if array.flags.c_contiguous:
            return Entry(names, dtype, shape, None, span, reach, aligned)
        strides = tuple(stride // array.itemsize for stride, _ in steps)
        return Entry(names, dtype, shape, strides, span, min(array.nbytes, reach), aligned)


def _view(piece: Any) -> memoryview:
    """The bytes of a tensor on the CPU; not by `numpy()`, after which torch refuses to resize the model's storage."""
    return _memory(piece.data_ptr(), piece.numel(), piece)


def _memory(address: int, size: int, owner: Any) -> memoryview:
    """The bytes at an address, which `owner` keeps alive."""
    if not size:
        return memoryview(b"")
    buffer: Any = (ctypes.c_uint8 * size).from_address(address)
    buffer.owner = owner
    return memoryview(buffer).cast("B")


def _forward(array: Any) -> Any:
    """The array, or a copy of one that is stored backwards: of the other byte order, or with other steps than whole
    elements forward."""
    if any(stride < 0 or stride % array.itemsize for stride in array.strides if array.itemsize):
        array = array.copy()
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _named(module: Any) -> Iterator[tuple[str, Any, str]]:
    """Every name with its tensor and role; parameters first, so that a tied tensor that is one counts as one."""
    yield from ((*named, PARAMETER) for named in module.named_parameters(remove_duplicate=False))
    yield from ((*named, BUFFER) for named in module.named_buffers(remove_duplicate=False))


def _tree(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_modules()


def _identity(tensor: Any) -> Any:
    """A key that is equal for tensors that share exactly the same elements."""
    if is_array(tensor):
        return tensor.ctypes.data, tensor.dtype, tensor.shape, tensor.strides if tensor.size else id(tensor)
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
    return FLIPPED if tensor.is_conj() or tensor.is_neg() else ""


def _as_bytes(storage: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
