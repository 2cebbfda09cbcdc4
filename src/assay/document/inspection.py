"""What looking into one module shows: its source code, attributes, tensors and recorded calls, as plain data.

Made where the model lives, shown where nothing of torch is known. None is a figure nobody knows.
"""

from __future__ import annotations

from msgspec import Struct


class SourceCode(Struct, frozen=True, omit_defaults=True):
    """The source text of a module's class and of its `forward`."""

    class_name: str
    file: str
    """Where the class is defined; empty where nobody knows."""
    line: int
    """The first line of the class in its file, counted from 1."""
    text: str
    """Of the whole class."""
    forward_file: str = ""
    """Where `forward` is defined: another file where it is inherited or patched."""
    forward_line: int = 0
    forward_text: str = ""
    """Of `forward` alone; empty where there is none."""


class TensorFacts(Struct, frozen=True, omit_defaults=True):
    """A tensor from outside, without a look at its values."""

    shape: tuple[int, ...]
    dtype: str
    device: str = ""
    bytes: int | None = None
    requires_grad: bool = False
    has_grad: bool = False


class Attribute(Struct, frozen=True, omit_defaults=True):
    """One attribute of a module; reading it never ran code of the user's."""

    name: str
    kind: str
    """`parameter`, `buffer`, `module` or `value`."""
    type: str
    """The class of its value: `Parameter`, `int`, `Linear`."""
    text: str = ""
    """The value on one line, cut where it is long; what went wrong where it could not be written."""
    tensor: TensorFacts | None = None
    """Where the value is a tensor."""


class TensorDetail(Struct, frozen=True, omit_defaults=True):
    """A tensor's values summed up, over finite ones; NaN and infinities are counted apart."""

    facts: TensorFacts
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    """Of the population."""
    nan: int | None = None
    inf: int | None = None
    zeros: int | None = None
    counts: tuple[int, ...] = ()
    """The histogram."""
    edges: tuple[float, ...] = ()
    """One more than `counts`."""
    values: tuple[float, ...] = ()
    """The first few values in their order."""
    problem: str = ""
    """Why there are no figures, where that is so: `on the meta device: there are no numbers`."""


class ForwardTensor(Struct, frozen=True, omit_defaults=True):
    """One tensor that went into or came out of a call."""

    name: str
    """Where it was found: `args[0]`, `kwargs.mask`, `out`, `out[1].hidden`."""
    facts: TensorFacts
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nan: bool | None = None
    """Whether it holds one; None where its values were not looked at."""
    inf: bool | None = None


class ForwardCall(Struct, frozen=True, omit_defaults=True):
    """One recorded call of a module."""

    time_s: float | None = None
    """With everything inside it, without the cost of taking statistics."""
    self_s: float | None = None
    """Without the calls inside it."""
    inputs: tuple[ForwardTensor, ...] = ()
    outputs: tuple[ForwardTensor, ...] = ()
    nan: bool | None = None
    """Whether an output holds a NaN."""
    inf: bool | None = None
    first_bad: str | None = None
    """The path of the module whose output first held a NaN or an infinity in that pass; None where none did."""
    outermost: bool = True
    """Whether it is no call inside a call of the same module, so that times may be added."""
