"""The only code that replaces `nn.Module.__call__`, the `forward` of a model's classes, or a function of torch.

Observers enter and leave in any order and from any thread; when the last one leaves, the original method object is
restored. Their wrappers are nested and are rebuilt when an observer enters or leaves, so that a call costs no more
than the wrappers themselves.

A replacement can be called after it was itself replaced: by another thread that was about to run it, or by a user's
patch. It then shows the call to the current observers, unless a newer replacement has already done so.
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
"""Returns a wrapper around its first argument. Once its second argument contains a method, it must only call that.

The first parameter of a `__call__` wrapper must be named `self`, because profilers that record stacks read that name.
"""
Owner = type | ModuleType

_lock = threading.RLock()
_compiling = torch.compiler.is_compiling


@contextlib.contextmanager
def observing(observer: Observer, owner: Owner = nn.Module, name: str = "__call__") -> Iterator[None]:
    """Show calls of a method to `observer` inside the block; an observer that enters twice sees each call once.

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


class _ShownCall(threading.local):
    """The call that this thread is passing to a user's patch."""

    first: Any = object()
    """Its first argument, usually the module; an unused object outside such calls."""


class _Target:
    """A method and its observers, newest last."""

    def __init__(self, owner: Owner, name: str) -> None:
        self.entries: Mapping[object, Observer] = {}
        self._owner, self._name = owner, name
        self._plain = owner.__dict__[name]
        self._bases: weakref.WeakKeyDictionary[Method, Method] = weakref.WeakKeyDictionary()
        """Maps each replacement to the method that it replaced."""
        self._replaced: list[Method] = []
        self._late: Method = self._plain
        self._shown_call = _ShownCall()

    def update(self, entries: Mapping[object, Observer]) -> None:
        """Replace the method for these observers, on top of any patch that the user has made since."""
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
        """`base` wrapped by the current observers; once `replaced` has an item, the outermost one only calls that."""
        method = base if base is self._plain else self._marked_shown(base)
        observers = list(dict.fromkeys(self.entries.values()))
        for observer in observers:
            wrapper = observer(method, replaced if observer is observers[-1] else ())
            method = functools.update_wrapper(wrapper, method)
        return method

    def _marked_shown(self, base: Method) -> Method:
        """`base`, a user's patch, with its calls marked as shown: an older replacement must not show them again."""
        shown_call = self._shown_call

        @functools.wraps(base)
        def marked(*args: Any, **kwargs: Any) -> Any:
            if _compiling():
                return base(*args, **kwargs)
            outer, shown_call.first = shown_call.first, _first_argument(args)
            try:
                return base(*args, **kwargs)
            finally:
                shown_call.first = outer

        return marked

    def _call_late(self, base: Method, *args: Any, **kwargs: Any) -> Any:
        """Handle a call of an outdated replacement of `base`."""
        if not self.entries or _compiling() or self._shown_call.first is _first_argument(args):
            return base(*args, **kwargs)
        return self._observed(base)(*args, **kwargs)


def _first_argument(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


_targets: weakref.WeakValueDictionary[tuple[Owner, str], _Target] = weakref.WeakValueDictionary()
"""A target exists as long as an observer or a reference to a replacement of its method exists."""

if hasattr(os, "register_at_fork"):  # a child process must not wait for a thread of its parent
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
