"""Trying guesses on a copy of the model whose tensors are on the meta device."""

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
"""Number of guesses tried before falling back to one that did not run."""
_SELECT_ALL = "meta_nonzero_assume_all_nonzero"
"""A torch setting, not in every version: indexing with a meta mask selects all elements."""


def choose(module: Any, guesses: Iterable[Guess]) -> Guess | None:
    """The first guess that runs, else the first whose failure is unrelated to shapes, else the first guess.

    None if there are no guesses. A single guess is returned without a trial.
    """
    remaining = iter(guesses)
    start = list(islice(remaining, 2))
    if len(start) < 2:
        return start[0] if start else None
    meta_copy = _meta_copy(module)
    if meta_copy is None:
        return start[0]
    undecided: Guess | None = None
    for guess in islice(chain(start, remaining), LIMIT):
        verdict = _runs(meta_copy, guess)
        if verdict:
            return guess
        if verdict is None:
            undecided = undecided or guess
    return undecided or start[0]


def _meta_copy(module: Any) -> Any | None:
    """A copy of `module` on the meta device that shares nothing with it; None if it cannot be copied."""
    torch = need("torch")
    tensors = [*module.parameters(), *module.buffers()]
    memo: dict[int, Any] = {}
    try:
        if isinstance(module, torch.jit.ScriptModule):
            return _reloaded_on_meta(torch, module).eval()
        for tensor in tensors:
            empty = torch.empty_like(tensor, device="meta")
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            memo[id(tensor)] = torch.nn.Parameter(empty, requires_grad=False) if is_parameter else empty
        return _in_evaluation(copy.deepcopy(module, memo))
    except Exception:  # noqa: BLE001 - copying runs the user's code, which may raise anything
        return None


def _in_evaluation(module: Any) -> Any:
    """`module` in evaluation mode, set by flag since `eval()` is forbidden for the module of an exported program."""
    for each in module.modules():
        each.training = False
    return module


def _reloaded_on_meta(torch: Any, module: Any) -> Any:
    """A copy of a scripted module by saving and loading, because its tensors cannot be replaced."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer, map_location="meta")


def _runs(meta_copy: Any, guess: Guess) -> bool | None:
    """Whether the copy runs on the guess; None if it stopped because its tensors have no values."""
    # Imported late, because it imports torch.
    from assay.sources.inference.mixing import Mixing

    torch = need("torch")
    args, kwargs = make(guess.specs, "meta")
    try:
        with _quiet(), _same_random_state(), torch.no_grad(), torch.random.fork_rng(devices=[]), Mixing():
            meta_copy(*args, **kwargs)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure means the guess is wrong
        return None if isinstance(error, NotImplementedError) or _lacks_values(error) else False
    return True


def _lacks_values(error: BaseException) -> bool:
    """Whether the error is about missing values of meta tensors, not about shapes."""
    # The last line is the reason; in scripted code, the lines before it are a traceback.
    text = (str(error).strip().splitlines() or [""])[-1]
    return "dtype" in text or ("meta" in text and "shape" not in text)


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    """Restore the random states of Python and numpy after the block."""
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
    """Suppress warnings, send output to stderr, and let meta masks select all elements."""
    from torch.fx.experimental import _config

    settings = {_SELECT_ALL: True} if hasattr(_config, _SELECT_ALL) else {}
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(), _config.patch(**settings):
        warnings.simplefilter("ignore")
        yield
