"""The document: everything known about one model, as plain data."""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.activations import Activations
from assay.document.assessments import Assessment
from assay.document.cost import Cost
from assay.document.findings import Finding
from assay.document.host_reads import HostRead
from assay.document.machine import MachineReport
from assay.document.profile import Profile
from assay.document.rows import Call, Module, Op, OpKind, Storage, Tensor, TensorType
from assay.document.timing import Timing
from assay.document.trace import Trace
from assay.document.trials import TrialResult
from assay.document.weights import WeightsReport
from assay.document.weights_fit import WeightsFit

SCHEMA_VERSION = 1
"""Increased if older readers would misinterpret a new file; new optional keys do not change it."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where the model came from."""

    kind: str
    """`live`, `file`, `package`, `config`, `document`, `exported`, `scripted`, `pickled` or `trace`."""
    location: str
    """The path or name the user gave: `my_model.py:load_model`."""
    name: str
    """Only the name of the function, class or file."""


class Machine(Struct, frozen=True, omit_defaults=True):
    """The host on which the document was made; a field is empty if it does not apply."""

    python: str = ""
    """The Python version."""
    torch: str = ""
    """The torch version."""
    system: str = ""
    """The operating system."""
    device: str = ""
    """The device on which the model ran: `cpu`, `cuda`; `none` if it ran without data."""
    processor: str = ""
    """The model name of that device; of the CPU if the model ran without data."""
    processors: int | None = None
    """Logical CPUs that the process may use; null if unknown."""
    matmul_precision: str = ""
    """torch's precision of float32 products: `highest`, `high` (TF32) or `medium`; empty if unknown."""
    cudnn_tf32: bool | None = None
    """Whether cuDNN may compute float32 convolutions in TF32; null if unknown."""


class InputTensor(Struct, frozen=True, omit_defaults=True):
    """One tensor that was passed to the model."""

    name: str
    """The argument's name."""
    type: TensorType
    """Its shape and dtype."""


class Failure(Struct, frozen=True, omit_defaults=True):
    """Where and why a pass stopped."""

    error: str
    """The error message."""
    module: str
    """The path of the innermost running module; `(root)` for the root."""
    module_class: str
    """The class name of that module."""
    op: str | None = None
    """The op that raised the error; null if it was not raised by an op."""
    unread: bool = False
    """Whether no pass began, because the model's code could not be read."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """A failed pass in another mode."""

    mode: str
    """The mode of the pass, as in `Run.mode`."""
    failure: Failure
    """Where and why it stopped."""


class KeyValueCache(Struct, frozen=True, omit_defaults=True):
    """The KV cache that a decoder's forward pass returned."""

    bytes: int
    """Bytes of all its tensors."""
    batch: int
    """Number of sequences."""
    length: int
    """Cached positions per sequence."""
    tensors: int
    """Number of key and value tensors."""
    heads: int | None = None
    """The fewest heads of any of them; null if their layout is not (batch, heads, length, size)."""


class Training(Displayed, Struct, frozen=True, omit_defaults=True):
    """One training step: the forward pass with autograd, then the backward pass, in ATen ops after decomposition."""

    kinds: list[OpKind]
    """The kinds of op in the step; `Op.kind` is an index into this list."""
    ops: list[Op]
    """All ops of both phases in execution order; `Op.call` is an index into `Document.calls`."""
    storages: list[Storage]
    """The memory that the step used; `Op.reads` and `Op.writes` are indices into this list."""


GIVEN, FUNCTION, LITERAL, INFERRED, EXAMPLE = "given", "function", "literal", "inferred", "example"
"""Where the inputs of a pass came from; `example` means the inputs a program was exported with."""


