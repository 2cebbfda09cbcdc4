"""The dispatch mode that records every op of a pass, below autograd, where composite ops are not decomposed.

The hot path is one function: sign the arguments, run the op, look up its kind by the signature, record the storages.
A new kind goes through `kinds.build` once; every repeat is a dictionary look-up.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from assay.document.host_reads import COPY, HostRead
from assay.document.rows import Op, OpKind
from assay.recorder import higher_order, kinds
from assay.recorder.calls import CallLog
from assay.recorder.host_reads import WATCHED, source_line
from assay.recorder.inventory import tensor_type
from assay.recorder.storages import Life, StorageLog

Executor = Callable[[Any, tuple[Any, ...], dict[str, Any], tuple[Any, ...], list[torch.Tensor], list[Life]], Any]
"""Runs an op: (func, args, kwargs, signature, tensors, the lives of their storages) → result."""

_TENSOR, _PLAIN, _TAGGED, _LIST, _DICT, _OBJECT = range(6)
"""How an argument is signed; a tagged value is signed with its class, because 1 == 1.0 == True."""

_CODES: dict[type, int] = {
    **dict.fromkeys((torch.Tensor, torch.nn.Parameter), _TENSOR),
    **dict.fromkeys((int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format), _PLAIN),
    **dict.fromkeys((float, bool, complex), _TAGGED),
    **dict.fromkeys((list, tuple, torch.Size), _LIST),
    dict: _DICT,
}
_SUBCLASSES = ((torch.Tensor, _TENSOR), ((list, tuple), _LIST), (dict, _DICT), (object, _OBJECT))
"""The code for a class that is not in `_CODES` yet, by base class."""

QUERIES = frozenset(
    {
        torch.ops.aten.size.int,
        torch.ops.aten.stride.int,
        torch.ops.aten.is_floating_point.default,
        torch.ops.aten.is_complex.default,
        torch.ops.aten.is_signed.default,
        torch.ops.prim.device.default,
    }
)
"""Ops by which TorchScript reads the type of a tensor; Python reads it without an op, so they are not recorded."""


class FailedOp(NamedTuple):
    """An op that raised an error."""

    error: BaseException
    target: str
    call: int
    """The innermost module call around it."""


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Records all ops while it is active; `executor` runs them."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by torch; True would import the compiler, which takes seconds, and wrap every op."""
        return False

    def __init__(self, calls: CallLog, storages: StorageLog, executor: Executor, nominal_device: str | None) -> None:
        super().__init__()
        self._outermost = sys._getframe(1).f_code  # the function that runs the model under this recorder
        higher_order.register(Recorder)
        self.kinds: list[OpKind] = []
        self.failed_op: FailedOp | None = None
        self.host_reads: list[HostRead] = []
        self._calls = calls
        self._storages = storages
        self._execute = executor
        self._nominal_device = nominal_device
        self._ops: list[tuple[int, int, tuple[int, ...], tuple[int, ...]]] = []
        self._first_kinds: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
        self._variants: dict[tuple[Any, ...], int] = {}
        self._objects: dict[int, Any] = {}
        self._forward_ops: int | None = None
        self._locate: Callable[[], int] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in QUERIES:
            return func(*args, **kwargs)
        call = self._calls.current if self._locate is None else self._locate()
        tensors: list[torch.Tensor] = []
        lives: list[Life] = []
        signature = [func]
        self._sign(args, signature, tensors, lives)
        if kwargs:
            for name, value in kwargs.items():
                signature.append(name)
                self._sign((value,), signature, tensors, lives)
        reads = tuple([life.number for life in lives])
        if len(reads) > 1 and len(set(reads)) < len(reads):
            signature.append(tuple(map(reads.index, reads)))  # which inputs share a storage
        key = tuple(signature)
        try:
            if func.__class__ is not torch._ops.OpOverload and func.name() in higher_order.BODY_OPERATORS:
                with self:
                    result = higher_order.BODY_OPERATORS[func.name()](*args, **kwargs)
            else:
                result = self._execute(func, args, kwargs, key, tensors, lives)
        except Exception as error:
            if self.failed_op is None or self.failed_op.error is not error:
                self.failed_op = FailedOp(error, kinds.target_of(func), call)
            raise
        self._record(func, args, kwargs, call, key, reads, lives, result)
        if func in WATCHED and self._forward_ops is None:
            self._note_host_read(func, args, kwargs, result)
        return result

    def begin_backward(self, locate: Callable[[], int]) -> None:
        """Record all further ops as part of the backward pass; `locate` returns the call of the current op."""
        self._forward_ops = len(self._ops)
        self._locate = locate

    def rows(self, assumed: Collection[int] = ()) -> list[Op]:
        """The ops in the order in which they ended; `assumed` are the indices of those with assumed sizes."""
        written = [[i for i, operand in enumerate(kind.inputs) if operand.written] for kind in self.kinds]
        fresh = [[i for i, output in enumerate(kind.outputs) if output.alias is None] for kind in self.kinds]
        boundary = len(self._ops) if self._forward_ops is None else self._forward_ops
        return [
            Op(
                kind,
                call,
                reads,
                tuple([results[i] for i in fresh[kind]] + [reads[i] for i in written[kind]]),
                "forward" if index < boundary else "backward",
                index in assumed,
            )
            for index, (kind, call, reads, results) in enumerate(self._ops)
        ]

    def _record(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: int,
        key: tuple[Any, ...],
        reads: tuple[int, ...],
        lives: list[Life],
        result: Any,
    ) -> None:
        """Record one executed op: its kind, its call and the storages it reads and makes."""
        storages = self._storages
        results: tuple[int, ...] = ()
        if _CODES.get(result.__class__) == _TENSOR:
            life = storages.find(result, "activation")
            results = (life.number,)
            output_types: tuple[Any, ...] = (*_type_key(result), life.number in reads)
        elif result is None:
            output_types = ()
        else:
            outputs = list(kinds.tensors_in(result))
            results = tuple([storages.find(output, "activation").number for output in outputs])
            pairs = zip(outputs, results, strict=True)
            output_types = tuple([(*_type_key(output), number in reads) for output, number in pairs])
        storages.clock += 1
        first_kind = self._first_kinds.get(key)
        if first_kind is not None and first_kind[1] == output_types:
            self._ops.append((first_kind[0], call, reads, results))
            return
        kind = self._variants.get((key, output_types))
        if kind is None:
            kind = len(self.kinds)
            roles = [life.role for life in lives]
            aliases = [first if (first := reads.index(number)) < i else None for i, number in enumerate(reads)]
            result_aliases = [reads.index(number) if number in reads else None for number in results]
            self.kinds.append(
                kinds.build(func, args, kwargs, roles, aliases, result, result_aliases, self._nominal_device)
            )
            self._first_kinds.setdefault(key, (kind, output_types))
            self._variants[key, output_types] = kind
        self._ops.append((kind, call, reads, results))

    def _note_host_read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note the last op if Python waits for its result."""
        before = [self.kinds[op[0]].target for op in self._ops[-3:-1]]
        what = WATCHED[func](args, kwargs, result, before)
        if what and not (what == COPY and self._nominal_device):  # known values are on the CPU in a pass without data
            self.host_reads.append(HostRead(len(self._ops) - 1, what, source_line(self._outermost)))

    def _sign(self, values: Any, signature: list[Any], tensors: list[torch.Tensor], lives: list[Life]) -> None:
        """Append the signature of these arguments to `signature`, and collect their tensors and storages."""
        live = self._storages.live
        for value in values:
            code = _CODES.get(value.__class__)
            if code == _TENSOR:
                try:
                    life = live.get(value.untyped_storage()._cdata) or self._storages.find(value, "constant")
                except (RuntimeError, NotImplementedError):
                    life = self._storages.find(value, "constant")
                signature += (*_type_key(value), life.role, life.values_known)
                tensors.append(value)
                lives.append(life)
            elif code == _PLAIN:
                signature.append(value)
            elif code == _TAGGED:
                signature += (value.__class__, value if value == value else "nan")
            elif code == _LIST:
                signature += ("(", len(value))
                self._sign(value, signature, tensors, lives)
            elif code == _DICT:
                signature += ("{", *map(str, value))
                self._sign(value.values(), signature, tensors, lives)
            else:
                self._sign_object(value, signature, tensors, lives)

    def _sign_object(self, value: Any, signature: list[Any], tensors: list[torch.Tensor], lives: list[Life]) -> None:
        """Sign a value of an unknown class: register its class in `_CODES`, or sign the object by identity."""
        cls = value.__class__
        if cls not in _CODES:
            _CODES[cls] = next(code for base, code in _SUBCLASSES if isinstance(value, base))
        if _CODES[cls] == _OBJECT:
            self._objects[id(value)] = value
            signature.append(id(value))
        else:
            self._sign((value,), signature, tensors, lives)


def _type_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Everything about the type of a tensor that its kind of op depends on, quickly for a regular tensor."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        return tensor.shape, tensor.stride(), tensor.dtype
    return (tensor_type(tensor),)


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """Disable autograd, so that composite ops reach the mode undecomposed and no tensor is saved for backward."""
    with torch.no_grad():
        guard = torch._C._AutoDispatchBelowAutograd()
        try:
            yield
        finally:
            del guard
