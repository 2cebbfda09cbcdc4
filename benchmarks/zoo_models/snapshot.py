"""Everything about a model that a recording must not change, as plain data that can be compared."""

from __future__ import annotations

import hashlib
import itertools
import random
import types
from collections import deque
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_TORCH_ATTRIBUTES = frozenset(nn.Module().__dict__)
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Named facts: tensor bytes, flags, gradients, hooks, modes, attributes and random states."""
    facts: dict[str, Any] = {}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in named:
        facts[f"tensor {name}"] = _tensor(tensor)
    for name, module in model.named_modules(remove_duplicate=False):
        facts[f"class of {name}"] = type(module).__qualname__
        facts[f"training of {name}"] = module.training
        facts[f"attributes of {name}"] = sorted(getattr(module, "__dict__", {}))
        facts[f"state of {name}"] = _state(_own_state(module), set())
        facts[f"hooks of {name}"] = [
            [(key, id(hook)) for key, hook in getattr(module, kind, {}).items()] for kind in _HOOKS
        ]
    facts["random torch"] = _digest(torch.get_rng_state().numpy().tobytes())
    facts["random numpy"] = _digest(repr(numpy.random.get_state(legacy=False)).encode())
    facts["random python"] = _digest(repr(random.getstate()).encode())
    facts["gradients on"] = torch.is_grad_enabled()
    return facts


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The facts that differ."""
    return [key for key in {**before, **after} if before.get(key, _ABSENT) != after.get(key, _ABSENT)]


_ABSENT = object()


def _own_state(module: nn.Module) -> dict[str, Any]:
    """The attributes of a module that torch did not put there, and the data attributes of its class."""
    own = {name: value for name, value in module.__dict__.items() if name not in _TORCH_ATTRIBUTES}
    owned_by_class = {
        name: value for name, value in vars(type(module)).items() if isinstance(value, (int, list, dict))
    }
    return own | {f"class {name}": value for name, value in owned_by_class.items()}


def _state(value: Any, seen: set[int]) -> Any:
    """Any value as nested tuples and digests, down to the attributes of plain objects; cycles are cut."""
    if isinstance(value, (str, int, float, bytes, type(None))):
        return value
    if id(value) in seen or isinstance(value, (type, nn.Module)):
        return type(value).__qualname__
    seen = seen | {id(value)}
    if isinstance(value, Tensor):
        return _tensor(value)[1:]
    if isinstance(value, dict):
        return [(str(key) if isinstance(key, str) else id(key), _state(item, seen)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [_state(item, seen) for item in value]
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, types.FunctionType):
        return [_state(cell.cell_contents, seen) for cell in value.__closure__ or ()]
    return [type(value).__qualname__, _state(getattr(value, "__dict__", {}), seen)]


def _tensor(tensor: Tensor) -> tuple[Any, ...]:
    if is_lazy(tensor):
        return ("lazy", id(tensor))
    gradient = tensor.grad if tensor.is_leaf else None
    data = None if gradient is None else _bytes(gradient)
    return id(tensor), tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad, _bytes(tensor), data


def _bytes(tensor: Tensor) -> str:
    if tensor.layout is not torch.strided:
        tensor = tensor.detach().to_dense()
    return _digest(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()
