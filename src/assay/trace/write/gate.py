"""Which models are captured: decorated classes and instances, found again at their calls."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

import torch
from torch import nn

from assay.recorder.intercept import Method, observing
from assay.trace.write import capturing, current, profiler
from assay.trace.write.instances import Instances, due
from assay.trace.write.plan import CaptureLog, CapturePlan


class Gate:
    """Decides about every call of a module outside a capture."""

    def __init__(self, teller: CaptureLog) -> None:
        self._teller = teller
        self._classes: dict[type, CapturePlan] = {}
        self._kinds: dict[type, tuple[CapturePlan | None, str | None]] = {}
        """The plan of each class met, and where an instance keeps the model that may have one instead."""
        self._objects: dict[int, tuple[weakref.ref[nn.Module], CapturePlan]] = {}
        self._instances = Instances()
        self._skipping = threading.local()
        self._observed: set[type] = set()
        self._stack = contextlib.ExitStack()

    def add_class(self, cls: type[nn.Module], plan: CapturePlan) -> None:
        """Capture the instances of `cls` and of its subclasses."""
        self._classes[cls] = plan
        self._kinds.clear()
        self._observe(nn.Module)
        self._observe(next(base for base in cls.__mro__ if "__call__" in base.__dict__))  # may not reach nn.Module's
        self._teller.debug(f"{cls.__name__}: decorated; its calls are captured into {plan.directory}")

    def add_object(self, model: nn.Module, plan: CapturePlan) -> None:
        """Capture this object, not its copies."""
        self._observe(nn.Module)
        key = id(model)
        self._objects[key] = (weakref.ref(model, lambda _: self._objects.pop(key, None)), plan)
        self._teller.debug(f"{type(model).__name__}: this object's calls are captured into {plan.directory}")

    def call(self, module: nn.Module, original: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `original` returns; captured where the module is one of those added."""
        plan = self._plan_of(module)
        if plan is None or getattr(self._skipping, "now", False) or torch.jit.is_tracing():
            return original(module, *args, **kwargs)
        instance = self._instances.of(module, plan.model_name or type(_model_in(module)).__name__)
        why_not = due(instance, plan)
        if why_not is None and not profiler.turn.acquire(blocking=False):
            why_not = "another capture is running just now"
        if why_not is not None:
            self._teller.debug(f"{instance.name}, pass {instance.passes}: not captured, {why_not}")
            return self._passed_through(module, original, args, kwargs)
        capture = capturing.begin(module, plan, instance, self._teller, covers="forward")
        if capture is None:
            return self._passed_through(module, original, args, kwargs)
        try:
            result = capture.labelling.lane.call(module, original, args, kwargs)
        except BaseException as error:
            self._teller.passed(capture.finish(error))
            raise
        self._teller.passed(capture.finish(result=result))
        return result

    def close(self) -> None:
        """Capture nothing any more."""
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

    def _passed_through(
        self, module: nn.Module, original: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Nothing inside this call is captured either: it is no pass of its own."""
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
    """The model itself, out of what wraps it."""
    while (attribute := current.inner_attribute(type(module))) is not None:
        module = getattr(module, attribute)
    return module
