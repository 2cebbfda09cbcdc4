"""Passes of a `Runnable` with a given seed: forward passes, or training steps with their gradients."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Collection, Iterator
from typing import Any

import numpy.random
import torch
from torch.utils._pytree import tree_map_only

from assay.recorder import backward
from assay.recorder.backward import differentiable
from assay.trials.leaves import Leaves, leaves_of, walk
from assay.trials.runnable import Runnable


def _on_cuda(output: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for _, leaf in walk(output))


_COMPILED = "_orig_mod."
"""What torch.compile adds to the names of parameters."""


class TrialPass:
    """Runs passes of a `Runnable`; `run` is what is timed, and `ready` is called before it."""

    def __init__(self, runnable: Runnable, *, training: bool) -> None:
        lasting = tuple(each for each in runnable.contexts if not getattr(each, "every_pass", False))
        self._runnable = dataclasses.replace(
            runnable, contexts=tuple(each for each in runnable.contexts if each not in lasting)
        )
        self._settings = lasting
        self._training = training
        self._original = copy.deepcopy((runnable.args, runnable.kwargs))
        self.consumed = False
        """Whether a pass changes its arguments, so that each pass needs new ones."""
        if training:
            backward.prepare([parameter for _, parameter in self._parameters()])

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Within it, passes run under the settings of the runnable: entering them is not part of a pass."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self._training))
            for context in self._settings:
                stack.enter_context(context())
            yield

    def run(self) -> Any:
        """The output of one forward pass, or of the forward pass of one training step; within `settings`."""
        output = self._runnable()
        if self._training:
            outputs = differentiable(output)
            torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        return output

    def whole(self) -> Any:
        """The output of `run` within `settings`."""
        with self.settings():
            return self.run()

    def ready(self) -> None:
        """Clear gradients, and renew arguments that a pass changes, such as a cache that grows."""
        if self.consumed:
            self._runnable.args, self._runnable.kwargs = copy.deepcopy(self._original)
        if self._training:
            for _, parameter in self._parameters():
                parameter.grad = None

    def output(self, seed: int) -> Any:
        """The output of a pass that begins with the random states of `seed`."""
        self.ready()
        before = self._versions()
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        output = self.whole()
        self.consumed = self.consumed or self._versions() != before
        # The next pass of a captured graph overwrites its outputs.
        return tree_map_only(torch.Tensor, torch.clone, output) if _on_cuda(output) else output

    def names(self) -> set[str]:
        """The names of the parameters."""
        return {name for name, _ in self._parameters()}

    def gradients(self, names: Collection[str]) -> Leaves:
        """The gradients of the parameters with these names after a training step."""
        return leaves_of({f"gradient of {name}": each.grad for name, each in self._parameters() if name in names})

    def coarsest(self, device: str) -> torch.dtype:
        """The least precise dtype that a pass computes in, as far as its weights, inputs and settings show."""
        tensors = [each for _, each in (*self._parameters(), *walk(self._original)) if isinstance(each, torch.Tensor)]
        dtypes = {torch.float32, *(each.dtype for each in tensors if each.is_floating_point())}
        with self.settings():
            if torch.is_autocast_enabled(device):
                dtypes.add(torch.get_autocast_dtype(device))
        if device == "cuda":
            dtypes.add(torch.float16)  # convolutions compute in TF32 by default, which has as many digits
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)

    def _parameters(self) -> list[tuple[str, Any]]:
        named = getattr(self._runnable.model, "named_parameters", None)
        return [(name.replace(_COMPILED, ""), each) for name, each in named()] if named is not None else []

    def _versions(self) -> list[Any]:
        """What changes if a pass writes to its arguments or extends them."""
        tensors = [
            (path, leaf)
            for path, leaf in walk((self._runnable.args, self._runnable.kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        return [(path, leaf.shape, 0 if leaf.is_inference() else leaf._version) for path, leaf in tensors]
