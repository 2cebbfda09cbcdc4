"""Running operations without data: shapes on the meta device, values only where they are known.

Token ids, positions, masks and what follows from them stay real on the CPU, so that code which looks at
them takes its true path. Everything else is a meta tensor. Output shapes are remembered by the operation's
signature (a meta kernel takes 20–1000 µs, a repeat 2), data-dependent operations follow `policies`, and
what has no meta kernel runs on zeros of the right shape where those are small.
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
from assay.recorder.guard import Originals
from assay.recorder.intercept import Method, observing
from assay.recorder.kinds import tensors_in
from assay.recorder.storages import Life, StorageLog
from assay.recorder.substitute import without_data

_KNOWN_LIMIT = 1 << 22
"""Elements beyond which a value is not worth knowing."""

_STAND_IN_LIMIT = 1 << 24
"""Elements beyond which an operation is not run on zeros."""

_SCALAR_LIMIT = 4096
"""Guessed scalars beyond which a loop that waits for data is taken to never end."""

_RANDOM = ("rand", "normal", "bernoulli", "empty", "multinomial")
"""Factories whose values mean nothing."""

_META = torch.device("meta")
_CPU = torch.device("cpu")


class NeedsDataError(RuntimeError):
    """The model's path depends on values that do not exist without data."""


class _Output(NamedTuple):
    source: int
    """The input it is or views; -1 for a new tensor."""
    same: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype


class _Recipe(NamedTuple):
    """How to make an operation's result again."""

    outputs: tuple[_Output, ...]
    several: bool
    written: tuple[int, ...]
    """The inputs it writes into; their values are unknown afterwards."""

    def make(self, tensors: list[torch.Tensor], lives: list[Life]) -> Any:
        if self.written:
            _forget(self.written, lives)
        if self.several:
            return [_make(output, tensors) for output in self.outputs]
        return _make(self.outputs[0], tensors)


