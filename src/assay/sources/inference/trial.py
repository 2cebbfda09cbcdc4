"""Trying guesses on a copy of the model whose tensors are on the meta device."""

from __future__ import annotations

import contextlib
import copy
import io
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any

from msgspec import Struct

from assay.sources.inference.guess import Guess, with_floats
from assay.sources.inference.placeholders import count_placeholders
from assay.sources.needs import is_tensor, need
from assay.sources.tensors import TensorSpec, make

LIMIT = 400
"""Number of guesses tried before falling back to one that did not run."""
_SELECT_ALL = "meta_nonzero_assume_all_nonzero"
"""A torch setting, not in every version: indexing with a meta mask selects all elements."""


class Outcome(Struct, frozen=True):
    """The result of one trial."""

    runs: bool | None
    """None if the pass stopped because its tensors have no values."""
    modules: frozenset[int] = frozenset()
    """The ids of the copy's modules that were called."""
    rows: tuple[int, ...] = ()
    """Numbers of embeddings that were to replace placeholder tokens, in the order of the calls."""
    last: tuple[int, ...] = ()
    """The rows of the last tensor that a module returned before the pass stopped; empty if it did not stop."""
    flops: int = 0
    """Operations in products and convolutions, two per multiply-add."""


class Trial:
    """A model's copy on the meta device, on which guesses are tried."""

    def __init__(self, module: Any, floats: str) -> None:
        self._module, self._floats = module, floats
        self._rows: list[int] = []
        self._outcomes: dict[tuple[TensorSpec, ...], Outcome] = {}

    @cached_property
    def _copy(self) -> Any | None:
        copied = _meta_copy(self._module)
        if copied is not None:
            count_placeholders(copied, self._rows)
        return copied

    def run(self, guess: Guess) -> Outcome:
        """The outcome of calling the copy with the guess, once."""
        if guess.specs not in self._outcomes:
            self._outcomes[guess.specs] = self._run(guess)
        return self._outcomes[guess.specs]

    def flops(self, guess: Guess) -> int:
        """The operations of a pass, if the guess was tried; else 0."""
        return self._outcomes[guess.specs].flops if guess.specs in self._outcomes else 0

    def _run(self, guess: Guess) -> Outcome:
        # Imported late, because it imports torch.
        from assay.sources.inference.mixing import Mixing, Reading

        torch = need("torch")
        if self._copy is None:
            return Outcome(None)
        args, kwargs = make(with_floats(guess, self._floats).specs, "meta")
        runs: bool | None = True
        mixing, calls = Mixing(), _Calls()
        self._rows.clear()
        try:
            with _quiet(), _same_random_state(torch), torch.no_grad(), calls, Reading(), mixing:
                self._copy(*args, **kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure means the guess is wrong
            runs = None if isinstance(error, NotImplementedError) or _lacks_values(error) else False
        last = () if runs else calls.rows
        return Outcome(runs, frozenset(calls.ids), (*self._rows, *mixing.rows), last, mixing.flops)


def choose(trial: Trial, guesses: Iterable[Guess]) -> Guess | None:
    """The first guess that runs, else the first whose failure is unrelated to shapes, else the first guess.

    None if there are no guesses. A single guess is returned without a trial.
    """
    remaining = iter(guesses)
    start = list(islice(remaining, 2))
    if len(start) < 2:
        return start[0] if start else None
    undecided: Guess | None = None
    for guess in islice(chain(start, remaining), LIMIT):
        verdict = trial.run(guess).runs
        if verdict:
            return guess
        if verdict is None:
            undecided = undecided or guess
    return undecided or start[0]


class _Calls:
    """The modules called inside the block: their ids, and the rows of the last tensor that one returned."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.rows: tuple[int, ...] = ()

    def __enter__(self) -> _Calls:
        hooks = need("torch").nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(lambda module, args: self.ids.add(id(module))),
            hooks.register_module_forward_hook(self._returned),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _returned(self, module: Any, args: Any, output: Any) -> None:
        if is_tensor(output) and output.dim() > 1 and output.shape[-1]:
            self.rows = (output.numel() // output.shape[-1],)


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


def _lacks_values(error: BaseException) -> bool:
    """Whether the error is about missing values of meta tensors, not about shapes."""
    # The last line is the reason; in scripted code, the lines before it are a traceback.
    text = (str(error).strip().splitlines() or [""])[-1]
    return "dtype" in text or ("meta" in text and "shape" not in text)


@contextlib.contextmanager
def _same_random_state(torch: Any) -> Iterator[None]:
    """Restore the random states of torch, Python and numpy after the block."""
    numpy = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[]):
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
