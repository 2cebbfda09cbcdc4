"""The result of opening a source: its model, document and checkpoint, each read on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Files
from assay.display import Displayed
from assay.document.document import Document, Origin
from assay.document.trace import Trace
from assay.errors import ReadError, UsageError
from assay.messages import ALLOW_CODE, one_line


class Model(NamedTuple):
    """A model in memory."""

    module: Any
    """The `nn.Module`; for an object that contains several models, a new module that contains them all."""
    config: Any = None
    """The transformers config, if there is one."""
    holder: object = None
    """The object that contains several models and cannot be run as one; None for a single model."""
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    """The positional and keyword arguments stored with it: the inputs a program was exported with."""
    inputs_from: str = ""
    """What these are, in a few words; if there are none, why they could not be read."""
    classes: Mapping[str, tuple[str, str]] = {}
    """Name and path of the original class, by module path, for modules whose own class is a stand-in."""
    processor: Mapping[str, Any] = {}
    """The settings of the processor that prepares the inputs, if they lie beside a transformers config."""
    interpreted: bool = False
    """Whether it is a file's code that is interpreted on shapes, and can never run with data."""
    interpreted_form: Callable[[], Any] | None = None
    """Returns a module of the same code that is interpreted, on which inputs are inferred."""

    @property
    def on_meta(self) -> bool:
        """Whether any parameter or buffer is on the meta device, without values."""
        return self.interpreted or any(
            tensor.is_meta for tensor in (*self.module.parameters(), *self.module.buffers())
        )


@dataclass(frozen=True, eq=False, repr=False)
class Opened(Displayed):
    """An opened model, checkpoint or document. Each part is read when it is first used, and only once.

    `assay.open` returns it, and it can be given to the other functions in place of the model.

    Attributes:
        origin: Where the model came from.
        build: Builds or loads the model; raises if there is none or if it must not be loaded.
        saved: Reads the document, if the file is a saved document or an exported program.
        stored: Reads the location of each tensor, if the tensors are in files; takes `lenient`.
        load: Builds the model with its stored weights, if `build` leaves them out.
        runs: Whether a file that could be read as a document is trusted and run instead.
        files: The files it reads, opened once.
        traced: Reads the profiler traces, if that is what the files are.
        interpreted: Whether the model is code of a file that is interpreted on shapes; running it needs trust.
        state: The tensors and arrays of a state dict in memory, by name; None for any other source.
    """

    origin: Origin
    build: Callable[[], Model]
    saved: Callable[[], Document] | None = None
    stored: Callable[..., Checkpoint] | None = None
    load: Callable[[], Model] | None = None
    runs: bool = False
    files: Files = field(default_factory=Files)
    traced: Callable[[], list[Trace]] | None = None
    interpreted: bool = False
    state: Mapping[str, Any] | None = None

    @cached_property
    def model(self) -> Model:
        """The model in memory; raises `ReadError` or `UsageError` if there is none."""
        return self.build()

    @property
    def module(self) -> Any:
        """The `nn.Module`; raises `ReadError` or `UsageError` if there is none."""
        return self.model.module

    @cached_property
    def document(self) -> Document | None:
        """The saved document; None for a model that is run instead."""
        return None if self.saved is None or self.runs else self.saved()

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The stored tensors; None for a model that exists only in memory."""
        return None if self.stored is None else self.stored()

    @cached_property
    def model_error(self) -> ReadError | None:
        """The reason why only the stored tensors can be examined; None if there is a model or a document.

        Raises `ReadError` if there are no readable tensors either.
        """
        if self.saved is not None and not self.runs:
            return None
        try:
            self.model  # noqa: B018
        except ReadError as error:
            if self.stored is None and self.state is None:
                raise
            self._need_tensors(error)
            return error
        return None

    def _need_tensors(self, error: ReadError) -> None:
        """Raise if the tensors cannot be read either, with the more informative of the two reasons."""
        try:
            self.checkpoint  # noqa: B018
        except ReadError as unreadable:
            raise (unreadable if self.origin.kind == "file" else error) from None

    @cached_property
    def with_weights(self) -> Opened:
        """The same model with its stored weights, loaded once; `self` if all its weights are in memory already."""
        return self if self.load is None else replace(self, build=self.load, load=None)


def raise_not_run(origin: Origin) -> Model:
    """Raise `UsageError`: a file that is read as data has no model to run."""
    raise UsageError(not_run_message(origin))


def raise_no_model(name: str) -> Model:
    """Raise `ReadError`: a state dict has no model to run."""
    raise ReadError(f"{with_article(name)} of tensors has no model: load it into its torch.nn.Module")


def with_article(name: str) -> str:
    """`a dict`, `an OrderedDict`."""
    return name if name == "None" else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def not_run_message(origin: Origin) -> str:
    """The message that a file is read as data and not run, with the way to run it."""
    remedy = f"to run it, {ALLOW_CODE}" if origin.kind == "exported" else "give the model itself to run it"
    return f"{one_line(origin.location)} is read, not run: {remedy}"


def own_config(module: Any) -> Any:
    """The transformers config of a module, or None."""
    own = vars(module).get("config")
    return own if hasattr(own, "model_type") and hasattr(own, "to_dict") else None