class Run(Struct, frozen=True, omit_defaults=True):
    """How the model was run: its inputs, the mode and the assumptions made."""

    mode: str
    """`real`, `meta`, `fake` or `made-up` (real arithmetic on placeholder weights); `none` if nothing ran."""
    inputs: tuple[InputTensor, ...] = ()
    """The tensors passed to the model."""
    inputs_from: str = ""
    """The source of the inputs: `given`, a file and function, a literal, or how they were inferred."""
    inputs_kind: str = ""
    """`given`, `function`, `literal`, `inferred` or `example`; empty if nothing ran or it is unknown."""
    training: bool = False
    """Whether the model ran in training mode; with `as_is`, whether the root did."""
    as_is: bool = False
    """Whether every module ran in its own mode (`Module.training`) instead of all in the same."""
    dtype: str = ""
    """The dtype the model was converted to; empty if it kept its own."""
    backward: bool = False
    """Whether a backward pass was recorded completely."""
    assumptions: tuple[str, ...] = ()
    """Assumptions that were needed to run the model, one sentence each."""
    failure: Failure | None = None
    """Where and why the forward pass stopped; null if it completed."""
    attempts: tuple[Attempt, ...] = ()
    """Failed passes in other modes, in order."""
    backward_failure: Failure | None = None
    """Where and why the training step stopped; null if it completed or was not requested."""
    cache: KeyValueCache | None = None
    """The KV cache that the pass returned; null if it returned none."""
    timestamp: str = ""
    """The local time of the run in ISO 8601; empty if unknown."""

    @property
    def empty_inputs(self) -> tuple[InputTensor, ...]:
        """The inputs without elements, for which most ops compute nothing."""
        return tuple(each for each in self.inputs if 0 in each.type.shape)


class Document(Displayed, Struct, frozen=True, omit_defaults=True):
    """Everything known about one model.

    Attributes:
        assay: The schema version; always present.
        origin: Where the model came from.
        machine: The host on which the document was made.
        run: How the model was run.
        modules: All modules, the root first, parents before their children.
        tensors: All parameters and buffers.
        calls: Module calls of the forward pass, in order.
        kinds: The distinct kinds of op.
        ops: Ops of the forward pass, in execution order.
        storages: The memory that the forward pass used.
        host_reads: Where Python read values of tensors during the forward pass, in execution order.
        training: A training step; null if none was recorded.
        cost: The cost of the passes; null if it was not computed.
        weights: Statistics of the tensors' values; null if the weights were not read.
        weights_fit: How the stored tensors fit the model; null if they were not compared.
        timing: The time each module took; null if nothing was timed.
        profile: Measurements from a profiling run; null if the model was not profiled.
        activations: Statistics of outputs and gradients; null if no pass with data computed them.
        traces: Profiler traces, one per pass or rank.
        findings: The findings about the model: most severe first, then by what they gain.
        assessment: What each tensor and each op allows, with a recommendation; null if it was not analysed.
        trials: Changes that were tried on copies of the model.
        limits: The measured limits of the device on which the model ran; null if they are unknown.
    """

    assay: int = field(name="assay_schema", default=SCHEMA_VERSION)
    origin: Origin = Origin("live", "", "")
    machine: Machine = Machine()
    run: Run = Run("none")
    modules: list[Module] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    kinds: list[OpKind] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    host_reads: list[HostRead] = field(default_factory=list)
    training: Training | None = None
    cost: Cost | None = None
    weights: WeightsReport | None = None
    weights_fit: WeightsFit | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    activations: Activations | None = None
    traces: list[Trace] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    assessment: Assessment | None = None
    trials: list[TrialResult] = field(default_factory=list)
    limits: MachineReport | None = None

    @property
    def model_class(self) -> str:
        """The root module's class name; empty if there are no modules."""
        return self.modules[0].class_name if self.modules else ""

    def module_of(self, op: Op) -> int:
        """The index of the module in which the op ran; 0 (the root) if it ran outside any call."""
        return self.calls[op.call].module if op.call >= 0 else 0

    @property
    def complete(self) -> bool:
        """Whether the forward pass completed."""
        return self.run.failure is None

    @property
    def partial(self) -> bool:
        """Whether the forward pass stopped midway, so that totals cover only the ops before."""
        return not self.complete

    @property
    def failure(self) -> Failure | None:
        """Where and why the first requested pass stopped, forward or training step; None if all completed."""
        return self.run.failure or self.run.backward_failure

    @property
    def stopped(self) -> bool:
        """Whether a requested pass stopped midway, forward or training step."""
        return self.failure is not None

    @property
    def stopped_pass(self) -> str:
        """The name of the pass that stopped, if one did."""
        return "forward pass" if self.partial else "training step"

    @property
    def recorded(self) -> bool:
        """Whether a pass was recorded; without one, zero ops mean that the ops are unknown."""
        return bool(self.ops) or self.run.mode != "none"

    @property
    def knows_tensors(self) -> bool:
        """Whether parameters and buffers are known; a checkpoint alone may not distinguish them."""
        return bool(self.tensors) or self.recorded
