"""Operators on tensors: through torch's dispatcher, so that a recorder sees them, if they are on the list.

Sizes that a trace packs into tensors, only to compute with them, are computed without being recorded: the model's own
code computed with plain integers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from assay.checkpoint.pickle.values import MAX_DIMENSIONS
from assay.sources.torchscript.allowed import ALLOWED
from assay.sources.torchscript.refusal import (
    MAX_KNOWN_BYTES,
    MAX_OPS,
    MAX_OUTPUTS,
    MAX_TENSORS,
    Failed,
    StepBudget,
    exceed,
    refuse,
)
from assay.sources.torchscript.work import (
    END,
    LARGEST_KNOWN,
    RECURRENT,
    check_lists,
    check_quantized,
    check_unsized,
    leaves_of,
    may_compute,
    tensors_of,
)

META, CPU = torch.device("meta"), torch.device("cpu")
_KNOWN_PER_STEP, _READ_PER_STEP = 1 << 8, 1 << 14
"""Elements of known values that count as a step of the pass: if they are computed with, or may only be read."""
_TENSORS_PER_STEP = 8
"""Tensors among the arguments of an operator that count as a step."""
_STEPS_OF_LAYER, _PARAMETERS_OF_LAYER = 16, 4
"""What a step of a recurrent layer counts, and how many parameters such a layer has."""
LONGEST_SEQUENCE = 1 << 16
"""Steps of a recurrent layer, which torch runs one by one."""

_FIRST_DTYPES = "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool"
_DTYPES = {
    **dict(enumerate(_FIRST_DTYPES.split())),
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
}
_LAYOUTS = {0: torch.strided, 1: torch.sparse_coo}
_FORMATS = {0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d}
_CODES = {getattr(torch, name): code for code, name in _DTYPES.items()}
_ONE_KIND = frozenset(
    {"linear", "conv1d", "conv2d", "conv3d", "_convolution", "matmul", "mm", "bmm", "addmm", "baddbmm"}
)
"""Operators whose tensors must all be integers, or all not."""
_aten = torch.ops.aten


def dtype_of(code: Any) -> torch.dtype | None:
    """The dtype of TorchScript's number for it."""
    if code is None or isinstance(code, torch.dtype):
        return code
    return getattr(torch, _DTYPES[code]) if code in _DTYPES else refuse(f"dtype number {code}")


def code_of(dtype: torch.dtype) -> int:
    """TorchScript's number for a dtype."""
    return _CODES[dtype] if dtype in _CODES else refuse(f"dtype {dtype}")