class Dataless:
    """An executor for the recorder that needs no data."""

    def __init__(self, storages: StorageLog, originals: Originals, place: Callable[[], str]) -> None:
        self._storages = storages
        self._originals = originals
        self._place = place
        self._memo: dict[tuple[Any, ...], _Recipe] = {}
        self._assumed: Counter[str] = Counter()
        self._guesses = 0
        self.gave_values = False
        """Whether code outside torch was given values that do not exist."""

    def assumptions(self) -> tuple[str, ...]:
        """What had to be assumed, a line each."""
        return tuple(text if times == 1 else f"{text} ({times} times)" for text, times in self._assumed.items())

    def assume(self, op: str, what: str) -> None:
        """Note that `op` had no data and what was taken instead."""
        self._assumed[f"{op} in {self._place()}: {what}"] += 1

    def guess(self, op: str, value: Any) -> Any:
        """A scalar that only data could tell; refuses to feed a loop for ever."""
        self._guesses += 1
        if self._guesses > _SCALAR_LIMIT:
            raise NeedsDataError(f"{op} in {self._place()} was asked {_SCALAR_LIMIT} times for values that need data")
        self.assume(op, f"no data, took {value}")
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
        recipe = self._memo.get(key)
        if recipe is not None:
            return recipe.make(tensors, lives)
        if not isinstance(func, torch._ops.OpOverload):
            return self._shape_only(func, args, kwargs, tensors)
        if not tensors:
            return self._create(func, args, kwargs, key)
        if all(life.known for life in lives):
            return self._really(func, args, kwargs, tensors, lives)
        policy = policies.TABLE.get(func._schema.name)
        result = policies.NO_OPINION if policy is None else policy(self, func, args, kwargs)
        if result is not policies.NO_OPINION:
            _forget(_written(func, args, kwargs), lives)
            return result
        result = self._shape_only(func, args, kwargs, tensors)
        written = _written(func, args, kwargs)
        _forget(written, lives)
        if torch.Tag.inplace_view not in func.tags:
            self._remember(key, result, tensors, written)
        return result

    def is_known(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's values are real."""
        return self._storages.find(tensor, "constant").known

    def made_up(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor of ones in its place, for code that leaves torch; its values count as unknown."""
        self.gave_values = True
        result = torch.ones(tensor.shape, dtype=tensor.dtype)
        self._storages.find(result, "activation").known = False
        return result

    def _create(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...]) -> Any:
        """A factory: real where its values may matter and are cheap, else meta."""
        noise = any(part in func._schema.name for part in _RANDOM)
        extent = _factory_extent(func, args)
        if not noise and extent is not None and extent <= _KNOWN_LIMIT:
            return _on_device(func, args, kwargs, _CPU)
        result = _on_device(func, args, kwargs, _META)
        if noise or not isinstance(result, torch.Tensor) or result.numel() > _KNOWN_LIMIT:
            self._remember(key, result, [], ())
            return result
        return _on_device(func, args, kwargs, _CPU)

    def _remember(
        self, key: tuple[Any, ...], result: Any, tensors: list[torch.Tensor], written: tuple[int, ...]
    ) -> None:
        """Keep how to make this result again, where it can be made from shapes alone."""
        several = isinstance(result, (list, tuple))
        found = [_output(item, tensors) for item in (result if several else (result,))]
        outputs = tuple(output for output in found if output is not None)
        if len(outputs) == len(found):
            self._memo[key] = _Recipe(outputs, several, written)

    def _really(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], lives: list[Life]) -> Any:
        """All values are known: compute, and forget what became too large."""
        self._originals.protect(func, args, tensors, lives)
        try:
            real_args, real_kwargs = tree_map_only(torch.device, lambda _: _CPU, (args, kwargs))
            result = func(*real_args, **real_kwargs)
        except (RuntimeError, NotImplementedError):  # no kernel for it on this device, perhaps: shapes will do
            result = self._shape_only(func, args, kwargs, tensors)
            self.assume(str(func), "its CPU kernel refused known values, took shapes alone")
            return result
        if any(output.numel() > _KNOWN_LIMIT for output in tensors_in(result)):
            return tree_map_only(torch.Tensor, without_data, result)
        return result

    def _shape_only(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        """The result's shape from the meta kernel, or from the real kernel on stand-ins."""
        stand_ins: dict[int, torch.Tensor] = {}
        arguments = tree_map_only(torch.device, lambda _: _META, (args, kwargs))
        try:
            meta_args, meta_kwargs = tree_map_only(torch.Tensor, _remembering(without_data, stand_ins), arguments)
            result = func(*meta_args, **meta_kwargs)
        except Exception:
            if sum(tensor.numel() for tensor in tensors) > _STAND_IN_LIMIT:
                raise
            stand_ins.clear()
            result = self._on_stand_ins(func, (args, kwargs), stand_ins)
            if result is None:
                raise
        back = {id(stand_ins[id(tensor)]): tensor for tensor in tensors if id(tensor) in stand_ins}

        def original(output: torch.Tensor) -> torch.Tensor:
            """The caller's own tensor where the operation returned its argument."""
            return back[id(output)] if id(output) in back else without_data(output)

        return tree_map_only(torch.Tensor, original, result)

    def _on_stand_ins(self, func: Any, arguments: Any, stand_ins: dict[int, torch.Tensor]) -> Any:
        """The real kernel's result on zeros where values are unknown; None where that fails too."""

        def stand_in(tensor: torch.Tensor) -> torch.Tensor:
            if self.is_known(tensor):
                return tensor.clone()
            return torch.zeros(tensor.shape, dtype=tensor.dtype)

        try:
            arguments = tree_map_only(torch.device, lambda _: _CPU, arguments)
            real_args, real_kwargs = tree_map_only(torch.Tensor, _remembering(stand_in, stand_ins), arguments)
            result = func(*real_args, **real_kwargs)
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            return None
        self.assume(str(func), "no meta kernel, shapes taken from a run on zeros")
        return result


@contextlib.contextmanager
def real_constants(wanted: bool) -> Iterator[None]:
    """While active, `torch.tensor(…, device=meta)` is made on the CPU, where its value stays known.

    On meta it is made without any dispatch: the value would be lost and the operation unseen.
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
        for name in ("tensor", "as_tensor") if wanted else ():
            stack.enter_context(observing(on_cpu, torch, name))
        yield


def _make(output: _Output, tensors: list[torch.Tensor]) -> Any:
    if output.source < 0:
        return torch.empty_strided(output.shape, output.strides, dtype=output.dtype, device=_META)
    source = tensors[output.source]
    if output.same:
        return source
    return source.as_strided(output.shape, output.strides, source.storage_offset() + output.offset)


def _output(result: Any, tensors: list[torch.Tensor]) -> _Output | None:
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


def _remembering(
    convert: Callable[[torch.Tensor], torch.Tensor], memory: dict[int, torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """`convert` once a tensor, so that an argument given twice stays one."""

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in memory:
            memory[id(tensor)] = convert(tensor)
        return memory[id(tensor)]

    return once


def _on_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device) -> Any:
    """Run a factory on another device than it was asked for."""
    args, kwargs = tree_map_only(torch.device, lambda _: device, (args, kwargs))
    if any(argument.name == "device" for argument in func._schema.arguments):
        kwargs = {**kwargs, "device": device}
    return func(*args, **kwargs)


def _factory_extent(func: Any, args: tuple[Any, ...]) -> int | None:
    """How many elements a factory will make, where its arguments say so at once."""
    name = func._schema.name
    if args and isinstance(args[0], (list, tuple)):
        return math.prod(args[0])
    if name == "aten::arange":
        bounds = [value for value in args if isinstance(value, (int, float))]
        start, end, step = (0, *bounds, 1)[:3] if len(bounds) == 1 else (*bounds, 1)[:3]
        return int((end - start) / step) + 1 if step else None
    return 1 if name == "aten::scalar_tensor" else None


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The positions, among the tensors, of those that the operation writes into."""
    schema = func._schema
    if not schema.is_mutable:
        return ()
    positions: list[int] = []
    seen = 0
    for position, argument in enumerate(schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        extent = sum(1 for _ in tensors_in(value))
        if argument.alias_info is not None and argument.alias_info.is_write:
            positions.extend(range(seen, seen + extent))
        seen += extent
    return tuple(positions)


def _forget(written: tuple[int, ...], lives: list[Life]) -> None:
    """Unknown values were written into these: whatever was known of them is no longer true."""
    for position in written:
        lives[position].known = False
