"""Assessments as rows: what each tensor and each op allows (pruning, fewer bits), and one recommendation for it."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Provenance
from assay.document.weights import Rounding

SENSITIVITIES = ("low", "medium", "high")
"""Quantization sensitivities, least sensitive first."""

CHECK, REMOVE, CONVERT, STORE, QUANTIZE, PRUNE = "check", "remove", "convert", "store", "quantize", "prune"
KEEP, NONE = "keep", "none"
"""Actions without anything to do: `keep` if a change would cost too much, `none` if it was made already."""


class TensorAssessment(Struct, frozen=True, omit_defaults=True):
    """What the values of one tensor allow; a null or empty field is unknown."""

    name: str
    """The tensor's first name."""
    pruning_potential: float | None = None
    """The share of its weights that magnitude pruning can set to zero, or that are zero already, while it keeps 95 %
    of the sum of squares; the true share may be larger, because the pruning curve has steps."""
    structured_potential: float | None = None
    """The share of its weights in all-zero rows and columns, which can be removed; null unless it is a matrix."""
    compressibility: float | None = None
    """Bytes that an ideal order-0 entropy coder needs, divided by its bytes; 1 cannot be compressed."""
    fp8: Rounding | None = None
    """Its precision in `float8_e4m3fn`, scaled to its largest value."""
    int8: Rounding | None = None
    """Its precision in int8 with one scale per row; of a vector, with one scale."""
    int4: Rounding | None = None
    """Its precision in int4 with one scale per group of 128 or, if that was not computed, per tensor."""
    quantization_sensitivity: str = ""
    """`low` if int4 keeps 18 dB, `medium` if int8 with a scale per row does, else `high`; empty if unknown."""
    action: str = ""
    """What to do: `check`, `remove`, `convert`, `store`, `quantize`, `prune`, `keep` or `none`; empty if unknown."""
    recommendation: str = ""
    """The action in one line, or why there is nothing to do."""
    unknown: str = ""
    """Why the potential and the sensitivity are unknown; empty if they are known."""


class OpAssessment(Struct, frozen=True, omit_defaults=True):
    """What the weights of an op, or of all ops of a kind, allow; a null or empty field is unknown.

    Its weights are the parameters that it reads with at least two dimensions: biases are neither pruned nor rounded.
    """

    tensors: tuple[int, ...] = ()
    """The parameters that it reads, as indices into `Document.tensors`."""
    pruning_potential: float | None = None
    """The mean pruning potential of its weights, weighted by their elements; null without weights."""
    int8: Rounding | None = None
    """The lowest precision of any of its weights in int8."""
    int4: Rounding | None = None
    """The lowest precision of any of its weights in int4."""
    quantization_sensitivity: str = ""
    """The sensitivity of the most sensitive of its weights."""
    bound: str = ""
    """The side of the roofline: `memory` or `compute`; empty if the limits of the machine or its cost are unknown."""
    findings: tuple[str, ...] = ()
    """The codes of the findings that name its module or a tensor that it reads."""
    recommendation: str = ""
    """One line that starts with a verb, or why there is nothing to do."""
    unknown: str = ""
    """Why the potential and the sensitivity are unknown; empty if they are known."""


class Assessment(Struct, frozen=True, omit_defaults=True):
    """Pruning potential, quantization sensitivity and recommendations for tensors and ops."""

    tensors: list[TensorAssessment] = field(default_factory=list)
    """One row per row of `Document.weights.tensors`."""
    kinds: list[OpAssessment] = field(default_factory=list)
    """One row per row of `Document.kinds`, over all its ops."""
    ops: list[OpAssessment] = field(default_factory=list)
    """One row per row of `Document.ops`."""
    columns: dict[str, Provenance] = field(default_factory=dict)
    """How the numbers were obtained, by the name of the field."""
