"""Harmless globals, and how to represent calls of them without running anything; calls of others become stubs.

A builder takes the tuple of arguments and returns plain data. The arguments come from the file: a builder may raise
IndexError, TypeError or ValueError on invalid ones, which the interpreter reports as a damaged pickle.
"""

from __future__ import annotations

from typing import Any

from assay.checkpoint.dtypes import ALIASES, FLIPPED, STORAGES
from assay.checkpoint.pickle.values import Array, ArrayType, Blob, Builder, Global, Stub, TensorParts, TensorValue
from assay.document.dtypes import BITS

NO_DATA = "a meta tensor: it has no data"


def dtype_name(value: Any) -> str:
    """`float32` for `torch.float32` or `torch.FloatStorage`; the empty string for anything else."""
    return value.dtype if type(value) is Global else ""


def _tensor_v2(args: Any) -> TensorValue:
    storage, offset, shape, strides = args[:4]
    problem, needs_gradient = _flipped(args[6]) if len(args) > 6 else "", len(args) > 4 and args[4] is True
    return TensorValue(storage, offset, shape, strides, None, problem, needs_gradient)


def _tensor_v3(args: Any) -> TensorValue:
    storage, offset, shape, strides, _, _, dtype = args[:7]
    return TensorValue(storage, offset, shape, strides, dtype, _flipped(args[7]) if len(args) > 7 else "")


def _flipped(metadata: Any) -> str:
    flipped = isinstance(metadata, dict) and any(metadata.get(bit) is True for bit in ("conj", "neg"))
    return FLIPPED if flipped else ""


def _quantized(args: Any) -> Any:
    storage, offset, shape, strides, parameters = args[:5]
    tensor = TensorValue(storage, offset, shape, strides)
    extra = [item for item in parameters if isinstance(item, TensorValue)]
    return TensorParts({"": tensor, **dict(zip(("scales", "zero_points"), extra, strict=False))}) if extra else tensor


def _sparse(args: Any) -> TensorParts:
    layout = args[0].args[0] if isinstance(args[0], Stub) else ""
    is_coo = isinstance(layout, str) and "coo" in layout
    names = ("indices", "values") if is_coo else ("compressed_indices", "plain_indices", "values")
    return TensorParts(dict(zip(names, args[1], strict=False)))


def _nested(args: Any) -> TensorParts:
    return TensorParts(dict(zip(("buffer", "sizes", "strides", "storage_offsets"), args, strict=True)))


def _meta(args: Any) -> TensorValue:
    dtype, shape, strides = args[:3]
    return TensorValue(None, 0, shape, strides, dtype, NO_DATA)


def _wrapper(args: Any) -> TensorValue:
    _, dtype, shape, strides = args[:4]
    return TensorValue(None, 0, shape, strides, dtype, "a wrapper around other tensors: it has no data of its own")


def _from_type(args: Any) -> Any:
    """A tensor subclass: the tensor it is built from or, if that has no data, also the tensors in its attributes."""
    function, _, arguments, state = args[:4]
    base = function.build(arguments) if isinstance(function, Global) and function.build else Stub(function, arguments)
    if isinstance(base, TensorValue) and base.storage is not None:
        return base
    attributes = state[0] if isinstance(state, tuple) and state else state
    pairs = attributes.items() if isinstance(attributes, dict) else ()
    inner = {key: item for key, item in pairs if isinstance(key, str)}
    return TensorParts({"": base, **inner}) if inner else base


def _first(args: Any) -> Any:
    return args[0]


def _dictionary(args: Any) -> dict[Any, Any]:
    if not args or not isinstance(args[-1], (dict, list)):
        return {}
    pairs = args[-1].items() if isinstance(args[-1], dict) else args[-1]
    return {key: value for key, value in pairs if isinstance(key, (str, int))}


def _sequence(args: Any) -> list[Any]:
    return list(args[0]) if args and isinstance(args[0], (list, tuple)) else []


def _opaque(args: Any) -> Stub:
    return Stub(None, args)


