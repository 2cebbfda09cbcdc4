"""Selects the calls to capture: those of decorated classes and instances."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

import torch
from torch import nn

from assay.recorder.intercept import Method, observing
from assay.trace.write import capturing, current, profiler
from assay.trace.write.instances import Instances, skip_reason
from assay.trace.write.plan import CaptureLog, CapturePlan


class Gate:
    """Decides for every module call outside a capture whether to capture it."""

    def __init__(self, log: CaptureLog) -> None:
        self._log = log
        self._classes: dict[type, CapturePlan] = {}
        self._kinds: dict[type, tuple[CapturePlan | None, str | None]] = {}
        """Per class seen so far: its plan, and the attribute of a wrapper that contains the model (see
        `current.inner_attribute`)."""
        self._objects: dict[int, tuple[weakref.ref[nn.Module], CapturePlan]] = {}
        self._instances = Instances()
        self._skipping = threading.local()
        self._observed: set[type] = set()
        self._stack = contextlib.ExitStack()

    def add_class(self, cls: type[nn.Module], plan: CapturePlan) -> None:
        """Capture instances of `cls` and its subclasses."""
        self._classes[cls] = plan
        self._kinds.clear()
        self._observe(nn.Module)
        self._observe(next(base for base in cls.__mro__ if "__call__" in base.__dict__))  # may not call nn.Module's
        self._log.debug(f"{cls.__name__}: decorated; traces of its calls go to {plan.directory}")

    def add_instance(self, model: nn.Module, plan: CapturePlan) -> None:
        """Capture this object, but not its copies."""
        self._observe(nn.Module)
        key = id(model)
        self._objects[key] = (weakref.ref(model, lambda _: self._objects.pop(key, None)), plan)
        self._log.debug(f"{type(model).__name__}: traces of this object's calls go to {plan.directory}")

    def call(self, module: nn.Module, original: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `original`, with a capture if `module` was added, and return its result."""
        plan = self._plan_of(module)
        if plan is None or getattr(self._skipping, "now", False) or torch.jit.is_tracing():
            return original(module, *args, **kwargs)
        instance = self._instances.of(module, plan.model_name or type(_model_in(module)).__name__)
        why_not = skip_reason(instance, plan)
        if why_not is None and not profiler.turn.acquire(blocking=False):
            why_not = "another capture is running"
        if why_not is not None:
            self._log.debug(f"{instance.name}, pass {instance.passes}: not traced ({why_not})")
            return self._call_uncaptured(module, original, args, kwargs)
        capture = capturing.begin(module, plan, instance, self._log, covers="forward")
        if capture is None:
            return self._call_uncaptured(module, original, args, kwargs)
        try:
            result = capture.labelling.lane.call(module, original, args, kwargs)
        except BaseException as error:
            self._log.passed(capture.finish(error))
            raise
        self._log.passed(capture.finish(result=result))
        return result

    def close(self) -> None:
        """Stop capturing."""
        self._stack.close()

    def _observe(self, owner: type) -> None:
        if not self._observed:
            self._stack.enter_context(profiler.watch.watching)
            profiler.prime()
            current.running.gate = self.call
            self._stack.callback(setattr, current.running, "gate", None)
        if owner not in self._observed:
            self._observed.add(owner)
            self._stack.enter_context(observing(current.captured, owner))

    def _call_uncaptured(
        self, module: nn.Module, original: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call `original` without a capture; calls nested in it are not captured either."""
        self._skipping.now = True
        try:
            return original(module, *args, **kwargs)
        finally:
            self._skipping.now = False

    def _plan_of(self, module: nn.Module) -> CapturePlan | None:
        added = self._objects.get(id(module))
        if added is not None and added[0]() is module:
            return added[1]
        cls = type(module)
        kind = self._kinds.get(cls)
        if kind is None:
            plans = (self._classes[base] for base in cls.__mro__ if base in self._classes)
            kind = self._kinds[cls] = (next(plans, None), current.inner_attribute(cls))
        plan, inner = kind
        if inner is not None:
            model = getattr(module, inner, None)
            return self._plan_of(model) if isinstance(model, nn.Module) else None
        return None if plan is None or module.__dict__.get("_is_replica") else plan


def _model_in(module: nn.Module) -> nn.Module:
    """The model inside its wrappers, such as `nn.DataParallel`."""
    while (attribute := current.inner_attribute(type(module))) is not None:
        module = getattr(module, attribute)
    return module
