"""Which models are captured: decorated classes and instances, found again at their calls."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.trace.write import capturing, patch, profiler
from assay.trace.write.instances import Instances, due
from assay.trace.write.plan import CaptureLog, CapturePlan

Original = Callable[..., Any]


class _Kind(NamedTuple):
    """What is known about a class: its plan, or where an instance keeps the model that may have one."""

    plan: CapturePlan | None
    inner: str | None


class Gate:
    """Decides about every call of a module outside a capture."""

    def __init__(self, teller: CaptureLog) -> None:
        self._teller = teller
        self._classes: dict[type, CapturePlan] = {}
        self._kinds: dict[type, _Kind] = {}
        self._objects: dict[int, tuple[weakref.ref[nn.Module], CapturePlan]] = {}
        self._instances = Instances()
        self._skipping = threading.local()
        self._installed = False

    def add_class(self, cls: type[nn.Module], plan: CapturePlan) -> None:
        """Capture the instances of `cls` and of its subclasses."""
        self._install()
        self._classes[cls] = plan
        self._kinds.clear()
        own = cls.__call__
        if own is not nn.Module.__call__:  # it may never reach nn.Module's
            cls.__call__ = patch.watched(own)
        self._teller.debug(f"{cls.__name__}: decorated; its calls are captured into {plan.directory}")

    def add_object(self, model: nn.Module, plan: CapturePlan) -> None:
        """Capture this object, not its copies."""
        self._install()
        key = id(model)
        self._objects[key] = (weakref.ref(model, lambda _: self._objects.pop(key, None)), plan)
        self._teller.debug(f"{type(model).__name__}: this object's calls are captured into {plan.directory}")

    def call(self, module: nn.Module, original: Original, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
            result = capture.labelling.call(module, original, args, kwargs)
        except BaseException as error:
            self._teller.passed(capture.finish(error))
            raise
        self._teller.passed(capture.finish(result=result))
        return result

    def _install(self) -> None:
        if not self._installed:
            self._installed = True
            profiler.watch.install()
            profiler.prime()
            patch.set_gate(self.call)
            patch.install()

    def _passed_through(
        self, module: nn.Module, original: Original, args: tuple[Any, ...], kwargs: dict[str, Any]
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
            kind = self._kinds[cls] = self._kind_of(cls)
        if kind.inner is not None:
            model = getattr(module, kind.inner, None)
            return self._plan_of(model) if isinstance(model, nn.Module) else None
        if kind.plan is None or module.__dict__.get("_is_replica"):
            return None
        return kind.plan

    def _kind_of(self, cls: type) -> _Kind:
        plans = (self._classes[base] for base in cls.__mro__ if base in self._classes)
        return _Kind(next(plans, None), patch.inner_attribute(cls))


def _model_in(module: nn.Module) -> nn.Module:
    """The model itself, out of what wraps it."""
    while (attribute := patch.inner_attribute(type(module))) is not None:
        module = getattr(module, attribute)
    return module
