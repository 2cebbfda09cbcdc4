"""Control flow: one small model per construct."""

import torch
from torch import Tensor, nn

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _row(*shape: int) -> Inputs:
    return (torch.randn(*(shape or (4, 8))),)


class Branches(nn.Module):
    def __init__(self, gate: bool, bias: bool) -> None:
        super().__init__()
        self.gate = gate
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 8) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x) if self.gate else x * 2
        if self.fc2 is not None:
            x = self.fc2(x)
        return x


@shelf("control flow", "scripted", "traced")
def if_on_attribute() -> tuple[nn.Module, Inputs]:
    return Branches(True, False), _row()


class ShapeBranches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.few, self.many = nn.Linear(8, 4), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            x = x.unsqueeze(0)
        elif x.dim() == 1:
            x = x[None, None]
        if x.shape[1] > 3 and x.size(-1) == 8:
            return self.many(x)
        return self.few(x)


@shelf("control flow", "scripted", "traced")
def if_on_shape() -> tuple[nn.Module, Inputs]:
    return ShapeBranches(), _row()


class ValueBranches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 64)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        if bool(y[0, 0] > 0):
            y = torch.relu(y)
            y = y + 1
        else:
            y = torch.tanh(y)
            y = y - 1
        return y


@shelf("control flow", "scripted", "traced")
def if_on_value() -> tuple[nn.Module, Inputs]:
    return ValueBranches(), _row()


class KnownValueBranches(nn.Module):
    """The decision depends on a stored number, not on what was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("repeats", torch.tensor(3))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(int(self.repeats.item())):
            x = self.fc(x)
        if self.repeats > 2:
            x = x + 1
        return x


@shelf("control flow", "scripted", "traced")
def loop_of_known_length() -> tuple[nn.Module, Inputs]:
    return KnownValueBranches(), _row()


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})

    def forward(self, x: Tensor) -> list[Tensor]:
        for index, layer in enumerate(self.layers):
            x = layer(x) + index
        for layer in self.layers[1:]:
            x = layer(x)
        x = self.layers[-1](x)
        outputs: list[Tensor] = []
        for name, head in self.heads.items():
            if name == "a":
                outputs.append(head(x))
        for head in self.heads.values():
            outputs.append(head(x))
        outputs.append(self.heads["b"](x))
        return outputs


@shelf("control flow", "scripted", "traced")
def module_containers() -> tuple[nn.Module, Inputs]:
    return Containers(), _row()


class Loops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, limit: int = 10) -> Tensor:
        count = 0
        while True:
            count += 1
            if count % 2 == 0:
                continue
            if count > limit // 2:
                break
            x = self.fc(x)
        for i in range(3):
            for j in range(i, 4, 2):
                if j == 3:
                    break
                x = x + i * j
        return x


@shelf("control flow", "scripted", "traced")
def nested_loops_with_break() -> tuple[nn.Module, Inputs]:
    return Loops(), _row()


class EarlyReturn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.depth = 2

    def forward(self, x: Tensor) -> Tensor:
        for index, stage in enumerate(self.stages):
            if index == self.depth:
                return x
            x = stage(x)
        return x * 0


@shelf("control flow", "scripted", "traced")
def early_return() -> tuple[nn.Module, Inputs]:
    return EarlyReturn(), _row()


class HalvingLoop(nn.Module):
    """The number of steps follows from the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        steps = 0
        while x.size(-1) > 1 and steps < 20:
            x = nn.functional.max_pool1d(self.conv(x), 2, ceil_mode=True)
            steps += 1
        return x / float(steps)


@shelf("control flow", "scripted", "traced")
def while_on_size() -> tuple[nn.Module, Inputs]:
    return HalvingLoop(), _row(2, 4, 50)


class DataLoop(nn.Module):
    """Adaptive computation: the number of steps depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.halt = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        steps = 0
        while steps < 4 and bool(torch.sigmoid(self.halt(x)).mean() < 0.999):
            x = torch.tanh(self.fc(x))
            steps += 1
        return x


@shelf("control flow", "scripted")
def while_on_value() -> tuple[nn.Module, Inputs]:
    return DataLoop(), _row()


def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    return x * factor


def scale_twice(x: Tensor, factor: float) -> Tensor:
    return scale(scale(x, factor))


@torch.jit.script
def clipped(x: Tensor, low: float, high: float) -> Tensor:
    if low > high:
        low, high = high, low
    return x.clamp(low, high)


class Helpers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.activation = torch.relu

    def inner(self, x: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = scale_twice(self.fc(x), 0.5)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return clipped(self.activation(self.inner(x, times=2)), 1.0, -1.0)


@shelf("control flow", "scripted", "traced")
def helper_functions() -> tuple[nn.Module, Inputs]:
    return Helpers(), _row()


class Checked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, mode: str = "train") -> Tensor:
        assert x.size(-1) == 8, f"expected 8 features, got {x.size(-1)}"
        if x.dim() > 4:
            raise ValueError(f"too many dimensions: {x.dim()} in {x.shape}")
        if mode not in ["train", "test"]:
            raise RuntimeError("unknown mode {}".format(mode))  # noqa: UP032
        return self.fc(x)


@shelf("control flow", "scripted", "traced")
def assertions_and_errors() -> tuple[nn.Module, Inputs]:
    return Checked(), _row()


class Forked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        futures: list[torch.jit.Future[Tensor]] = []
        futures.append(torch.jit.fork(self.left, x))
        futures.append(torch.jit.fork(scale, x, 3.0))
        right = self.right(x)
        for future in futures:
            right = right + torch.jit.wait(future)
        return right


@shelf("control flow", "scripted")
def fork_and_wait() -> tuple[nn.Module, Inputs]:
    return Forked(), _row()


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            offset = x.mean()
        if self.training:
            x = x + torch.randn_like(x)
        return self.dropout(self.fc(x - offset))


@shelf("control flow", "scripted", "traced")
def modes_and_no_grad() -> tuple[nn.Module, Inputs]:
    return Modes(), _row()
