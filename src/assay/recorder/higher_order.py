"""Higher-order operators: control flow whose bodies must be seen, and attention that compiles itself.

A body runs as plain Python with the recorder on, so that the operations inside are recorded as any other.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch

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


WITH_BODY: dict[str, Any] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map}
"""Operators whose own work is nothing but their bodies, written out as what they mean."""


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Nothing compiles itself while we watch: compiled submodules run as written, flex_attention eagerly."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(observing(_as_written(threading.get_ident()), torch, "compile"))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(_forced)
        if hasattr(sys.modules.get(_FLEX), _FLEX_SWITCH):
            stack.enter_context(_flex_uncompiled)
        yield


def _as_written(owner: int) -> Observer:
    """A `torch.compile` that compiles nothing in one thread: what forward compiles on its first call is seen too."""

    def wrap(original: Method, replaced: Sequence[Method]) -> Method:
        def compile(model: Any = None, **options: Any) -> Any:
            if replaced:
                return replaced[0](model, **options)
            if threading.get_ident() != owner:
                return original(model, **options)
            return (lambda function: function) if model is None else model

        return compile

    return wrap


_forced = Shared(lambda: torch.compiler.set_stance("force_eager"))


@Shared
@contextlib.contextmanager
def _flex_uncompiled() -> Iterator[None]:
    flex = sys.modules[_FLEX]
    # The device check refuses meta tensors, whose shapes are all that is needed there.
    with attribute(flex, _FLEX_SWITCH, True), attribute(flex, "_validate_device", lambda *_: None):
        yield
