"""A scaling formula: a quantity as a sum of polynomials of the sizes, and the sizes it was verified for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct, field

from assay.analysis.laws.polynomials import Polynomial
from assay.display import Displayed
from assay.errors import UsageError


class Part(Struct, frozen=True):
    """One polynomial, or the minimum or maximum of several."""

    of: tuple[Polynomial, ...]
    how: str = "only"
    """`only`, `min` or `max`."""

    def at(self, sizes: Sequence[int]) -> Fraction:
        """The value at these sizes."""
        values = [each.at(sizes) for each in self.of]
        return max(values) if self.how == "max" else min(values)

    def __str__(self) -> str:
        return str(self.of[0]) if len(self.of) == 1 else f"{self.how}({', '.join(map(str, self.of))})"


class VerifiedRange(Struct, frozen=True):
    """The sizes of one variable at which a scaling formula was compared with recorded passes."""

    least: int
    most: int
    multiple: int = 1
    """The formula holds for multiples of this; other sizes gave different values or did not run."""
    ends_below: bool = False
    """Whether the formula failed for a size below `least`."""
    ends_above: bool = False
    """Whether the formula failed, or could fail, for a size above `most`."""

    def admits(self, size: int) -> bool:
        """Whether the formula may be used for this size: it is not known to fail there."""
        below, above = size < self.least and self.ends_below, size > self.most and self.ends_above
        return size > 0 and size % self.multiple == 0 and not below and not above

    def covers(self, size: int) -> bool:
        """Whether this size is between two sizes that were compared."""
        return self.admits(size) and self.least <= size <= self.most

    def text(self, name: str) -> str:
        """The condition on the variable: `2 ≤ seq ≤ 2,048, a multiple of 16`; empty if there is none."""
        low = f"{self.least:,} ≤ " if self.ends_below else ""
        high = f" ≤ {self.most:,}" if self.ends_above else ""
        bounds = [f"{low}{name}{high}"] if low or high else []
        multiple = [f"{'' if bounds else name + ' '}a multiple of {self.multiple:,}"] if self.multiple > 1 else []
        return ", ".join(bounds + multiple)


class Law(Displayed, Struct, frozen=True):
    """The scaling formula of a quantity; `law(batch=8, seq=4096)` is its value at these sizes.

    Attributes:
        variables: Names of the sizes that vary: `("batch", "seq")`.
        parts: The formula is their sum.
        spans: Per variable, the sizes for which the formula was compared with recorded passes.
    """

    variables: tuple[str, ...]
    parts: tuple[Part, ...]
    spans: dict[str, VerifiedRange]

    def __call__(self, **sizes: int) -> int | None:
        """The exact value at these sizes, one per variable; None if the formula is known to fail there.

        Raises:
            UsageError: A size is missing, unknown or not a positive integer.
        """
        values = ordered(self.variables, sizes)
        if not all(self.spans[name].admits(size) for name, size in sizes.items()):
            return None
        value = self.at(values)
        return value.numerator if value.denominator == 1 else None

    def at(self, sizes: Sequence[int]) -> Fraction:
        """The value at these sizes, in the variables' order, without checking whether the formula holds there."""
        return sum((part.at(sizes) for part in self.parts), start=Fraction(0))

    def covers(self, **sizes: int) -> bool:
        """Whether all sizes are within the range that was compared with recorded passes."""
        return all(self.spans[name].covers(size) for name, size in sizes.items())

    @property
    def condition(self) -> str:
        """The sizes for which the formula holds, as text; empty if it is not known to fail at any."""
        return "; ".join(text for name in self.variables if (text := self.spans[name].text(name)))

    def __str__(self) -> str:
        shown = [str(part) for part in self.parts if len(part.of) > 1 or part.of[0].terms]
        return " + ".join(shown) or "0"


class Laws(Displayed, Struct, frozen=True):
    """The scaling formulas of a model's costs: `laws["macs"]` is a `Law`, or None if there is no formula.

    Attributes:
        model: Name of the model.
        variables: Names of the sizes that vary: `("batch", "seq")`.
        laws: Scaling formulas by quantity name.
        refused: Quantities without a formula, with the reason.
        base: The sizes of the original inputs.
        points: The sizes at which passes were recorded.
        follows: The input dimensions that follow each variable: `("dim 1 of input_ids", …)`.
        limits: The largest sizes that the model declares.
        mode: How the recorded passes were run: `meta`, `fake` or `real`.
        inputs_from: How the inputs were obtained: `given`, a file and function, a literal, or how they were inferred.
        inputs_kind: `given`, `function`, `literal`, `inferred` or `example`.
        notes: Remarks about the recorded passes, one sentence each.
    """

    model: str
    variables: tuple[str, ...]
    laws: dict[str, Law]
    refused: dict[str, str]
    base: dict[str, int]
    points: tuple[dict[str, int], ...]
    follows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    mode: str = "meta"
    inputs_from: str = ""
    inputs_kind: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Law | None:
        if name in self.refused:
            return None
        if name not in self.laws:
            raise UsageError(f"unknown quantity {name!r}: expected one of {', '.join(self)}")
        return self.laws[name]

    def __iter__(self) -> Iterator[str]:
        """The names of all quantities, including those without a formula."""
        return iter((*self.laws, *self.refused))

    def at(self, **sizes: int) -> dict[str, int | None]:
        """Every quantity at these sizes; None if it has no formula, or if the formula does not hold there.

        Args:
            sizes: One positive integer per variable, such as `batch=8, seq=4096`.

        Returns:
            The exact values by quantity name.

        Raises:
            UsageError: A size is missing, unknown or not a positive integer.
        """
        ordered(self.variables, sizes)
        return {name: law(**sizes) if (law := self[name]) is not None else None for name in self}


def ordered(variables: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes in the variables' order; raises `UsageError` if one is missing, unknown or not a positive integer."""
    unexpected = [name for name in sizes if name not in variables]
    if unexpected:
        raise UsageError(
            f"unexpected size {', '.join(unexpected)}: the formula depends on {', '.join(variables)} only"
        )
    missing = [name for name in variables if name not in sizes]
    if missing:
        raise UsageError(f"missing size {', '.join(missing)}: the formula depends on {', '.join(variables)}")
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UsageError(f"invalid size {name}={size!r}: expected a positive integer")
    return tuple(sizes[name] for name in variables)