class TensorOps:
    """Runs operators within the limits of one pass."""

    def __init__(self, budget: StepBudget) -> None:
        self.budget = budget
        self.packed: dict[tuple[Any, ...], Any] = {}
        """Packed weights of quantized layers, by how they were packed."""
        self._sizes: dict[int, torch.Tensor] = {}
        """Scalars that hold sizes, by id; kept, so that no other object gets the same id."""
        self._known: list[tuple[weakref.ref[Any], int]] = []
        self._known_bytes = 0
        self._ops = 0
        self._tensors = 0

    def begin(self) -> None:
        """Begin a pass."""
        self._sizes, self._known = {}, []
        self._known_bytes = self._ops = self._tensors = 0

    def size_tensor(self, number: Any) -> torch.Tensor:
        """A scalar tensor of a number that a trace computes with."""
        with _disable_current_modes():
            return self._sized(torch.tensor(number))

    def is_size(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is a scalar of a size."""
        return id(tensor) in self._sizes

    def item(self, tensor: torch.Tensor) -> Any:
        """The tensor's value; a made-up one, by the policy of the recorder, if it is unknown."""
        if not self.is_size(tensor):
            return tensor.item()
        with _disable_current_modes():
            return tensor.item()

    def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the operator `name`."""
        if name in _ONE_KIND:
            _check_kinds(name, [each for each in args if isinstance(each, torch.Tensor)])
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, *args, **kwargs)
        if name not in ALLOWED:
            refuse(f"the operator torch.{name}, which is not one of those that are interpreted")
        return self.call(getattr(_aten, name), args, kwargs)

    def call(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator of the dispatcher, whose devices and enumerations are those of TorchScript.

        `operator` has all overloads of a name, or is one of them.
        """
        self._ops += 1
        if self._ops > MAX_OPS:
            exceed(f"a pass of more than {MAX_OPS:,} ops")
        tensors = list(tensors_of((args, kwargs)))
        self.budget.spend(len(tensors) // _TENSORS_PER_STEP)
        packet = getattr(operator, "overloadpacket", operator)
        name = packet.__name__
        check_lists(name, (*args, *kwargs.values()))
        args, kwargs = _converted(packet, args, kwargs, has_tensors=bool(tensors))
        if tensors and self._computes_sizes(tensors) and _returns_scalar(operator, args, kwargs):
            with _disable_current_modes():
                return self._sized(operator(*args, **kwargs))
        known = [tensor for tensor in tensors if not tensor.is_meta and not tensor.is_quantized]
        if tensors and len(known) == len(tensors):
            args, kwargs = self._bounded(operator, name, args, kwargs, tensors)
        else:
            self.budget.spend(sum(tensor.numel() for tensor in known) // _READ_PER_STEP)
            if operator.__module__.endswith("aten") and any(tensor.is_quantized for tensor in tensors):
                _check_quantized(operator, name, args, kwargs)
        return self._noted(operator(*args, **kwargs))

    def _sized(self, tensor: torch.Tensor) -> torch.Tensor:
        self._sizes[id(tensor)] = tensor
        return tensor

    def _computes_sizes(self, tensors: list[torch.Tensor]) -> bool:
        """Whether an operator only computes with sizes: one tensor is a size, the others are known scalars."""
        return any(map(self.is_size, tensors)) and not any(each.is_meta or each.dim() for each in tensors)

    def _bounded(
        self, operator: Any, name: str, args: Any, kwargs: Any, tensors: list[torch.Tensor]
    ) -> tuple[Any, Any]:
        """The arguments of an operator on known values; without the values if that would be much work."""
        self.budget.spend(sum(tensor.numel() for tensor in tensors) // _KNOWN_PER_STEP)
        with _disable_current_modes():
            without = _without_values((args, kwargs))
            if name in RECURRENT:
                return without[0], without[1]
            try:
                elements = sum(result.numel() for result in tensors_of(operator(*without[0], **without[1])))
            except (NotImplementedError, RuntimeError):
                check_unsized(name, (args, kwargs), tensors)
                return args, kwargs
            if not may_compute(name, (args, kwargs), tensors, elements):
                return without[0], without[1]
        self.budget.spend(elements // _KNOWN_PER_STEP)
        return args, kwargs

    def _noted(self, result: Any) -> Any:
        """`result`, after counting the tensors and the memory of known values in it."""
        tensors = list(tensors_of(result))
        self._tensors += len(tensors)
        if self._tensors > MAX_TENSORS:
            exceed(f"ops with more than {MAX_TENSORS:,} results in a pass")
        for tensor in tensors:
            if tensor.dim() > MAX_DIMENSIONS:
                exceed(f"a tensor of more than {MAX_DIMENSIONS} dimensions")
            if tensor.is_meta or tensor.numel() < 1024:
                continue
            size = tensor.untyped_storage().nbytes()
            self._known.append((weakref.ref(tensor), size))
            self._known_bytes += size
            if self._known_bytes > MAX_KNOWN_BYTES:
                self._known = [(reference, size) for reference, size in self._known if reference() is not None]
                self._known_bytes = sum(size for _, size in self._known)
            if self._known_bytes > MAX_KNOWN_BYTES:
                exceed(f"tensors with known values of more than {MAX_KNOWN_BYTES >> 20} MiB")
        return result


def _without_values(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), value)


def _check_quantized(operator: Any, name: str, args: Any, kwargs: Any) -> None:
    """Refuse an operator on quantized tensors whose result or work would be large, as it is for regular tensors."""
    with _disable_current_modes():
        args, kwargs = tree_map_only(
            torch.Tensor, lambda each: torch.empty(each.shape, device="meta"), (args, kwargs)
        )
        try:
            elements = sum(result.numel() for result in tensors_of(operator(*args, **kwargs)))
        except (NotImplementedError, RuntimeError):  # one that exists for quantized tensors only keeps their size
            elements = sum(tensor.numel() for tensor in tensors_of((args, kwargs)))
    window = args[1] if "pool" in name and "adaptive" not in name and isinstance(args[1], (list, tuple)) else ()
    check_quantized(f"torch.{name}", elements, elements * prod(window))


def _returns_scalar(operator: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator on scalars returns a scalar tensor."""
    with _disable_current_modes():
        without = _without_values((args, kwargs))
        try:
            result = operator(*without[0], **without[1])
        except (NotImplementedError, RuntimeError):
            return False
    return isinstance(result, torch.Tensor) and not result.dim()


def _check_kinds(name: str, tensors: list[torch.Tensor]) -> None:
    """Refuse integers beside floating-point numbers, which a kernel with data rejects and one for shapes does not."""
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) > 1 and not all(kind.is_floating_point or kind.is_complex for kind in kinds):
        names = sorted(str(kind).removeprefix("torch.") for kind in kinds)
        raise Failed(f"torch.{name} of {' and '.join(names)}")


def _converted(
    packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_tensors: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with torch's own enumerations; what is created from nothing is created on meta."""
    kwargs = {
        name: value for name, value in kwargs.items() if name not in ("device", "pin_memory") or not has_tensors
    }
    if not has_tensors and "device" in kwargs:
        kwargs |= {"device": META, "pin_memory": None}
    converters = _converters(packet)
    return (
        tuple([_enumerated(value, converters.get(at)) for at, value in enumerate(args)]),
        {name: _enumerated(value, converters.get(name)) for name, value in kwargs.items()},
    )


def _enumerated(value: Any, convert: Callable[[int], Any] | None) -> Any:
    return value if convert is None or type(value) is not int else convert(value)


@cache
def _converters(packet: Any) -> dict[int | str, Callable[[int], Any]]:
    """The functions that convert the numbers of enumerations, by position and by name.

    Torch itself accepts any number for them, and may crash.
    """
    found: dict[int | str, Callable[[int], Any]] = {}
    for overload in packet.overloads():
        for position, argument in enumerate(getattr(packet, overload)._schema.arguments):
            convert = _ENUMERATIONS.get(str(argument.real_type).removeprefix("Optional[").removesuffix("]"))
            if convert is not None:
                found[argument.name] = convert
                if not argument.kwarg_only:
                    found[position] = convert
    return found


def _layout(code: int) -> Any:
    return _LAYOUTS[code] if code in _LAYOUTS else refuse(f"layout number {code}")


def _format(code: int) -> Any:
    return _FORMATS[code] if code in _FORMATS else refuse(f"memory format number {code}")


_ENUMERATIONS: dict[str, Callable[[int], Any]] = {"ScalarType": dtype_of, "Layout": _layout, "MemoryFormat": _format}


def _factory(name: str) -> Callable[..., Any]:
    def create(ops: TensorOps, *args: Any, **kwargs: Any) -> Any:
        settings = {key: value for key, value in kwargs.items() if key != "dtype" or value is not None}
        return ops.call(getattr(_aten, name), args, {"layout": None, **settings, "device": META, "pin_memory": None})

    return create


def _spaced(name: str) -> Callable[..., Any]:
    """`linspace` and `logspace`, whose number of steps had a default in old files."""
    create = _factory(name)

    def spaced(ops: TensorOps, start: Any, end: Any, steps: Any = None, *args: Any, **kwargs: Any) -> Any:
        return create(ops, start, end, 100 if steps is None else steps, *args, **kwargs)

    return spaced


def _tensor(ops: TensorOps, data: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Any:
    items = list(leaves_of(data))
    if any(isinstance(item, torch.Tensor) for item in items):
        data = _plain(ops, data)
    if not all(isinstance(item, (int, float, bool, complex, torch.Tensor)) for item in items):
        refuse("torch.tensor of something that is not a number")
    return ops._noted(torch.tensor(data, dtype=dtype_of(dtype), device="cpu"))


def _plain(ops: TensorOps, data: Any) -> Any:
    if isinstance(data, list):
        return [_plain(ops, item) for item in data]
    return ops.item(data) if isinstance(data, torch.Tensor) else data


def _as_tensor(ops: TensorOps, data: Any, dtype: Any = None, device: Any = None) -> Any:
    if not isinstance(data, torch.Tensor):
        return _tensor(ops, data, dtype)
    return data if dtype is None else _to(ops, data, dtype)


def _to(ops: TensorOps, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """A conversion of dtype or memory format; every device is the same here."""
    flags = [position for position, value in enumerate(args) if type(value) is bool] or [len(args)]
    first, last = args[: flags[0]], args[flags[-1] + 1 :]
    numbers = [value for value in first if type(value) is int]
    other = next((value for value in first if isinstance(value, torch.Tensor)), None)
    dtype = other.dtype if other is not None else dtype_of(kwargs.get("dtype", numbers[0] if numbers else None))
    layout = kwargs.get("memory_format", next((value for value in last if type(value) is int), None))
    if dtype is None and layout is None:
        return tensor
    settings = {} if layout is None else {"memory_format": layout}
    return ops.call(_aten.to.dtype, (tensor, dtype or tensor.dtype), settings)


def _whole(tensor: Any, dim: int, start: Any, end: Any, step: Any) -> bool:
    length = tensor.shape[dim]
    return step == 1 and start in (None, 0) and (end is None or end >= length)


def _slice(ops: TensorOps, tensor: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    start, end, step = (ops.item(each) if isinstance(each, torch.Tensor) else each for each in (start, end, step))
    if tensor.dim() and _whole(tensor, dim, start, end, step):
        return tensor
    return ops.call(_aten.slice, (tensor, dim, start, END if end is None else end, step), {})


def _size(ops: TensorOps, tensor: Any, dim: int | None = None) -> Any:
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _convolution(ops: TensorOps, tensor: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    """A convolution as the module calls it, without the settings of a backend that a trace adds."""
    stride, padding, dilation, transposed, output_padding, groups = rest[:6]
    dims = len(stride)
    if transposed:
        arguments: tuple[Any, ...] = (stride, padding, output_padding, groups, dilation)
        packet = getattr(_aten, f"conv_transpose{dims}d")
    else:
        arguments, packet = (stride, padding, dilation, groups), getattr(_aten, f"conv{dims}d")
    return ops.call(packet, (tensor, weight, bias, *arguments), {})


def _convolution_mode(ops: TensorOps, tensor: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    stride, padding, dilation, groups = rest
    return ops.call(
        getattr(_aten, f"conv{len(stride)}d"), (tensor, weight, bias, stride, padding, dilation, groups), {}
    )


def _several(name: str, count: Callable[..., int]) -> Callable[..., Any]:
    """An operator that returns several tensors, after a check of how many."""

    def run(ops: TensorOps, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if count(tensor, *args, **kwargs) > MAX_OUTPUTS:
            exceed(f"torch.{name} with more than {MAX_OUTPUTS:,} results")
        return list(ops.call(getattr(_aten, name), (tensor, *args), kwargs))

    return run


def _parts(tensor: Any, size: Any, dim: int = 0) -> int:
    if isinstance(size, (list, tuple)):
        return len(size)
    return int(-(-tensor.shape[dim] // max(int(size), 1)))


def _recurrent(name: str) -> Callable[..., Any]:
    def run(ops: TensorOps, data: Any, *args: Any, **kwargs: Any) -> Any:
        is_packed = isinstance(args[0], torch.Tensor) and args[0].dim() == 1
        steps = args[0].numel() if is_packed else max(*data.shape[:2], 1) if name == "ctc_loss" else 1
        if steps > LONGEST_SEQUENCE:
            exceed(f"torch.{name} over more than {LONGEST_SEQUENCE:,} steps")
        parameters = max((len(each) for each in args if isinstance(each, (list, tuple))), default=0)
        ops.budget.spend(_STEPS_OF_LAYER * steps * (1 + parameters // _PARAMETERS_OF_LAYER))
        return ops.call(getattr(_aten, name), (data, *args), kwargs)

    return run


def _combinations(ops: TensorOps, tensor: Any, r: int = 2, with_replacement: bool = False) -> Any:
    if tensor.numel() ** min(r, 8) > LARGEST_KNOWN:
        exceed(f"torch.combinations of {r} of {tensor.numel():,} values")
    return ops.call(_aten.combinations, (tensor, r, with_replacement), {})


def _diff(ops: TensorOps, tensor: Any, n: int = 1, dim: int = -1, *ends: Any) -> Any:
    if n > MAX_OUTPUTS:
        exceed(f"differences of order {n:,}")
    return ops.call(_aten.diff, (tensor, n, dim, *ends), {})


_FACTORIES = """
arange empty empty_strided eye fft_fftfreq fft_rfftfreq full ones rand randint randn randperm range scalar_tensor
tril_indices triu_indices zeros bartlett_window blackman_window hamming_window hann_window kaiser_window
"""

_SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: _factory(name) for name in _FACTORIES.split()},
    **{name: _spaced(name) for name in ("linspace", "logspace")},
    **{name: _recurrent(name) for name in RECURRENT},
    "combinations": _combinations,
    "diff": _diff,
    "device": lambda ops, *name: torch.device(*name),
    "tensor": _tensor,
    "as_tensor": _as_tensor,
    "to": _to,
    "type_as": lambda ops, tensor, other: _to(ops, tensor, other),
    "cpu": lambda ops, tensor: tensor,
    "cuda": lambda ops, tensor: tensor,
    "slice": _slice,
    "size": _size,
    "len": lambda ops, tensor: tensor.shape[0] if tensor.dim() else refuse("the length of a scalar"),
    "dim": lambda ops, tensor: tensor.dim(),
    "numel": lambda ops, tensor: tensor.numel(),
    "stride": lambda ops, tensor, dim=None: list(tensor.stride()) if dim is None else tensor.stride(dim),
    "storage_offset": lambda ops, tensor: tensor.storage_offset(),
    "result_type": lambda ops, *pair: code_of(torch.result_type(*pair)),
    "element_size": lambda ops, tensor: tensor.element_size(),
    "is_contiguous": lambda ops, tensor, **_: tensor.is_contiguous(),
    "is_floating_point": lambda ops, tensor: tensor.is_floating_point(),
    "is_complex": lambda ops, tensor: tensor.is_complex(),
    "is_signed": lambda ops, tensor: tensor.is_signed(),
    "get_device": lambda ops, tensor: -1,
    "item": lambda ops, tensor: ops.item(tensor),
    "Int": lambda ops, tensor: int(ops.item(tensor)),
    "IntImplicit": lambda ops, tensor: int(ops.item(tensor)),
    "Float": lambda ops, tensor: float(ops.item(tensor)),
    "FloatImplicit": lambda ops, tensor: float(ops.item(tensor)),
    "ComplexImplicit": lambda ops, tensor: complex(ops.item(tensor)),
    "ScalarImplicit": lambda ops, tensor: ops.item(tensor),
    "Bool": lambda ops, tensor: bool(ops.item(tensor)),
    "requires_grad_": lambda ops, tensor, *_: tensor,
    "_convolution": _convolution,
    "_convolution_mode": _convolution_mode,
    "unbind": _several("unbind", lambda tensor, dim=0: tensor.shape[dim]),
    "split": _several("split", _parts),
    "split_with_sizes": _several("split_with_sizes", _parts),
    "unsafe_split": _several("unsafe_split", _parts),
    "chunk": _several("chunk", lambda tensor, chunks, dim=0: min(chunks, tensor.shape[dim])),
    "unsafe_chunk": _several("unsafe_chunk", lambda tensor, chunks, dim=0: min(chunks, tensor.shape[dim])),
    "tensor_split": _several(
        "tensor_split", lambda tensor, parts, dim=0: parts if type(parts) is int else len(parts)
    ),
    "hsplit": _several("hsplit", lambda tensor, parts: parts if type(parts) is int else len(parts)),
    "vsplit": _several("vsplit", lambda tensor, parts: parts if type(parts) is int else len(parts)),
    "dsplit": _several("dsplit", lambda tensor, parts: parts if type(parts) is int else len(parts)),
}
"""Operators that are not simply passed on."""
