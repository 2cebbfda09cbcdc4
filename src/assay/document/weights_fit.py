"""How the tensors of a checkpoint fit a model: which are missing, which are extra, and which differ in shape."""

from __future__ import annotations

from msgspec import Struct, field


class ShapeConflict(Struct, frozen=True):
    """A tensor that the files hold in another shape than the model."""

    name: str
    """Its name in the model."""
    shape: tuple[int, ...]
    """Its shape in the model."""
    stored: tuple[int, ...]
    """Its shape in the files."""


class WeightsFit(Struct, frozen=True, omit_defaults=True):
    """The comparison of a model's tensors with those of its files; every list is empty if they fit."""

    path: str
    """The file or directory with the tensors."""
    missing: tuple[str, ...] = ()
    """Tensors of the model that the files lack, also in part."""
    missing_parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names in the files that a missing tensor lacks, if it is made of several and the files hold the others."""
    unread: tuple[str, ...] = ()
    """Tensors of the model that could not be read, because files are missing or damaged."""
    conflicts: tuple[ShapeConflict, ...] = ()
    """Tensors with another shape in the files."""
    untied: tuple[tuple[str, ...], ...] = ()
    """Names of each tensor that the model ties, but whose values differ in the files; first the model's own."""
    extra: tuple[str, ...] = ()
    """Stored tensors that the model does not have."""
    stored_as: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names in the files of each tensor whose name there is another; several if it is made of several."""
    prefix: str = ""
    """What the stored names have in front that the model's do not, as `+module.`, or lack, as `-model.`, where no
    conversion of the model's library explains it."""
    quantization: str = ""
    """How the files are quantized, if the config names a method, so that they hold other tensors than the model."""

    @property
    def summary(self) -> str:
        """What does not fit, with counts: `2 tensors missing, 1 of another shape`; empty if everything fits."""
        counts = (
            (len(self.missing), "missing"),
            (len(self.conflicts), "of another shape"),
            (len(self.untied), "tied, but stored with different values"),
            (len(self.extra), "not in the model"),
        )
        parts = [f"{count:,} {what}" for count, what in counts if count]
        return ", ".join([*parts, *([f"names differ by {self.prefix[1:]}"] if self.prefix else [])])
