"""Trying a guess out: on a copy of the model whose tensors are all shape and no bytes."""

from __future__ import annotations

import contextlib
import copy
import io
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from assay.sources.inference.guess import Guess
from assay.sources.needs import need
from assay.sources.tensors import make

LIMIT = 400
"""Guesses tried before the first is taken on faith."""
_SELECT_ALL = "meta_nonzero_assume_all_nonzero"
"""With it, where torch has it, selecting by a mask that has no content selects everything."""


def choose(module: Any, guesses: Iterable[Guess]) -> Guess | None:
    """The first guess that runs, else the first whose failure says nothing about shapes, else the first.

    None where there are no guesses. A single guess is not tried.
    """
    offered = iter(guesses)
    start = list(islice(offered, 2))
    if len(start) < 2:
        return start[0] if start else None
    shadow = _shadow(module)
    if shadow is None:
        return start[0]
    undecided: Guess | None = None
    for guess in islice(chain(start, offered), LIMIT):
        verdict = _runs(shadow, guess)
        if verdict:
            return guess
        if verdict is None:
            undecided = undecided or guess
    return undecided or start[0]


def _shadow(module: Any) -> Any | None:
    """A copy of `module` on the meta device that shares nothing with it; None where it cannot be copied."""
    torch = need("torch")
    tensors = [*module.parameters(), *module.buffers()]
    memo: dict[int, Any] = {}
    try:
        if isinstance(module, torch.jit.ScriptModule):
            return _reloaded(torch, module).eval()
        for tensor in tensors:
            empty = torch.empty_like(tensor, device="meta")
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            memo[id(tensor)] = torch.nn.Parameter(empty, requires_grad=False) if is_parameter else empty
        return copy.deepcopy(module, memo).eval()
    except Exception:  # noqa: BLE001 - copying runs the user's code, which may raise anything
        return None


def _reloaded(torch: Any, module: Any) -> Any:
    """A copy of a scripted module, whose tensors belong to its own interpreter."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer, map_location="meta")


def _runs(shadow: Any, guess: Guess) -> bool | None:
    """Whether the copy runs; None where it stopped because its tensors have no content."""
    # Deferred like torch itself, on which this module is built.
    from assay.sources.inference.mixing import Mixing

    torch = need("torch")
    args, kwargs = make(guess.specs, "meta")
    try:
        with _quiet(), _same_luck(), torch.no_grad(), torch.random.fork_rng(devices=[]), Mixing():
            shadow(*args, **kwargs)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure means the guess is wrong
        return None if isinstance(error, NotImplementedError) or _lacks_content(error) else False
    return True


def _lacks_content(error: BaseException) -> bool:
    # The last line is the reason; what scripted code prints before it is its traceback.
    text = (str(error).strip().splitlines() or [""])[-1]
    return "dtype" in text or ("meta" in text and "shape" not in text)


@contextlib.contextmanager
def _same_luck() -> Iterator[None]:
    """Put back the random states outside torch that a forward may use up."""
    numpy = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if numpy:
            numpy.random.set_state(numpy_state)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    from torch.fx.experimental import _config

    known = {_SELECT_ALL: True} if hasattr(_config, _SELECT_ALL) else {}
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(), _config.patch(**known):
        warnings.simplefilter("ignore")
        yield
