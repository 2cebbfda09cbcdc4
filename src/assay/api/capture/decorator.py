"""`@capture_model`: writes a trace of every forward pass of a model, if captures are enabled."""

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

_EXPECTED = (
    "expected a model class, a model, or a function that returns a model, as in @capture_model(model_name='Net')"
)


@overload
def capture_model(
    model_name: str | None = None, record_shapes: bool = True, profile_memory: bool = True, **profiler_kwargs: Any
) -> Callable[[Target], Target]: ...


@overload
def capture_model(model_name: Target) -> Target: ...


def capture_model(
    model_name: Any = None, record_shapes: bool = True, profile_memory: bool = True, **profiler_kwargs: Any
) -> Any:
    """Write a Chrome trace of every forward pass of a model class, a model, or a model that a function returns.

    It works with or without parentheses. Captures are enabled by `ASSAY_CAPTURE=1`, which `assay run` sets; otherwise
    the decorated object is returned unchanged. Each pass writes `{model_name}_forward_{n:03d}.json`.

    Args:
        model_name: The name used in the file names. None uses the class name of the model.
        record_shapes: Record the shapes of op inputs.
        profile_memory: Record memory allocations.
        profiler_kwargs: Further options of `torch.profiler.profile`, such as `with_stack=True`.

    Returns:
        A decorator; or, if used without parentheses, the decorated object.

    Raises:
        UsageError: The decorated object is not a model class, a model or a function, or an option is not valid.
    """
    from assay.trace.write.plan import check_options

    if model_name is not None and not isinstance(model_name, str):
        return capture_model(None, record_shapes, profile_memory, **profiler_kwargs)(model_name)
    check_options(profiler_kwargs)

    def decorate(target: Any) -> Any:
        start_capture = _capture_function(target)
        if not environment.is_on(environment.CAPTURE):
            return target
        plan = replace(
            environment.capture_plan(),
            model_name=model_name,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            options=profiler_kwargs,
        )
        return start_capture(target, plan)

    return decorate


def _capture_function(target: Any) -> Callable[[Any, CapturePlan], Any]:
    """The function that starts capturing `target`, chosen without importing torch."""
    nn = sys.modules.get("torch.nn")
    is_class = isinstance(target, type)
    if nn is not None and (issubclass(target, nn.Module) if is_class else isinstance(target, nn.Module)):
        return _capture_itself
    if callable(target) and not is_class:
        return _capture_results
    raise UsageError(f"cannot capture {target!r:.80}: {_EXPECTED}")


def _capture_itself(target: Any, plan: CapturePlan) -> Any:
    add = _gate().add_class if isinstance(target, type) else _gate().add_instance
    add(target, plan)
    return target


def _capture_results(target: Any, plan: CapturePlan) -> Any:
    @functools.wraps(target)
    def build(*args: Any, **kwargs: Any) -> Any:
        model = target(*args, **kwargs)
        nn = sys.modules.get("torch.nn")
        if nn is not None and isinstance(model, nn.Module):
            _gate().add_instance(model, plan)
        else:
            _console().warn(
                f"{getattr(target, '__name__', 'the function')} did not return a model: nothing is traced"
            )
        return model

    return build


@functools.cache
def _gate() -> Gate:
    from assay.trace.write.gate import Gate

    return Gate(_console())


def _console() -> Any:
    from assay.api.capture.console import console

    return console()
