"""The values that flow through a model, as rows: statistics of outputs in a forward pass, and of gradients."""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.provenance import Provenance

FROM_OP, FROM_WEIGHTS, FROM_INPUTS, FROM_CONSTANTS = "op", "weights", "inputs", "constants"
FROM_INFINITIES = "infinities"
"""Where the first NaN came from: an op made it of finite numbers or of infinities, or it read it from there."""


class OutputValues(Struct, frozen=True, omit_defaults=True):
    """The floating-point outputs of a module, or of one of the ops that it runs itself, over all executions.

    Statistics are null if they are unknown or not finite; `nan` and `inf` count the latter.
    """

    module: int
    """Index into `Document.modules`."""
    op: str = ""
    """The op's name without its overload: `aten.relu`; empty for the outputs of the module itself."""
    executions: int = 1
    """Number of executions."""
    count: int = 0
    """Number of values."""
    dtype: str = ""
    """The dtype's name: `float32`."""
    min: float | None = None
    """The smallest value."""
    max: float | None = None
    """The largest value."""
    mean: float | None = None
    """The mean."""
    rms: float | None = None
    """The root mean square."""
    nan: int = 0
    """Number of NaN values."""
    inf: int = 0
    """Number of infinite values."""
    zeros: float | None = None
    """The share of zeros; null unless it is the output of a ReLU or one like it."""
    at_ends: float | None = None
    """The share of values at the flat ends of a sigmoid, tanh or clamp, or of one-hot softmax rows; else null."""
    channels: int | None = None
    """Number of channels in which zeros were looked for; null unless it is the output of a ReLU or one like it."""
    dead_channels: int | None = None
    """Number of channels that were zero in all executions; null like `channels`."""


class NonfiniteSource(Struct, frozen=True, omit_defaults=True):
    """The first op of a pass whose output has NaN or infinite values."""

    module: int
    """Index of the module that ran it."""
    op: str
    """The op's name without its overload: `aten.log`."""
    source: str = FROM_OP
    """`op` if it made them itself, else what it read them from: `weights`, `inputs` or `constants`; `infinities` if
    it made NaN of those that `first_inf` made before."""
    tensors: tuple[int, ...] = ()
    """The parameters and buffers it read them from, as indices into `Document.tensors`."""
    positive: bool = True
    """Whether there are positive infinities; masks have only negative ones."""
    reached_output: bool = False
    """Whether an output of the model has NaN or infinite values."""


class GradientValues(Struct, frozen=True, omit_defaults=True):
    """The gradient of one parameter after one backward pass; statistics are null if unknown or not finite."""

    tensor: int
    """Index into `Document.tensors`."""
    received: bool = True
    """Whether the parameter received a gradient at all."""
    count: int = 0
    """Number of elements."""
    norm: float | None = None
    """The L2 norm of the gradient."""
    max_abs: float | None = None
    """The largest absolute value."""
    zeros: float | None = None
    """The share of zeros."""
    weight_norm: float | None = None
    """The L2 norm of the parameter itself."""
    nan: bool = False
    """Whether there are NaN values."""
    inf: bool = False
    """Whether there are infinite values."""


class ActivationMap(Struct, frozen=True, omit_defaults=True):
    """Grey images of channels of the output of a convolution, for the first sample of its first call."""

    module: int
    """Index into `Document.modules`."""
    shape: tuple[int, ...]
    """The shape of the whole output: batch, channels, height, width."""
    channels: tuple[int, ...]
    """The channels shown, those with the largest variance first; channels with NaN or infinities are left out."""
    width: int
    """Pixels per row of each image."""
    height: int
    """Rows of each image."""
    low: tuple[float, ...]
    """For each image, the value shown as 0 (black): the smallest mean over the area of a pixel."""
    high: tuple[float, ...]
    """For each image, the value shown as 255 (white): the largest mean over the area of a pixel."""
    pixels: bytes
    """One byte per pixel, image after image and row by row; Base64 in JSON."""


class Activations(Displayed, Struct, frozen=True, omit_defaults=True):
    """The values of one pass with data, and the gradients of one backward pass from random output gradients."""

    modules: list[OutputValues] = field(default_factory=list)
    """The outputs of modules, in the order in which their first calls returned; of several tensors, the first."""
    ops: list[OutputValues] = field(default_factory=list)
    """The outputs of ops, in the order of their first execution; views are left out."""
    gradients: list[GradientValues] = field(default_factory=list)
    """The gradients of trainable parameters; empty if no backward pass ran."""
    maps: list[ActivationMap] = field(default_factory=list)
    """Images of the outputs of convolutions, in the order of their first calls; empty if they were not recorded."""
    first_nan: NonfiniteSource | None = None
    """Where NaN first appeared; null if it did not."""
    first_inf: NonfiniteSource | None = None
    """Where an op first made an infinity of finite numbers; null if none did."""
    failure: str = ""
    """Why the pass stopped; empty if it completed."""
    backward_failure: str = ""
    """Why there are no gradients although they were requested; empty otherwise."""
    columns: dict[str, Provenance] = field(default_factory=dict)
    """How bare numbers were obtained, by list and name: `ops.zeros`."""
