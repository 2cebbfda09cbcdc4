"""Details of one module as plain data: its source code, attributes, tensors and recorded calls.

Created in the process that holds the model, displayed by code that does not import torch. Unknown values are None.
"""

from __future__ import annotations

from msgspec import Struct


class SourceCode(Struct, frozen=True, omit_defaults=True):
    """The source text of a module's class and of its `forward`."""

    class_name: str
    """The name of the class."""
    file: str
    """The file that defines the class; empty if unknown."""
    line: int
    """The first line of the class in its file, counted from 1."""
    text: str
    """The source of the whole class; of `forward` if the class has no source."""
    forward_file: str = ""
    """The file that defines `forward`, which differs from `file` if it is inherited or patched; empty if unknown."""
    forward_line: int = 0
    """The first line of `forward` in its file, counted from 1; 0 if unknown."""
    forward_text: str = ""
    """The source of `forward`; empty if it has none."""


class TensorFacts(Struct, frozen=True, omit_defaults=True):
    """The properties of a tensor, without its values."""

    shape: tuple[int, ...]
    """The size of each dimension; empty for a scalar or an uninitialised lazy parameter."""
    dtype: str
    """The dtype's name: `float32`."""
    device: str = ""
    """The device it is on: `cuda:0`."""
    bytes: int | None = None
    """Bytes of its elements; null if unknown."""
    requires_grad: bool = False
    """Whether autograd computes its gradient."""
    has_grad: bool = False
    """Whether it has a gradient now."""


class Attribute(Struct, frozen=True, omit_defaults=True):
    """One attribute of a module, read without running user code."""

    name: str
    """The attribute's name."""
    kind: str
    """`parameter`, `buffer`, `module` or `value`; `tensor` for another stored tensor."""
    type: str
    """The class of the value: `Parameter`, `int`, `Linear`."""
    text: str = ""
    """The value on one line, shortened if it is long; empty for a tensor, `not run` for a property."""
    tensor: TensorFacts | None = None
    """The properties of the value if it is a tensor, else null."""


class TensorDetail(Struct, frozen=True, omit_defaults=True):
    """Statistics of a tensor's finite values; NaN and infinities are counted separately."""

    facts: TensorFacts
    """The tensor's shape, dtype and device."""
    min: float | None = None
    """The smallest value; null if there are no statistics."""
    max: float | None = None
    """The largest value; null if there are no statistics."""
    mean: float | None = None
    """The mean; null if there are no statistics."""
    std: float | None = None
    """The population standard deviation; null if there are no statistics."""
    nan: int | None = None
    """Number of NaN values; null if the values were not read."""
    inf: int | None = None
    """Number of infinite values; null if the values were not read."""
    zeros: int | None = None
    """Number of zeros; null if the values were not read."""
    counts: tuple[int, ...] = ()
    """Values per histogram bin."""
    edges: tuple[float, ...] = ()
    """Edges of the histogram bins, one more than `counts`."""
    values: tuple[float, ...] = ()
    """The first few values in order."""
    problem: str = ""
    """Why there are no statistics, for example `on the meta device: no values`; empty if there are."""


class ForwardTensor(Struct, frozen=True, omit_defaults=True):
    """One input or output tensor of a call."""

    name: str
    """Its position in the call: `args[0]`, `kwargs.mask`, `out`, `out[1].hidden`."""
    facts: TensorFacts
    """Its shape, dtype and device at the time of the call."""
    min: float | None = None
    """The smallest value; null if unknown."""
    max: float | None = None
    """The largest value; null if unknown."""
    mean: float | None = None
    """The mean; null if unknown or complex."""
    std: float | None = None
    """The sample standard deviation; null if unknown."""
    nan: bool | None = None
    """Whether it contains NaN; null if its values were not read."""
    inf: bool | None = None
    """Whether it contains an infinity; null if its values were not read."""


class ForwardCall(Struct, frozen=True, omit_defaults=True):
    """One recorded call of a module."""

    time_s: float | None = None
    """Seconds, including the calls inside it, without the time spent recording; null if unknown."""
    self_s: float | None = None
    """Seconds without the calls inside it; null if unknown."""
    inputs: tuple[ForwardTensor, ...] = ()
    """The tensors among its arguments."""
    outputs: tuple[ForwardTensor, ...] = ()
    """The tensors in its result."""
    nan: bool | None = None
    """Whether an output contains NaN; null if unknown."""
    inf: bool | None = None
    """Whether an output contains an infinity; null if unknown."""
    first_bad: str | None = None
    """The path of the module that produced the first NaN or infinity of the pass; null if all values were finite."""
    outermost: bool = True
    """False for a call inside another call of the same module, whose time must not be added again."""
