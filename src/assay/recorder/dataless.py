"""Running ops without data: shapes on the meta device, values only if they are known.

Token ids, positions, masks and values computed from them stay real on the CPU, so that code which depends on them
takes the right branch. Everything else is a meta tensor. Output shapes are cached by the op's signature (a meta
kernel takes 20–1000 µs, a cache hit 2 µs), data-dependent ops follow `policies`, and ops without a meta kernel run on
zeros of the right shape if those are small.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from assay.recorder import policies
from assay.recorder.bounds import Bounds
from assay.recorder.guard import Originals
from assay.recorder.intercept import Method, observing
from assay.recorder.inventory import sizes
from assay.recorder.kinds import tensors_in
from assay.recorder.storages import Life, StorageLog, lacks_meta_form
from assay.recorder.substitute import without_data

_KNOWN_LIMIT = 1 << 22
"""Tensors with more elements are not kept as known values."""

_STAND_IN_LIMIT = 1 << 24
"""Ops whose inputs have more elements are not run on zeros."""

_SCALAR_LIMIT = 4096
"""After this many assumed scalars, a loop that depends on data is considered endless."""

_RANDOM = ("rand", "normal", "bernoulli", "empty", "multinomial")
"""Parts of the names of factories whose values are arbitrary."""

_META = torch.device("meta")
_CPU = torch.device("cpu")


class NeedsDataError(RuntimeError):
    """The model's control flow depends on values that do not exist without data."""


