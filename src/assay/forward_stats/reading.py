"""The values of whatever tensor a call gets: each once, as it is now, without waiting and without raising."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from assay.forward_stats import on_cpu, on_device
from assay.forward_stats.on_device import Pending, Queue
from assay.forward_stats.values import EMPTY, META, ValueStats, dense
from assay.messages import error_line
from assay.recorder.inventory import SPARSE_LAYOUTS

_PLAIN = {torch.Tensor, torch.nn.Parameter}
_MOST_KNOWN = 10_000


class TensorReader:
    """Reads tensors; one that comes again unchanged, as a module's output and the next one's input, is read once."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.doubtful = False
        """Whether a tensor was not, or may not have been, all finite."""
        # The weak reference keeps the storage's address from being given to another one.
        self._known: dict[tuple[Any, ...], tuple[StorageWeakRef, ValueStats | Pending]] = {}

    def read(self, tensor: torch.Tensor) -> ValueStats | Pending:
        """The values of `tensor` as it is now."""
        values = self._read(tensor)
        if isinstance(values, Pending) or values.nan or values.inf:
            self.doubtful = True
        return values

    def _read(self, tensor: torch.Tensor) -> ValueStats | Pending:
        if tensor.__class__ not in _PLAIN or tensor.layout is not torch.strided or tensor.is_inference():
            # Inference tensors do not tell when they are written into.
            return values_of(tensor, self.queue)
        try:
            storage = tensor.untyped_storage()
            key = _key(tensor, storage._cdata)
        except (RuntimeError, NotImplementedError):  # it has no storage of its own, as under vmap
            return values_of(tensor, self.queue)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        values = values_of(tensor, self.queue)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (StorageWeakRef(storage), values)
        return values

    def forget(self) -> None:
        """Drop what is known of tensors that are probably gone."""
        self._known.clear()


def _key(tensor: torch.Tensor, address: int) -> tuple[Any, ...]:
    """Equal for tensors over the same elements that nothing was written into since."""
    place = (address, tensor._version, tensor.dtype, tensor.storage_offset(), tensor.is_neg(), tensor.is_conj())
    if tensor.is_contiguous():
        return (*place, tensor.numel())
    return (*place, tensor.shape, tensor.stride())


def values_of(tensor: torch.Tensor, queue: Queue) -> ValueStats | Pending:
    """The values of `tensor` as it is now; nothing is waited for, and nothing raised."""
    try:
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            # What someone counts or rewrites with a mode is theirs, not ours.
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                return _values_of(tensor, queue)
        if tensor.__class__ in _PLAIN:
            return _values_of(tensor, queue)
        with torch._C.DisableTorchFunctionSubclass():
            return _values_of(tensor, queue)
    except Exception as error:  # noqa: BLE001  the model's call must go on whatever its tensors are
        return ValueStats(why=error_line(error))


def _values_of(tensor: torch.Tensor, queue: Queue) -> ValueStats | Pending:
    if tensor.is_meta:
        return META
    if tensor.layout in SPARSE_LAYOUTS:
        return ValueStats(why=f"a layout of {str(tensor.layout).removeprefix('torch.')}")
    tensor = dense(tensor.detach())
    count = tensor.numel()
    if not count:
        return EMPTY
    if tensor.is_cpu and not tensor.is_complex():
        return on_cpu.values(tensor, count)
    if tensor.is_cpu:
        return on_device.from_vector(on_device.vector(tensor, "complex"), "complex", count)
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return ValueStats(why="a CUDA graph was being captured")
    kind = on_device.kind_of(tensor)
    if tensor.device.type == "mps" and kind == "int":
        tensor, kind = tensor.float(), "float"
    return queue.put(tensor, kind, count)
