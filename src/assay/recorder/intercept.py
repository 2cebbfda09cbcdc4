"""The only code that replaces `nn.Module.__call__`, the `forward` of a model's classes, or a function of torch.

Observers enter and leave in any order and from any thread; when the last one leaves, the method is the very object
it was. Their wrappers lie around each other and are rebuilt when an observer enters or leaves, so that a call costs
no more than the wrappers themselves.

A replacement can outlive its time: another thread is about to run it, or a patch of the user's calls it. It then
shows the call to the observers of that moment, unless a newer replacement has already done so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn

Method = Callable[..., Any]
Observer = Callable[[Method, Sequence[Method]], Method]
"""Wraps the method given first. Once its second argument holds a method, the wrapper must only call that one.

The first parameter of a `__call__` is called `self`: a profiler that records stacks reads that local.
"""
Owner = type | ModuleType

_lock = threading.RLock()
_compiling = torch.compiler.is_compiling


@contextlib.contextmanager
def observing(observer: Observer, owner: Owner = nn.Module, name: str = "__call__") -> Iterator[None]:
    """Show calls of a method to `observer`; one that enters twice sees each call once.

    `owner` is the class that defines the method, or the Python module of a function.
    """
    entry = object()
    with _lock:
        target = _targets.get((owner, name)) or _targets.setdefault((owner, name), _Target(owner, name))
    try:
        with _lock:
            target.update({**target.entries, entry: observer})
        yield
    finally:
        with _lock:
            target.update({key: each for key, each in target.entries.items() if key is not entry})


class _Shown(threading.local):
    first: Any = object()
    """The first argument of the call that this thread has shown and passed on to a user's patch."""


class _Target:
    """A method and its observers, the newest last."""

    def __init__(self, owner: Owner, name: str) -> None:
        self.entries: Mapping[object, Observer] = {}
        self._owner, self._name = owner, name
        self._plain = owner.__dict__[name]
        self._bases: weakref.WeakKeyDictionary[Method, Method] = weakref.WeakKeyDictionary()
        """Our replacements, and what each was put in place of."""
        self._replaced: list[Method] = []
        self._late: Method = self._plain
        self._shown = _Shown()

    def update(self, entries: Mapping[object, Observer]) -> None:
        """Replace the method as these entries require, on top of a patch that the user has made meanwhile."""
        self.entries = entries
        current = self._owner.__dict__[self._name]
        base = self._bases.get(current, current)
        self._replaced[:] = [self._late]
        if entries:
            self._replaced, self._late = [], functools.partial(self._call_late, base)
            method = self._observed(base, self._replaced)
            self._bases[method] = base
            setattr(self._owner, self._name, method)
        elif base is not current:
            setattr(self._owner, self._name, base)

    def _observed(self, base: Method, replaced: Sequence[Method] = ()) -> Method:
        """`base` with the present observers around it; the outermost gives way once there is a replacement."""
        method = base if base is self._plain else self._noted(base)
        observers = list(dict.fromkeys(self.entries.values()))
        for observer in observers:
            wrapper = observer(method, replaced if observer is observers[-1] else ())
            method = functools.update_wrapper(wrapper, method)
        return method

    def _noted(self, base: Method) -> Method:
        """`base`, a user's patch that may call an older replacement: what it passes on has been shown already."""
        shown = self._shown

        @functools.wraps(base)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if _compiling():
                return base(*args, **kwargs)
            outer, shown.first = shown.first, _first(args)
            try:
                return base(*args, **kwargs)
            finally:
                shown.first = outer

        return noted

    def _call_late(self, base: Method, *args: Any, **kwargs: Any) -> Any:
        """Call a replacement of `base` that has itself been replaced."""
        if not self.entries or _compiling() or self._shown.first is _first(args):
            return base(*args, **kwargs)
        return self._observed(base)(*args, **kwargs)


def _first(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


_targets: weakref.WeakValueDictionary[tuple[Owner, str], _Target] = weakref.WeakValueDictionary()
"""A target lives as long as somebody observes it or holds a replacement of its method."""

if hasattr(os, "register_at_fork"):  # a child must not wait for a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
