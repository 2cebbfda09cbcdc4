"""The model that is measured: opened once, with its inputs and the way it is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.api.observe import check_place, observed
from assay.api.options import RunOptions
from assay.document.document import Document
from assay.sources.inputs import Inputs, find_inputs
from assay.sources.opened import Opened

if TYPE_CHECKING:
    from assay.recorder.watch import Setting


@dataclass(frozen=True)
class ProfiledModel:
    """A model, its inputs, and how it runs."""

    opened: Opened
    inputs: Inputs
    options: RunOptions

    @property
    def backward(self) -> bool:
        """Whether training steps are run as well."""
        return self.options.backward

    def setting(self, *, backward: bool = False) -> Setting:
        """How a pass is run; backward passes run in training mode."""
        from assay.recorder.substitute import dtype_named
        from assay.recorder.watch import Setting

        return Setting(
            "made-up" if self.opened.model.on_meta else "real",
            self.options.train or self.options.backward or backward,
            self.options.device,
            dtype_named(self.options.dtype),
            autograd=backward,
            backward=backward,
        )

    def with_inputs(self, inputs: Inputs) -> ProfiledModel:
        """The same model with other inputs."""
        return replace(self, inputs=inputs)

    def observe(self, *, mode: str, backward: bool = False) -> Document:
        """The document of one pass."""
        device = None if mode in ("meta", "fake") else self.options.device
        train = self.options.train or self.options.backward
        options = replace(self.options, mode=mode, device=device, train=train, backward=backward)
        return observed(self.opened, self.inputs, options)


def prepared(opened: Opened, inputs: Any, options: RunOptions, *, load: bool = True) -> ProfiledModel:
    """What was opened, ready to be run, with its stored weights if `load`; what cannot run is refused."""
    opened.model  # noqa: B018  what cannot be opened is reported before what is wrong with the options
    check_place(options)
    runnable = opened.with_weights if load else opened
    found = find_inputs(inputs, runnable, device=options.device, dtype=options.dtype)
    return ProfiledModel(runnable, found, options)
