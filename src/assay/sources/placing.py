"""Moving input tensors to a device and dtype, also inside nested tuples, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from assay.sources.needs import is_tensor
from assay.sources.tensors import torch_dtype


def place(value: Any, device: str | None, dtype: str | None) -> Any:
    """`value` with all tensors moved to `device` and the floating-point ones converted to `dtype`.

    For `meta`, integer tensors stay on the CPU: they are indices, and the model's control flow can depend on them.
    """
    new_dtype = torch_dtype(dtype)

    def move(tensor: Any) -> Any:
        floating = tensor.is_floating_point()
        if device == "meta" and (tensor.is_nested or not (floating or tensor.is_complex())):
            return tensor if tensor.is_meta else tensor.to("cpu")
        return tensor.to(device=device, dtype=new_dtype if floating else None)

    return value if device is None and dtype is None else _mapped(value, move)


def place_loaded(module: Any, device: str | None, dtype: str | None) -> None:
    """Move TorchScript that was loaded from a file, whose tensors cannot be substituted for a pass."""
    if device != "meta" and (device is not None or dtype is not None):
        module.to(device=device, dtype=torch_dtype(dtype))


def model_device(module: Any) -> str | None:
    """The device of the module's first parameter or buffer; None if it has none."""
    tensors = chain(module.parameters(), module.buffers())
    return next((str(tensor.device) for tensor in tensors), None)


def model_dtype(module: Any) -> str:
    """The dtype of the first floating-point parameter, buffer or constant of the module; `float32` if it has none."""
    constants = (layer.weight for _, layer in layers_in_code(module))
    for tensor in chain(module.parameters(), module.buffers(), constants):
        if tensor.is_floating_point() and tensor.dtype.itemsize > 1:
            return str(tensor.dtype).removeprefix("torch.")
    return "float32"


def layers_in_code(module: Any) -> Iterator[tuple[str, Any]]:
    """What stands for the layers of a frozen TorchScript file, by name; nothing for other modules."""
    read = getattr(type(module), "layers_in_code", None)
    return read(module) if read is not None else iter(())


def _mapped(value: Any, move: Callable[[Any], Any]) -> Any:
    """`value` with every tensor in it replaced by `move(tensor)`."""
    if is_tensor(value):
        return move(value)
    if isinstance(value, tuple):
        items = [_mapped(item, move) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_mapped(item, move) for item in value]
    if type(value) is dict:
        return {key: _mapped(item, move) for key, item in value.items()}
    return value