def _complex(args: Any) -> Any:
    numbers = args if isinstance(args, tuple) and len(args) == 2 else ()
    return complex(*numbers) if numbers and all(type(each) is float for each in numbers) else _opaque(args)


def _encoded(args: Any) -> Any:
    """Bytes that an old pickle protocol wrote as text: `codecs.encode(text, "latin1")`."""
    text, encoding = args
    if encoding not in ("latin1", "latin-1", "iso-8859-1"):
        return Stub(None, args)
    return text.encode("latin-1") if isinstance(text, str) else Blob(text.start, text.length, latin=True)


def _array_from_buffer(args: Any) -> Array:
    data, dtype, shape, order = args[:4]
    return Array(dtype, shape, data, order == "F")


_TORCH_BUILDERS: dict[str, Builder] = {
    "_rebuild_tensor": _tensor_v2,
    "_rebuild_tensor_v2": _tensor_v2,
    "_rebuild_tensor_v3": _tensor_v3,
    "_rebuild_parameter": _first,
    "_rebuild_parameter_with_state": _first,
    "_rebuild_qtensor": _quantized,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_sparse_csr_tensor": _sparse,
    "_rebuild_nested_tensor": _nested,
    "_rebuild_meta_tensor_no_storage": _meta,
    "_rebuild_wrapper_subclass": _wrapper,
    "_rebuild_device_tensor_from_numpy": _first,
    "_rebuild_xla_tensor": _first,
    "_rebuild_device_tensor_from_cpu_tensor": _first,
}

_BUILDERS: dict[tuple[str, str], Builder] = {
    **{("torch._utils", name): build for name, build in _TORCH_BUILDERS.items()},
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("torch.nn.parameter", "Parameter"): _first,
    ("torch", "Size"): lambda args: tuple(_sequence(args)),
    ("torch.serialization", "_get_layout"): _opaque,
    ("torch", "device"): _opaque,
    **{("torch.jit._pickle", f"build_{kind}list"): _first for kind in ("int", "tensor", "double", "bool")},
    ("torch.jit._pickle", "restore_type_tag"): _first,
    **{("collections", name): _dictionary for name in ("OrderedDict", "defaultdict", "Counter")},
    ("collections", "deque"): _sequence,
    **{(module, "_reconstructor"): lambda args: Stub(args[0], ()) for module in ("copyreg", "copy_reg")},
    ("_codecs", "encode"): _encoded,
    **{
        (module, name): build
        for module in ("builtins", "__builtin__")
        for name, build in (
            ("dict", _dictionary),
            *((name, _sequence) for name in ("list", "set", "frozenset")),
            ("tuple", lambda args: tuple(_sequence(args))),
            *((name, lambda args: args[0] if args else b"") for name in ("bytes", "bytearray")),
            ("complex", _complex),
            *((name, _opaque) for name in ("slice", "range")),
        )
    },
    **{
        (f"numpy.{core}.{module}", name): build
        for core in ("core", "_core")
        for module, name, build in (
            ("multiarray", "_reconstruct", lambda args: Array()),
            ("multiarray", "scalar", _opaque),
            ("numeric", "_frombuffer", _array_from_buffer),
        )
    },
    ("numpy", "dtype"): lambda args: ArrayType(args[0] if isinstance(args[0], str) else "unknown"),
}

_NAMES = [
    *(("torch", name) for name in (*STORAGES, *BITS, *ALIASES)),
    *(("torch.storage", name) for name in ("UntypedStorage", "TypedStorage")),
    *(("torch", name) for name in ("per_tensor_affine", "per_channel_affine", "Tensor", "strided")),
    *(("torch", name) for name in ("per_channel_affine_float_qparams", "per_tensor_symmetric")),
    *(("torch._tensor", "Tensor"), ("numpy", "ndarray")),
    *((module, "object") for module in ("builtins", "__builtin__")),
]
"""Globals that are only referred to, never called."""

HARMLESS: dict[tuple[str, str], Builder | None] = {**_BUILDERS, **dict.fromkeys(_NAMES)}
"""The harmless globals, and the builder that represents a call of each."""
