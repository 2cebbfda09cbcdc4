"""The model that is profiled: opened once, with its inputs and the way it is to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from assay.api.observe import observe
from assay.api.open import open
from assay.document.document import Document
from assay.errors import ReadError, UsageError
from assay.sources.exported import run as exported_running
from assay.sources.inputs import Inputs, find_inputs
from assay.sources.open import Opened

if TYPE_CHECKING:
    from assay.recorder.watch import Setting

EXPORTED = "exported"
"""The kind of an origin whose file is read; with trust it can be run too."""


@dataclass(frozen=True)
class Subject:
    """A model, its inputs, and how it runs."""

    opened: Opened
    inputs: Inputs
    mode: str
    """`real` or `made-up`."""
    device: str | None = None
    dtype: str | None = None
    train: bool = False
    classes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What the modules of an exported program were, by their paths."""

    def setting(self, *, backward: bool = False) -> Setting:
        """How a pass is run; backward passes run in training mode."""
        from assay.recorder.substitute import dtype_named
        from assay.recorder.watch import Setting

        return Setting(
            self.mode,
            self.train or backward,
            self.device,
            dtype_named(self.dtype),
            autograd=backward,
            backward=backward,
        )

    def with_inputs(self, inputs: Inputs) -> Subject:
        """The same model with other inputs."""
        return replace(self, inputs=inputs)

    def observe(self, *, mode: str, backward: bool = False) -> Document:
        """The document of one pass."""
        document = observe(
            self.opened,
            (self.inputs.args, self.inputs.kwargs),
            mode=mode,
            device=None if mode in ("meta", "fake") else self.device,
            dtype=self.dtype,
            train=self.train,
            backward=backward,
        )
        found = structs.replace(document, run=structs.replace(document.run, inputs_from=self.inputs.how))
        return exported_running.with_classes(found, self.classes)


def subject(
    model: Any,
    inputs: Any = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Subject:
    """What `model` points at, ready to be run; what cannot run is refused."""
    opened = model if isinstance(model, Opened) else open(model, model_args=model_args, trust=trust)
    own: Any = None
    classes: Mapping[str, tuple[str, str]] = {}
    if opened.origin.kind == EXPORTED and opened.document is not None and trust:
        opened, own, classes = exported_running.runnable(opened)
    if opened.document is not None:
        raise UsageError(unrun(opened))
    if opened.module is None:
        raise ReadError(f"{opened.origin.location} holds no model that could run")
    found = find_inputs(own if inputs is None else inputs, opened, device=device, dtype=dtype)
    if inputs is None and own is not None:
        found = replace(found, how=exported_running.HOW)
    mode = "made-up" if opened.weights == "meta" else "real"
    return Subject(opened, found, mode, device, dtype, train, classes)


def unrun(opened: Opened) -> str:
    """Why what is read is not run, and what would."""
    if opened.origin.kind == EXPORTED:
        return f"{opened.origin.location} is read, not run: pass --trust (trust=True) to run what is in it"
    return f"{opened.origin.location} is read, not run: give the model itself to measure it"
