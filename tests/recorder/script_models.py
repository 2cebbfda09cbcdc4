"""Models that can be scripted, most of them traced as well, each with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Case(NamedTuple):
    """A model, its inputs, and whether a trace takes the same path as the model itself."""

    build: Callable[[], nn.Module]
    args: tuple[Any, ...]
    traceable: bool = True


def _image(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 2 * channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(2 * channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1, groups=2)
        self.bn2 = nn.BatchNorm2d(2 * channels)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1, stride), nn.BatchNorm2d(2 * channels))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + self.shortcut(x))


def residual() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(2), Residual(8), Residual(16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4), nn.Identity())


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([Attention(16, 2) for _ in range(3)])
        self.head = nn.Linear(16, 50)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        steps, _ = self.lstm(x)
        return self.head(steps[:, -1])


class Branches(nn.Module):
    """A loop whose number of rounds and whose branch depend on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.even = nn.Linear(4, 4)
        self.odd = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.unused = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(x.size(0)):
            if i % 2 == 0:
                x = self.even(x)
            if i % 2 == 1:
                x = self.odd(x)
        while bool(x.sum() > 100):
            x = self.unused(x)
        return x


class Twice(nn.Module):
    """A module that is called three times, with other shapes the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        return self.layer(self.layer(x)[:1]) + self.layer(x)


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(4, 8)
        self.drop = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.lift(x))

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return self.lift(x).relu()


def _blend(x: Tensor, y: Tensor) -> Tensor:
    return torch.sigmoid(x) * y


class OtherMethods(nn.Module):
    """Calls of methods other than `forward`, of `forward` itself, and of a free function."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = Tower()

    def helper(self, x: Tensor) -> Tensor:
        return self.tower(x) + 1

    def forward(self, x: Tensor) -> Tensor:
        return _blend(self.tower.encode(x).sum(), self.helper(x)) + self.tower.forward(x)


class Inputs(nn.Module):
    """A dictionary, a tuple, an optional and a default as inputs, and a dictionary as result."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InnerInputs()

    def forward(self, batch: dict[str, Tensor], pair: tuple[Tensor, Tensor], mask: Tensor | None = None, n: int = 2):
        return self.inner(batch, [pair[0], pair[1]], mask, n)


class InnerInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, batch: dict[str, Tensor], pair: list[Tensor], mask: Tensor | None, n: int) -> dict[str, Tensor]:
        x = self.proj(batch["a"]) * n
        if mask is not None:
            x = x * mask
        return {"sum": x + pair[0], "difference": x - pair[1]}


class Forks(nn.Module):
    """Futures that are waited for later, from a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())])

    def forward(self, x: Tensor) -> Tensor:
        futures: list[torch.jit.Future[Tensor]] = []
        for layer in self.layers:
            futures.append(torch.jit.fork(layer, x))
        for future in futures:
            x = x + torch.jit.wait(future)
        return x


class State(nn.Module):
    """Writes to a buffer, and counts its calls in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total += x.sum(0)
        return self.layer(x) + self.total


class Decoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 4, 2, 2, groups=2)
        self.wide = nn.Conv2d(4, 4, 3, padding="same", bias=True)
        self.norm = nn.BatchNorm2d(4)
        self.depthwise = nn.Conv2d(4, 4, 9, padding=4, groups=4)
        self.line = nn.Conv1d(4, 4, 3)

    def forward(self, x):
        x = self.depthwise(self.norm(self.wide(self.up(x))))
        return self.line(x.flatten(2))


def _evaluated(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: build().eval()


CASES: dict[str, Case] = {
    name: case._replace(build=_evaluated(case.build))
    for name, case in {
        "residual": Case(residual, (_image(2, 3, 32, 32),)),
        "perceptron": Case(perceptron, (_image(3, 8),)),
        "decoder": Case(Decoder, (torch.arange(12).reshape(2, 6),)),
        "encoder": Case(encoder, (_image(2, 5, 16),)),
        "recurrent": Case(Recurrent, (_image(2, 5, 8),)),
        "branches": Case(Branches, (_image(3, 4),)),
        "twice": Case(Twice, (_image(3, 4),)),
        "other_methods": Case(OtherMethods, (_image(3, 4),)),
        "inputs": Case(
            Inputs, ({"a": _image(3, 4), "b": _image(2)}, (_image(3, 4), _image(1, 4)), _image(3, 1)), traceable=False
        ),
        "forks": Case(Forks, (_image(3, 4),)),
        "state": Case(State, (_image(3, 4),)),
        "decoding": Case(Decoding, (_image(1, 8, 4, 4),)),
        "no_submodules": Case(lambda: nn.Linear(4, 4), (_image(3, 4),)),
    }.items()
}


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Chooses(nn.Module):
    """Calls one of its layers by an index that is known only as it runs, and one by name."""

    __annotations__ = {"last": Layer}  # TorchScript does not read annotations that are strings

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Tower(), Tower()])
        self.last = Tower()

    def forward(self, x: Tensor, index: int = 1) -> Tensor:
        layer: Layer = self.layers[index]
        return self.last(layer.forward(x))


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Tanh()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.first(x))


class Mixed(nn.Module):
    """A model in Python that calls scripted modules in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.block = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.head = nn.Linear(4, 4)
        self.tower = torch.jit.script(Tower())

    def forward(self, x: Tensor) -> Tensor:
        x = self.block.forward(self.head(self.block(x)))
        return self.tower.drop(self.tower.encode(x))
