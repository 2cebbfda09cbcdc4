"""A model ready to be measured: opened once, with its inputs and run options."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.api.observe import check_can_run, inputs_for, observe_opened
from assay.api.options import OnProgress, RunOptions, unreported
from assay.document.document import Document
from assay.errors import UsageError
from assay.sources.inputs import Inputs, check_affordable
from assay.sources.opened import Opened
from assay.sources.tensors import torch_dtype

if TYPE_CHECKING:
    from assay.recorder.watch import PassSettings
    from assay.timing.bench import Bench


@dataclass(frozen=True)
class ProfiledModel:
    """An opened model with its inputs and run options."""

    opened: Opened
    inputs: Inputs
    options: RunOptions
    writes_parameters: bool = False
    """Whether the forward pass overwrites parameters, which are then restored after the measurements."""

    @property
    def backward(self) -> bool:
        """Whether training steps are measured, too."""
        return self.options.backward

    def setting(self, *, backward: bool = False) -> PassSettings:
        """The recorder's settings for one pass; a backward pass runs in training mode."""
        from assay.recorder.watch import PassSettings

        return PassSettings(
            "made-up" if self.opened.model.on_meta else "real",
            True if backward else self.options.training,
            self.options.device,
            torch_dtype(self.options.dtype),
            autograd=backward,
            backward=backward,
        )

    def bench(self, *, backward: bool = False) -> AbstractContextManager[Bench]:
        """The model prepared for repeated passes, or training steps with `backward`; restored afterwards."""
        from assay.timing.bench import bench

        return bench(
            self.opened.module,
            self.inputs.args,
            self.inputs.kwargs,
            self.setting(backward=backward),
            keep_parameters=backward or self.writes_parameters,
        )

    def with_inputs(self, inputs: Inputs) -> ProfiledModel:
        """The same model with other inputs."""
        return replace(self, inputs=inputs)

    def observe(self, *, mode: str, backward: bool = False) -> Document:
        """The document of one pass in this mode."""
        device = None if mode in ("meta", "fake") else self.options.device
        train = self.options.training is True
        options = replace(self.options, mode=mode, device=device, train=train, backward=backward)
        return observe_opened(self.opened, self.inputs, options)


def prepare(
    opened: Opened, inputs: Any, options: RunOptions, *, load: bool = True, on_progress: OnProgress = unreported
) -> ProfiledModel:
    """The opened model with its inputs, ready to run; `load` loads its stored weights.

    Raises if the model cannot be run or the options are not valid.
    """
    check_can_run(opened, options)
    if load and str(options.device) == "meta":
        raise UsageError("cannot measure on device 'meta', which has no data: expected cpu, cuda, mps or xpu")
    runnable = opened.with_weights if load else opened
    resolved = inputs_for(runnable, inputs, device=options.device, dtype=options.dtype, on_progress=on_progress)
    check_affordable(resolved)
    return ProfiledModel(runnable, resolved, options)
