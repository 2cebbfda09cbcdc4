"""Types of inputs, outputs, attributes and classes: one small model per kind."""

from enum import Enum
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _row() -> Tensor:
    return torch.randn(4, 8)


class OptionalInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(
        self, x: Tensor, bias: Tensor | None = None, scale: float | None = None
    ) -> tuple[Tensor, Tensor | None]:
        y = self.fc(x)
        if bias is not None:
            y = y + bias
        if scale is not None:
            return y * scale, bias
        return y, None


@shelf("types", "scripted")
def optional_absent() -> tuple[nn.Module, Inputs]:
    return OptionalInputs(), (_row(),)


@shelf("types", "scripted")
def optional_given() -> tuple[nn.Module, Inputs]:
    return OptionalInputs(), (_row(), torch.randn(8), 0.5)


@shelf("types", "scripted")
def inputs_by_keyword() -> tuple[nn.Module, Inputs]:
    return OptionalInputs(), {"x": _row(), "bias": torch.randn(8)}


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(
        self, parts: list[Tensor], named: dict[str, Tensor], pair: tuple[Tensor, list[int]]
    ) -> dict[str, list[Tensor]]:
        first, sizes = pair
        results: dict[str, list[Tensor]] = {"parts": [], "named": []}
        for part in parts:
            results["parts"].append(self.fc(part))
        for name, value in named.items():
            if name in results:
                results[name].append(self.fc(value))
        results["pair"] = [first.view(sizes)]
        return results


@shelf("types", "scripted")
def nested_inputs_and_outputs() -> tuple[nn.Module, Inputs]:
    return Nested(), ([_row(), _row()], {"named": _row()}, (torch.randn(6), [2, 3]))


class Point(NamedTuple):
    x: Tensor
    y: Tensor
    weight: float = 1.0


class Swapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, point: Point) -> Point:
        x, y, weight = point
        return Point(self.fc(y) * point.weight, self.fc(x), weight=weight + 1)


@shelf("types", "scripted")
def named_tuple_in_and_out() -> tuple[nn.Module, Inputs]:
    return Swapped(), (Point(_row(), _row(), 2.0),)


class Activation(Enum):
    RELU = 1
    TANH = 2


class WithEnum(nn.Module):
    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        if self.activation == Activation.RELU:
            return torch.relu(x)
        return torch.tanh(x) * self.activation.value


@shelf("types", "scripted")
def enum_attribute() -> tuple[nn.Module, Inputs]:
    return WithEnum(Activation.TANH), (_row(),)


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Interfaces(nn.Module):
    layer: Layer

    def __init__(self) -> None:
        super().__init__()
        self.layer = Doubling()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer.forward(x))


@shelf("types", "scripted")
def module_interface() -> tuple[nn.Module, Inputs]:
    return Interfaces(), (_row(),)


@torch.jit.script
class Accumulator:
    def __init__(self, start: Tensor) -> None:
        self.total = start
        self.count = 0

    def add(self, x: Tensor) -> None:
        self.total = self.total + x
        self.count += 1

    def mean(self) -> Tensor:
        return self.total / self.count

    def __len__(self) -> int:
        return self.count


class UsesClass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        accumulator = Accumulator(torch.zeros_like(x))
        for _ in range(3):
            accumulator.add(self.fc(x))
        return accumulator.mean() * len(accumulator)


@shelf("types", "scripted")
def script_class() -> tuple[nn.Module, Inputs]:
    return UsesClass(), (_row(),)


class Strings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.names = ["alpha", "beta", "gamma"]
        self.settings = {"mode": "fast", "kind": "a-b-c"}

    def forward(self, x: Tensor, prefix: str = "al") -> tuple[Tensor, str]:
        kept: list[str] = []
        for name in self.names:
            if name.startswith(prefix):
                kept.append(name.upper())
        label = "-".join(kept) + str(len(self.settings["kind"].split("-")))
        if self.settings["mode"].replace("f", "p") == "past" and label.find("ALPHA") >= 0:
            x = self.fc(x)
        return x, f"{label}:{x.size(0)}"


