"""What opening a source yields: the parts that there are, each read when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Files
from assay.document.document import Document, Origin
from assay.errors import ReadError, UsageError
from assay.messages import brief


class Model(NamedTuple):
    """A model in memory."""

    module: Any
    """The `nn.Module`; for a holder of several models a module made here that holds them all."""
    config: Any = None
    """The transformers config, where there is one."""
    holder: object = None
    """The object that holds several models and cannot be run as one; None for a model."""
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    """The arguments and keywords it brings along: what a program was exported with."""
    classes: Mapping[str, tuple[str, str]] = {}
    """Name and path of each module's class, by the module's path, where the module itself does not know."""

    @property
    def on_meta(self) -> bool:
        """Whether parameters are on the meta device, without values."""
        return any(tensor.is_meta for tensor in (*self.module.parameters(), *self.module.buffers()))


@dataclass(frozen=True, eq=False)
class Opened:
    """What was given, recognised; each part is read when it is first used, and only once."""

    origin: Origin
    build: Callable[[], Model]
    """Makes or loads the model; raises where there is none, or it may not be loaded."""
    saved: Callable[[], Document] | None = None
    """Reads the document, where the file is one or describes its program as one."""
    stored: Callable[..., Checkpoint] | None = None
    """Reads where the tensors lie, where they are in files; takes `lenient`."""
    load: Callable[[], Model] | None = None
    """Builds the model with its stored weights, where `build` leaves them out."""
    runs: bool = False
    """Whether a file that could be read as a document is trusted, and run instead."""
    files: Files = field(default_factory=Files)

    @cached_property
    def model(self) -> Model:
        """The model in memory; raises why there is none."""
        return self.build()

    @property
    def module(self) -> Any:
        """The `nn.Module`; raises why there is none."""
        return self.model.module

    @cached_property
    def document(self) -> Document | None:
        """What was saved about a model; None for anything that is run instead."""
        return None if self.saved is None or self.runs else self.saved()

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The tensors in files; None for a model that exists in memory alone."""
        return None if self.stored is None else self.stored()

    @cached_property
    def model_error(self) -> ReadError | None:
        """Why only the stored tensors can be examined; None where there is a model or a document.

        Raises where there is nothing to examine at all.
        """
        if self.saved is not None and not self.runs:
            return None
        try:
            self.model  # noqa: B018
        except ReadError as error:
            if self.stored is None:
                raise
            self._need_tensors(error)
            return error
        return None

    def _need_tensors(self, error: ReadError) -> None:
        """Raise where the tensors cannot be read either: the reason that tells the user more."""
        try:
            self.checkpoint  # noqa: B018
        except ReadError as unreadable:
            raise (unreadable if self.origin.kind == "file" else error) from None

    @cached_property
    def with_weights(self) -> Opened:
        """The same model with its stored weights, loaded once; itself where it has none but those in memory."""
        return self if self.load is None else replace(self, build=self.load, load=None)


def not_run(origin: Origin) -> Model:
    """Raises why a file that is read as data has no model to run."""
    raise UsageError(why_not_run(origin))


def why_not_run(origin: Origin) -> str:
    """Why a file that is read as data is not run, and what would be."""
    remedy = "pass --trust (trust=True) to run it" if origin.kind == "exported" else "give the model itself"
    return f"{brief(origin.location)} is read, not run: {remedy}"


def own_config(module: Any) -> Any:
    """The transformers config that a module carries, if any."""
    own = vars(module).get("config")
    return own if hasattr(own, "model_type") and hasattr(own, "to_dict") else None
