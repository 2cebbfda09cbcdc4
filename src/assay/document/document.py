"""The document: everything known about one model, as one plain value."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.cost import Cost
from assay.document.findings import Finding
from assay.document.profile import Profile
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor, TensorType
from assay.document.timing import Timing
from assay.document.weights import WeightsReport

SCHEMA_VERSION = 1
"""Raised when an older reader would misunderstand a newer file; new optional keys do not raise it."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where the model came from."""

    kind: str
    """`live`, `file`, `package`, `config`, `document`, `exported`, `scripted` or `pickled`."""
    location: str
    """What the user pointed at: `my_model.py:load_model`."""
    name: str
    """The function, class or file name alone."""


class Machine(Struct, frozen=True, omit_defaults=True):
    """What the figures were obtained on."""

    python: str = ""
    torch: str = ""
    system: str = ""
    device: str = ""


class InputTensor(Struct, frozen=True, omit_defaults=True):
    """One tensor the model was called with."""

    name: str
    type: TensorType


class Failure(Struct, frozen=True, omit_defaults=True):
    """Where and why a pass stopped."""

    error: str
    module: str
    """The path of the innermost module that was running; `(root)` for the root."""
    module_class: str
    op: str | None = None
    """The operation that raised, where one did."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """A pass that was tried before the one recorded, and where it stopped."""

    mode: str
    failure: Failure


class KeyValueCache(Struct, frozen=True, omit_defaults=True):
    """The key and value cache that a decoder's forward pass left behind."""

    bytes: int
    batch: int
    length: int
    """Positions it was filled with."""
    tensors: int


class Training(Struct, frozen=True, omit_defaults=True):
    """One training step as torch runs it: forward with autograd on, then backward; operations decomposed."""

    kinds: list[OpKind]
    ops: list[Op]
    """Both phases; calls are those of the document."""
    storages: list[Storage]


GIVEN, FUNCTION, LITERAL, INFERRED, EXAMPLE = "given", "function", "literal", "inferred", "example"
"""How the inputs of a pass were found; an example is what a program was exported with."""


class Run(Struct, frozen=True, omit_defaults=True):
    """How the model was watched: with what inputs, in which way, and what had to be assumed."""

    mode: str
    """`real`, `meta`, `fake` or `made-up` (real arithmetic on made-up weights); `none` where nothing ran."""
    inputs: tuple[InputTensor, ...] = ()
    inputs_from: str = ""
    """`given`, a file and function, a literal, or how they were inferred."""
    inputs_kind: str = ""
    """`given`, `function`, `literal`, `inferred` or `example`; empty where nothing ran or it is not known."""
    training: bool = False
    dtype: str = ""
    backward: bool = False
    assumptions: tuple[str, ...] = ()
    failure: Failure | None = None
    attempts: tuple[Attempt, ...] = ()
    """The passes in other modes that stopped before this one was made, in their order."""
    backward_failure: Failure | None = None
    """Where and why the backward pass stopped, where one was asked for and did."""
    cache: KeyValueCache | None = None
    timestamp: str = ""


class Document(Struct, frozen=True, omit_defaults=True):
    """Everything known about one model."""

    assay: int = field(name="assay_schema", default=SCHEMA_VERSION)
    """The schema version; always written."""
    origin: Origin = Origin("live", "", "")
    machine: Machine = Machine()
    run: Run = Run("none")
    modules: list[Module] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    kinds: list[OpKind] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    training: Training | None = None
    """The backward pass and what the forward pass kept for it, where that was watched."""
    cost: Cost | None = None
    """What the passes cost, where it has been added up."""
    weights: WeightsReport | None = None
    """The statistics of its tensors, where their bytes have been read."""
    timing: Timing | None = None
    """How long its modules took, where a clock was read."""
    profile: Profile | None = None
    """What clocks and sensors said while it ran, where it was profiled."""
    findings: list[Finding] = field(default_factory=list)
    """What a person should know or do about it."""

    @property
    def model_class(self) -> str:
        """The root module's class name."""
        return self.modules[0].class_name if self.modules else ""

    def module_of(self, op: Op) -> int:
        """The module an operation belongs to; the root's where it happened outside any call."""
        return self.calls[op.call].module if op.call >= 0 else 0

    @property
    def complete(self) -> bool:
        """Whether the forward pass reached its end."""
        return self.run.failure is None