@shelf("types", "scripted")
def strings() -> tuple[nn.Module, Inputs]:
    return Strings(), (_row(),)


class Constants(nn.Module):
    __constants__ = ("names",)
    width: Final[int]
    rates: Final[list[float]]

    def __init__(self) -> None:
        super().__init__()
        self.width = 8
        self.rates = [0.5, 0.25]
        self.names = ("first", "second")
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x).view(-1, self.width)
        for rate in self.rates:
            x = x * rate
        return x + len(self.names)


@shelf("types", "scripted", "traced")
def final_constants() -> tuple[nn.Module, Inputs]:
    return Constants(), (_row(),)


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return self.fc(x)

    @torch.jit.export
    def decode(self, x: Tensor, limit: int) -> Tensor:
        return self.fc(x)[:limit]

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x).tanh()


@shelf("types", "scripted")
def exported_methods() -> tuple[nn.Module, Inputs]:
    return Exported(), (_row(),)


class Ignoring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @torch.jit.unused
    def debug(self, x: Tensor) -> Tensor:
        return x + sum(range(3))

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            pass
        elif x.dim() == 7:
            x = self.debug(x)
        return self.fc(x)


@shelf("types", "scripted")
def unused_methods() -> tuple[nn.Module, Inputs]:
    return Ignoring(), (_row(),)


class State(nn.Module):
    """Lists, dicts and buffers that forward changes."""

    counts: dict[str, int]
    history: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.counts = {"calls": 0}
        self.history = []
        self.calls = 0
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        self.counts["calls"] = self.counts["calls"] + 1
        self.history.append(y)
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * y.mean(0)
        self.steps += 1
        return y * float(self.counts["calls"]) + self.mean + len(self.history)


@shelf("types", "scripted")
def state_changed_in_forward() -> tuple[nn.Module, Inputs]:
    return State(), (_row(),)


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def _before(module: Inner, given: tuple[Tensor]) -> tuple[Tensor]:
    return (given[0] * 2,)


def _after(module: Inner, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result - given[0]


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.inner(x))


@shelf("types", "scripted", "traced")
def forward_hooks() -> tuple[nn.Module, Inputs]:
    model = Hooked()
    model.inner.register_forward_pre_hook(_before)
    model.inner.register_forward_hook(_after)
    return model, (_row(),)


class Recurring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.Sequential(self.shared, nn.ReLU()), nn.Sequential(self.shared, nn.Tanh())])

    def forward(self, x: Tensor) -> Tensor:
        x = self.shared(self.shared(x))
        for block in self.blocks:
            x = block(x)
        return x


@shelf("types", "scripted", "traced")
def shared_submodules() -> tuple[nn.Module, Inputs]:
    return Recurring(), (_row(),)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(torch.relu(self.encoder(x)))


@shelf("types", "scripted", "traced")
def tied_weights() -> tuple[nn.Module, Inputs]:
    return Autoencoder(), (_row(),)


@shelf("types", "scripted", "traced")
def names_that_are_no_identifiers() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential()
    for name in ("0", "conv-1", "2b"):
        model.add_module(name, nn.Linear(8, 8))
    return model, (_row(),)


class ManyOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, int, bool, list[int], str, float]:
        y = self.fc(x)
        return y, y.dim(), y.is_contiguous(), y.size(), "done", 0.5


@shelf("types", "scripted")
def outputs_that_are_no_tensors() -> tuple[nn.Module, Inputs]:
    return ManyOutputs(), (_row(),)


class AnyOf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor | list[Tensor]) -> Tensor:
        if isinstance(x, Tensor):
            return self.fc(x)
        return self.fc(torch.stack(x).sum(0))


@shelf("types", "scripted")
def union_of_types() -> tuple[nn.Module, Inputs]:
    return AnyOf(), ([_row(), _row()],)
