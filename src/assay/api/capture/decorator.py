"""`@capture_model`: every forward pass of a model becomes a trace, where `assay run` says so."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from assay.api.capture import environment
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.trace.write.gate import Gate
    from assay.trace.write.plan import CapturePlan

Target = TypeVar("Target")

_WANTED = "a class, an instance or a function that returns a model is wanted, as in @capture_model(model_name='Net')"


@overload
def capture_model(
    model_name: str | None = None, record_shapes: bool = True, profile_memory: bool = True, **profiler_kwargs: Any
) -> Callable[[Target], Target]: ...


@overload
def capture_model(model_name: Target) -> Target: ...


def capture_model(
    model_name: Any = None, record_shapes: bool = True, profile_memory: bool = True, **profiler_kwargs: Any
) -> Any:
    """A decorator for a class of models, a model, or a function that returns one; also usable bare.

    Without `ASSAY_CAPTURE=1` (which `assay run` sets) it returns what it decorates, the very same object. With it,
    each forward pass writes `{model_name}_forward_{n:03d}.json`.

    Args:
        model_name: What the files are named after; the class of the model where left out.
        record_shapes: Keep the shapes of operands.
        profile_memory: Keep allocations.
        profiler_kwargs: Further options of torch's profiler.
    """
    from assay.trace.write.plan import check_options

    if model_name is not None and not isinstance(model_name, str):
        return capture_model(None, record_shapes, profile_memory, **profiler_kwargs)(model_name)
    check_options(profiler_kwargs)

    def decorate(target: Any) -> Any:
        kind = _kind_of(target)
        if not environment.is_on(environment.CAPTURE):
            return target
        plan = replace(
            environment.plan(),
            model_name=model_name,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            options=profiler_kwargs,
        )
        return kind(target, plan)

    return decorate


def _kind_of(target: Any) -> Callable[[Any, CapturePlan], Any]:
    """How `target` is captured; torch need not be imported to tell."""
    nn = sys.modules.get("torch.nn")
    is_class = isinstance(target, type)
    if nn is not None and (issubclass(target, nn.Module) if is_class else isinstance(target, nn.Module)):
        return _capture_itself
    if callable(target) and not is_class:
        return _capture_results
    raise UsageError(f"capture_model got {target!r:.80}: {_WANTED}")


def _capture_itself(target: Any, plan: CapturePlan) -> Any:
    add = _gate().add_class if isinstance(target, type) else _gate().add_object
    add(target, plan)
    return target


def _capture_results(target: Any, plan: CapturePlan) -> Any:
    @functools.wraps(target)
    def made(*args: Any, **kwargs: Any) -> Any:
        model = target(*args, **kwargs)
        nn = sys.modules.get("torch.nn")
        if nn is not None and isinstance(model, nn.Module):
            _gate().add_object(model, plan)
        else:
            _console().warn(f"{getattr(target, '__name__', 'the function')} returned no model: nothing is captured")
        return model

    return made


@functools.cache
def _gate() -> Gate:
    from assay.trace.write.gate import Gate

    return Gate(_console())


def _console() -> Any:
    from assay.api.capture.console import console

    return console()
