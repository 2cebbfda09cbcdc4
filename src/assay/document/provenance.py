"""How a figure was obtained. Provenance is a type: a figure cannot exist without it."""

from __future__ import annotations

from msgspec import Struct


class Measured(Struct, frozen=True, tag="measured", omit_defaults=True):
    """Read from a clock or sensor."""

    by: str
    """Which sensor or clock."""
    repeats: int = 1
    spread: float | None = None
    """Half the interquartile range, in the figure's own unit."""


class Counted(Struct, frozen=True, tag="counted", omit_defaults=True):
    """An exact count or formula."""

    by: str


class Modelled(Struct, frozen=True, tag="modelled", omit_defaults=True):
    """Computed from a model of the world that may be off."""

    by: str
    assumptions: tuple[str, ...] = ()
    error: float | None = None
    """Relative error that validation showed, where it is known."""


class Unknown(Struct, frozen=True, tag="unknown", omit_defaults=True):
    """Nobody knows; shown as a dash, never as zero."""

    why: str


Provenance = Measured | Counted | Modelled | Unknown


class Figure(Struct, frozen=True, omit_defaults=True):
    """A number and how it was obtained: `Figure(12, Counted("formula"))`."""

    value: float | int | None
    how: Provenance

    def __post_init__(self) -> None:
        if (self.value is None) != isinstance(self.how, Unknown):
            raise ValueError(f"a figure is unknown exactly when it has no value, got {self.value!r} {self.how!r}")


class Coverage(Struct, frozen=True, omit_defaults=True):
    """How much of what was asked for a total really holds."""

    known: int
    total: int
    unknown: tuple[str, ...] = ()
    """What is missing, by name."""

    @property
    def share(self) -> float | None:
        """The known part, or None where there was nothing to know."""
        return self.known / self.total if self.total else None
