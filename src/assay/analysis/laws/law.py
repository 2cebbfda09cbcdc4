"""A law: what a quantity is at any sizes, as a sum of polynomials, and for which sizes that is known to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct, field

from assay.analysis.laws.polynomials import Polynomial
from assay.errors import UsageError


class Part(Struct, frozen=True):
    """One polynomial, or the least or the most of several."""

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
    """The sizes of one variable for which a law was compared with captures."""

    least: int
    most: int
    multiple: int = 1
    """It holds for multiples of this; other sizes were seen to differ, or do not run."""
    ends_below: bool = False
    """Whether it was seen not to hold below `least`."""
    ends_above: bool = False
    """Whether it was seen not to hold above `most`."""

    def admits(self, size: int) -> bool:
        """Whether nothing is known against this size."""
        below, above = size < self.least and self.ends_below, size > self.most and self.ends_above
        return size > 0 and size % self.multiple == 0 and not below and not above

    def covers(self, size: int) -> bool:
        """Whether this size lies between two that were compared."""
        return self.admits(size) and self.least <= size <= self.most

    def text(self, name: str) -> str:
        """What must hold of the variable: `2 ≤ seq ≤ 2,048, a multiple of 16`; empty where anything goes."""
        low = f"{self.least:,} ≤ " if self.ends_below else ""
        high = f" ≤ {self.most:,}" if self.ends_above else ""
        bounds = [f"{low}{name}{high}"] if low or high else []
        multiple = [f"{'' if bounds else name + ' '}a multiple of {self.multiple:,}"] if self.multiple > 1 else []
        return ", ".join(bounds + multiple)


class Law(Struct, frozen=True):
    """What a quantity is at any sizes: `law(batch=8, seq=4096)`."""

    variables: tuple[str, ...]
    parts: tuple[Part, ...]
    """Their sum is the law."""
    spans: dict[str, VerifiedRange]

    def __call__(self, **sizes: int) -> int | None:
        """The exact value; None where the law is known not to hold."""
        values = ordered(self.variables, sizes)
        if not all(self.spans[name].admits(size) for name, size in sizes.items()):
            return None
        value = self.at(values)
        return value.numerator if value.denominator == 1 else None

    def at(self, sizes: Sequence[int]) -> Fraction:
        """The value at the sizes of the variables in order, wherever it may hold."""
        return sum((part.at(sizes) for part in self.parts), start=Fraction(0))

    def covers(self, **sizes: int) -> bool:
        """Whether the sizes lie within those that were compared with captures."""
        return all(self.spans[name].covers(size) for name, size in sizes.items())

    @property
    def condition(self) -> str:
        """For which sizes it holds; empty where nothing is known against any."""
        return "; ".join(text for name in self.variables if (text := self.spans[name].text(name)))

    def __str__(self) -> str:
        shown = [str(part) for part in self.parts if len(part.of) > 1 or part.of[0].terms]
        return " + ".join(shown) or "0"


class Laws(Struct, frozen=True):
    """The laws of one model's costs: `laws["macs"]` is a `Law`, or None where there is none."""

    model: str
    variables: tuple[str, ...]
    laws: dict[str, Law]
    """By the quantity's name."""
    refused: dict[str, str]
    """Why a quantity has no law."""
    base: dict[str, int]
    """The sizes that the inputs came with."""
    points: tuple[dict[str, int], ...]
    """The sizes that were captured."""
    follows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What grows with each variable: `("dim 1 of input_ids", …)`."""
    limits: dict[str, int] = field(default_factory=dict)
    """The largest sizes that the model says it takes."""
    mode: str = "meta"
    """How the captures were run."""
    inputs_from: str = ""
    inputs_kind: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Law | None:
        if name in self.refused:
            return None
        if name not in self.laws:
            raise UsageError(f"no quantity is called {name!r}: one of {', '.join(self)}")
        return self.laws[name]

    def __iter__(self) -> Iterator[str]:
        """The names of all quantities, those without a law too."""
        return iter((*self.laws, *self.refused))

    def at(self, **sizes: int) -> dict[str, int | None]:
        """Every quantity at these sizes; None where there is no law, or it does not hold there."""
        ordered(self.variables, sizes)
        return {name: law(**sizes) if (law := self[name]) is not None else None for name in self}


def ordered(variables: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes in the variables' order; refuses what is missing, unknown or no size."""
    if set(variables) != set(sizes):
        given = ", ".join(sizes) or "nothing"
        raise UsageError(f"sizes were given for {given}: exactly {', '.join(variables)} are wanted")
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UsageError(f"{name}={size!r} is no size: a whole number from 1 is wanted")
    return tuple(sizes[name] for name in variables)
