"""Values with their provenance: every value states whether it was measured, counted, modelled or is unknown."""

from __future__ import annotations

from msgspec import Struct


class Measured(Struct, frozen=True, tag="measured", omit_defaults=True):
    """Measured with a clock or sensor."""

    by: str
    """The clock or sensor."""
    repeats: int = 1
    """Number of measurements."""
    spread: float | None = None
    """Half the interquartile range, in the unit of the value; null after a single measurement or if unknown."""
    range: tuple[float, float] | None = None
    """The range of the value over consecutive parts of the run, widened by 5 %, in its unit; for speed-ups of trials
    the 99 % interval; null if unknown."""


class Counted(Struct, frozen=True, tag="counted", omit_defaults=True):
    """Counted exactly, or computed with an exact formula."""

    by: str
    """What was counted, or the formula."""


class Modelled(Struct, frozen=True, tag="modelled", omit_defaults=True):
    """Estimated with a model, which may be inaccurate."""

    by: str
    """The model."""
    assumptions: tuple[str, ...] = ()
    """What the model assumes."""
    error: float | None = None
    """The relative error found in validation; null if it was not validated."""
    interval: tuple[float, float] | None = None
    """Multiples of the value between which the true value lies in 90 % of cases; null if not validated so."""

    @property
    def factors(self) -> tuple[float, float] | None:
        """The interval or, without one, multiples as far either way as the error; None if neither is known."""
        if self.interval is not None or self.error is None:
            return self.interval
        return 1 / (1 + self.error), 1 + self.error


class Unknown(Struct, frozen=True, tag="unknown", omit_defaults=True):
    """Unknown; shown as a dash, never as zero."""

    why: str
    """Why the value is unknown."""


Provenance = Measured | Counted | Modelled | Unknown


class Figure(Struct, frozen=True, omit_defaults=True):
    """A value with its provenance: `Figure(12, Counted("formula"))`."""

    value: float | int | None
    """The number; null if it is unknown."""
    how: Provenance
    """How the value was obtained, or why it is unknown."""

    def __post_init__(self) -> None:
        if (self.value is None) != isinstance(self.how, Unknown):
            raise ValueError(f"None requires Unknown and any other value forbids it, got {self.value!r} {self.how!r}")


class Coverage(Struct, frozen=True, omit_defaults=True):
    """How many of the items of a total are known."""

    known: int
    """Number of known items."""
    total: int
    """Number of all items."""
    unknown: tuple[str, ...] = ()
    """Names of the unknown items."""

    @property
    def share(self) -> float | None:
        """The share of known items, from 0 to 1; None if there are no items."""
        return self.known / self.total if self.total else None
