"""Value statistics of any tensor: computed once per tensor, without waiting for the device and without raising."""

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
_MAX_REMEMBERED = 10_000


class TensorReader:
    """Computes statistics of tensors; one that appears again unchanged, such as a layer's output, is read once."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.may_be_nonfinite = False
        """Whether some tensor contained, or may have contained, a value that is not finite."""
        # The weak reference keeps the storage's address from being reused.
        self._remembered: dict[tuple[Any, ...], tuple[StorageWeakRef, ValueStats | Pending]] = {}

    def read(self, tensor: torch.Tensor) -> ValueStats | Pending:
        """The statistics of `tensor` as it is now."""
        values = self._read(tensor)
        if isinstance(values, Pending) or values.nan or values.inf:
            self.may_be_nonfinite = True
        return values

    def _read(self, tensor: torch.Tensor) -> ValueStats | Pending:
        if tensor.__class__ not in _PLAIN or tensor.layout is not torch.strided or tensor.is_inference():
            # Inference tensors do not track writes.
            return values_of(tensor, self.queue)
        try:
            storage = tensor.untyped_storage()
            key = _key(tensor, storage._cdata)
        except (RuntimeError, NotImplementedError):  # it has no storage, for example under vmap
            return values_of(tensor, self.queue)
        remembered = self._remembered.get(key)
        if remembered is not None:
            return remembered[1]
        values = values_of(tensor, self.queue)
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = (StorageWeakRef(storage), values)
        return values

    def forget(self) -> None:
        """Forget all tensors, since most of them no longer exist."""
        self._remembered.clear()


def _key(tensor: torch.Tensor, address: int) -> tuple[Any, ...]:
    """A key that is equal for tensors over the same elements that were not written to in between."""
    identity = (address, tensor._version, tensor.dtype, tensor.storage_offset(), tensor.is_neg(), tensor.is_conj())
    if tensor.is_contiguous():
        return (*identity, tensor.numel())
    return (*identity, tensor.shape, tensor.stride())


def values_of(tensor: torch.Tensor, queue: Queue) -> ValueStats | Pending:
    """The statistics of `tensor` as it is now; does not wait for the device and does not raise."""
    try:
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            # The user's own modes must not see the ops that compute statistics.
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                return _values_of(tensor, queue)
        if tensor.__class__ in _PLAIN:
            return _values_of(tensor, queue)
        with torch._C.DisableTorchFunctionSubclass():
            return _values_of(tensor, queue)
    except Exception as error:  # noqa: BLE001  the model's call must not fail because of a tensor
        return ValueStats(why=error_line(error))


def _values_of(tensor: torch.Tensor, queue: Queue) -> ValueStats | Pending:
    if tensor.is_meta:
        return META
    if tensor.layout in SPARSE_LAYOUTS:
        return ValueStats(why=f"layout {str(tensor.layout).removeprefix('torch.')}: values are not read")
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