class _Output(NamedTuple):
    """How to make one output of an op."""

    source: int
    """Index of the input that the output is or views; -1 for a new tensor."""
    same: bool
    """Whether the output is the input itself, not a view."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype


class _Recipe(NamedTuple):
    """How to make the result of an op again."""

    outputs: tuple[_Output, ...]
    several: bool
    written: tuple[int, ...]
    """Indices of the inputs that the op writes to; their values are unknown afterwards."""

    def make(self, tensors: list[torch.Tensor], lives: list[Life]) -> Any:
        """The result for these inputs."""
        if self.written:
            _mark_unknown(self.written, lives)
        if self.several:
            return [_make(output, tensors) for output in self.outputs]
        return _make(self.outputs[0], tensors)


class Dataless:
    """An executor for the recorder that runs ops without data."""

    def __init__(self, storages: StorageLog, originals: Originals, module_label: Callable[[], str]) -> None:
        self._storages = storages
        self._originals = originals
        self._module_label = module_label
        self._recipes: dict[tuple[Any, ...], _Recipe] = {}
        self._assumed: Counter[str] = Counter()
        self._assumed_values = 0
        self.bounds = Bounds(storages)
        self.made_up_values = False
        """Whether code outside torch has received made-up values."""

    def assumptions(self) -> tuple[str, ...]:
        """All assumptions, one line each, with a count if repeated."""
        return tuple(text if times == 1 else f"{text} ({times} times)" for text, times in self._assumed.items())

    def assume(self, op: str, what: str) -> None:
        """Record that `op` had no data and what was assumed instead."""
        self._assumed[f"{op} in {self._module_label()}: {what}"] += 1

    def assume_size(self, op: str, what: str) -> None:
        """Record that a size of the current `op` depends on data, and the maximum that was assumed."""
        self.bounds.assumed()
        self.assume(op, f"no data, assumed {what}")

    def assume_value(self, op: str, value: Any) -> Any:
        """Return `value` for a scalar that depends on data; raises `NeedsDataError` in an endless loop."""
        self._assumed_values += 1
        if self._assumed_values > _SCALAR_LIMIT:
            where = f"{op} in {self._module_label()}"
            raise NeedsDataError(f"{where} read over {_SCALAR_LIMIT:,} values that exist only with data")
        self.assume(op, f"no data, assumed {value}")
        return value

    def __call__(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: tuple[Any, ...],
        tensors: list[torch.Tensor],
        lives: list[Life],
    ) -> Any:
        result = self._run(func, args, kwargs, key, tensors, lives)
        self.bounds.follow(func, args, lives, result)
        return result

    def _run(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: tuple[Any, ...],
        tensors: list[torch.Tensor],
        lives: list[Life],
    ) -> Any:
        """The result of an op: cached, created, computed from known values, by its policy, or from shapes."""
        recipe = self._recipes.get(key)
        if recipe is not None:
            return recipe.make(tensors, lives)
        if not isinstance(func, torch._ops.OpOverload):
            return self._shape_only(func, args, kwargs, tensors)
        if not tensors:
            return self._create(func, args, kwargs, key)
        if all(life.values_known for life in lives):
            return self._compute(func, args, kwargs, tensors, lives)
        policy = None if any(map(lacks_meta_form, tensors)) else policies.find(func._schema.name)
        result = policies.NOT_HANDLED if policy is None else policy(self, func, args, kwargs)
        if result is not policies.NOT_HANDLED:
            _mark_unknown(_written(func, args, kwargs), lives)
            return result
        result = self._shape_only(func, args, kwargs, tensors)
        written = _written(func, args, kwargs)
        _mark_unknown(written, lives)
        if torch.Tag.inplace_view not in func.tags:
            self._cache(key, result, tensors, written)
        return result

    def is_known(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's values are known."""
        return self._storages.find(tensor, "constant").values_known

    def made_up(self, tensor: torch.Tensor) -> torch.Tensor:
        """A CPU tensor of ones in place of `tensor`, for code outside torch; its values count as unknown."""
        self.made_up_values = True
        result = torch.ones(tensor.shape, dtype=tensor.dtype)
        self._storages.find(result, "activation").values_known = False
        return result

    def _create(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...]) -> Any:
        """Run a factory: on the CPU if its values may matter and are few, else on meta."""
        is_random = any(part in func._schema.name for part in _RANDOM)
        elements = _factory_elements(func, args)
        if not is_random and elements is not None and elements <= _KNOWN_LIMIT:
            return _on_device(func, args, kwargs, _CPU)
        result = _on_device(func, args, kwargs, _META)
        if is_random or not isinstance(result, torch.Tensor) or result.numel() > _KNOWN_LIMIT:
            self._cache(key, result, [], ())
            return result
        return _on_device(func, args, kwargs, _CPU)

    def _cache(
        self, key: tuple[Any, ...], result: Any, tensors: list[torch.Tensor], written: tuple[int, ...]
    ) -> None:
        """Cache how to make this result again, if shapes are enough to make it."""
        several = isinstance(result, (list, tuple))
        items = result if several else (result,)
        outputs = tuple(output for item in items if (output := _output(item, tensors)) is not None)
        if len(outputs) == len(items):
            self._recipes[key] = _Recipe(outputs, several, written)

    def _compute(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], lives: list[Life]) -> Any:
        """Compute an op whose inputs are all known; results that are too large become meta tensors."""
        self._originals.protect(func, args, tensors, lives)
        try:
            real_args, real_kwargs = tree_map_only(torch.device, lambda _: _CPU, (args, kwargs))
            result = func(*real_args, **real_kwargs)
        except (RuntimeError, NotImplementedError):  # perhaps there is no CPU kernel: shapes are enough
            result = self._shape_only(func, args, kwargs, tensors)
            self.assume(str(func), "its CPU kernel failed on known values, computed only shapes")
            return result
        if any(output.numel() > _KNOWN_LIMIT for output in tensors_in(result)):
            return tree_map_only(torch.Tensor, without_data, result)
        return result

    def _shape_only(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        """The result as meta tensors, from the meta kernel or, if that fails, from the CPU kernel on stand-ins."""
        stand_ins: dict[int, torch.Tensor] = {}
        arguments = tree_map_only(torch.device, lambda _: _META, (args, kwargs))
        try:
            if any(map(lacks_meta_form, tensors)) or _makes_memory(func):
                raise NotImplementedError(f"{func} on nested or quantized tensors needs memory")
            meta_args, meta_kwargs = tree_map_only(torch.Tensor, _once_per_tensor(without_data, stand_ins), arguments)
            result = func(*meta_args, **meta_kwargs)
        except Exception:
            if sum(tensor.numel() for tensor in tensors) > _STAND_IN_LIMIT:
                raise
            stand_ins.clear()
            result = self._on_stand_ins(func, (args, kwargs), stand_ins)
            if result is None:
                raise
        arguments_by_stand_in = {id(stand_ins[id(tensor)]): tensor for tensor in tensors if id(tensor) in stand_ins}

        def original(output: torch.Tensor) -> torch.Tensor:
            """The caller's own tensor if the op returned its argument, else a meta tensor if it can be one."""
            own = arguments_by_stand_in.get(id(output))
            if own is not None:
                return own
            return output if lacks_meta_form(output) else without_data(output)

        return tree_map_only(torch.Tensor, original, result)

    def _on_stand_ins(self, func: Any, arguments: Any, stand_ins: dict[int, torch.Tensor]) -> Any:
        """The CPU kernel's result, with zeros for unknown values; None if that fails too.

        Raises `NeedsDataError` for an op of another library whose shapes differ on ones: they depend on data.
        """

        def run(fill: int, memory: dict[int, torch.Tensor]) -> Any:
            def stand_in(tensor: torch.Tensor) -> torch.Tensor:
                if lacks_meta_form(tensor):
                    return tensor
                return tensor.clone() if self.is_known(tensor) else torch.full(tensor.shape, fill, dtype=tensor.dtype)

            real_args, real_kwargs = tree_map_only(torch.Tensor, _once_per_tensor(stand_in, memory), on_cpu)
            return func(*real_args, **real_kwargs)

        on_cpu = tree_map_only(torch.device, lambda _: _CPU, arguments)
        try:
            other = None if func.namespace == "aten" else list(map(sizes, tensors_in(run(1, {}))))
            result = run(0, stand_ins)
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            return None
        if other is not None and list(map(sizes, tensors_in(result))) != other:
            raise NeedsDataError(f"the shape of the result of {func} in {self._module_label()} depends on data")
        self.assume(str(func), "no meta kernel, took shapes from a run on zeros")
        return result


@contextlib.contextmanager
def real_constants(enabled: bool) -> Iterator[None]:
    """While active and `enabled`, `torch.tensor(…, device=meta)` creates a CPU tensor, whose value stays known.

    On meta the tensor is created without a dispatch: the value would be lost and the op not recorded.
    """
    owner = threading.get_ident()

    def on_cpu(original: Method, replaced: Sequence[Method]) -> Method:
        def constant(*args: Any, device: Any = None, **kwargs: Any) -> Any:
            if replaced:
                return replaced[0](*args, device=device, **kwargs)
            if device is not None and threading.get_ident() == owner and torch.device(device).type == "meta":
                device = _CPU
            return original(*args, device=device, **kwargs)

        return constant

    with contextlib.ExitStack() as stack:
        for name in ("tensor", "as_tensor") if enabled else ():
            stack.enter_context(observing(on_cpu, torch, name))
        yield


def _makes_memory(func: Any) -> bool:
    """Whether the op makes a nested or quantized tensor of regular ones."""
    return "_nested_" in str(func) or "quantize_per" in str(func)


def _make(output: _Output, tensors: list[torch.Tensor]) -> Any:
    """Make one output of an op from its inputs."""
    if output.source < 0:
        return torch.empty_strided(output.shape, output.strides, dtype=output.dtype, device=_META)
    source = tensors[output.source]
    if output.same:
        return source
    return source.as_strided(output.shape, output.strides, source.storage_offset() + output.offset)


def _output(result: Any, tensors: list[torch.Tensor]) -> _Output | None:
    """How to make `result` again from the inputs `tensors`; None if shapes are not enough."""
    if not isinstance(result, torch.Tensor):
        return None
    for position, tensor in enumerate(tensors):
        if result is tensor:
            return _Output(position, True, (), (), 0, result.dtype)
    if not result.is_meta or result.layout is not torch.strided or type(result) is not torch.Tensor:
        return None
    if any(tensor.layout is not torch.strided for tensor in tensors):
        return None
    address = result.untyped_storage()._cdata
    shape, strides = tuple(result.shape), tuple(result.stride())
    for position, tensor in enumerate(tensors):
        if tensor.untyped_storage()._cdata == address:
            if tensor.dtype != result.dtype:
                return None
            offset = result.storage_offset() - tensor.storage_offset()
            return _Output(position, False, shape, strides, int(offset), result.dtype)
    return _Output(-1, False, shape, strides, 0, result.dtype)


def _once_per_tensor(
    convert: Callable[[torch.Tensor], torch.Tensor], memory: dict[int, torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """`convert` with a cache, so that an argument passed twice is converted to the same tensor."""

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in memory:
            memory[id(tensor)] = convert(tensor)
        return memory[id(tensor)]

    return once


def _on_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device) -> Any:
    """Run a factory on `device` instead of the device in its arguments."""
    args, kwargs = tree_map_only(torch.device, lambda _: device, (args, kwargs))
    if any(argument.name == "device" for argument in func._schema.arguments):
        kwargs = {**kwargs, "device": device}
    return func(*args, **kwargs)


def _factory_elements(func: Any, args: tuple[Any, ...]) -> int | None:
    """The number of elements that a factory will create, if its arguments show it, else None."""
    name = func._schema.name
    if args and isinstance(args[0], (list, tuple)):
        return math.prod(args[0])
    if name == "aten::arange":
        bounds = [value for value in args if isinstance(value, (int, float))]
        start, end, step = (0, *bounds, 1)[:3] if len(bounds) == 1 else (*bounds, 1)[:3]
        return int((end - start) / step) + 1 if step else None
    return 1 if name == "aten::scalar_tensor" else None


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The positions, among all tensor arguments, of those that the op writes to."""
    schema = func._schema
    if not schema.is_mutable:
        return ()
    positions: list[int] = []
    counted = 0
    for position, argument in enumerate(schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        count = sum(1 for _ in tensors_in(value))
        if argument.alias_info is not None and argument.alias_info.is_write:
            positions.extend(range(counted, counted + count))
        counted += count
    return tuple(positions)


def _mark_unknown(written: tuple[int, ...], lives: list[Life]) -> None:
    """Mark the values at these positions as unknown, because unknown values were written to them."""
    for position in written:
        lives[position].values_known = False
