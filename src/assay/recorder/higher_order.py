"""Higher-order operators: control flow whose bodies must be recorded, and attention that compiles itself.

A body runs as plain Python with the recorder active, so that its ops are recorded like any others.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from assay.recorder.intercept import Method, Observer, observing
from assay.recorder.shared import Shared, attribute

_FLEX = "torch.nn.attention.flex_attention"
_FLEX_SWITCH = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


def _while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()) -> Any:
    carried = tuple(carried_inputs)
    while cond_fn(*carried, *additional_inputs):
        carried = tuple(body_fn(*carried, *additional_inputs))
    return carried


def _scan(combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    carry = list(init)
    steps = []
    for step in range(xs[0].shape[0]):
        out = combine_fn(*carry, *[x[step] for x in xs], *additional_inputs)
        carry = list(out[: len(init)])
        steps.append(out[len(init) :])
    return [*carry, *(torch.stack(column) for column in zip(*steps, strict=True))]


def _map(f: Any, xs: Any, pos_args: Any = ()) -> Any:
    rows = [f(*[x[step] for x in xs], *pos_args) for step in range(xs[0].shape[0])]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


BODY_OPERATORS: dict[str, Any] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map}
"""Operators that do nothing but run their bodies, each with an equivalent Python function."""


_registered: set[Any] = set()


def register(mode: type[TorchDispatchMode]) -> None:
    """Let `mode` receive all higher-order operators; up to torch 2.5, each is registered for each mode."""
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in {*torch._ops._higher_order_ops.values()} - _registered:
        operator.py_impl(mode)(functools.partial(_to_mode, operator))
        _registered.add(operator)


def _to_mode(operator: Any, mode: TorchDispatchMode, *args: Any, **kwargs: Any) -> Any:
    return mode.__torch_dispatch__(operator, (), args, kwargs)


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Disable compilation inside the block: compiled submodules, flex_attention and TorchScript run op by op."""
    with _script_unoptimised(), contextlib.ExitStack() as stack:
        stack.enter_context(observing(_without_compiling(threading.get_ident()), torch, "compile"))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(_force_eager)
        if hasattr(sys.modules.get(_FLEX), _FLEX_SWITCH):
            stack.enter_context(_flex_eager)
        yield


def _without_compiling(owner: int) -> Observer:
    """A `torch.compile` without effect in thread `owner`, so that code compiled inside forward is recorded too."""

    def wrap(original: Method, replaced: Sequence[Method]) -> Method:
        def compile(model: Any = None, **options: Any) -> Any:
            if replaced:
                return replaced[0](model, **options)
            if threading.get_ident() != owner:
                return original(model, **options)
            return (lambda function: function) if model is None else model

        return compile

    return wrap


def _script_unoptimised() -> contextlib.AbstractContextManager[None]:
    # Fused ops are not dispatched, and merged ones are fewer than those of the model in Python. Each thread has a
    # setting of its own.
    unoptimised: contextlib.AbstractContextManager[None] = torch.jit.optimized_execution(False)
    return unoptimised


@Shared
def _force_eager() -> contextlib.AbstractContextManager[None]:
    if hasattr(torch.compiler, "set_stance"):
        stance: contextlib.AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
        return stance
    # Before torch 2.6, every compiled function installs its compiler through this one: none is installed.
    frames = sys.modules["torch._dynamo.eval_frame"]
    name = "_maybe_set_eval_frame" if hasattr(frames, "_maybe_set_eval_frame") else "set_eval_frame"
    install = getattr(frames, name)
    return attribute(frames, name, lambda _: install(None))


@Shared
@contextlib.contextmanager
def _flex_eager() -> Iterator[None]:
    flex = sys.modules[_FLEX]
    # The device check rejects meta tensors, although only their shapes are needed.
    with attribute(flex, _FLEX_SWITCH, True), attribute(flex, "_validate_device", lambda *_: None):
        yield
