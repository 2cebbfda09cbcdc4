"""Arithmetic, strings, lists and dicts inside forward."""

import math

import torch
from torch import Tensor, nn

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _row() -> Inputs:
    return (torch.randn(4, 12),)


class Numbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 24)

    def forward(self, x: Tensor) -> Tensor:
        width = x.size(1)
        half, rest = width // 2, -7 % 3
        power = 2**3 - 2.0**-1
        whole = int(width / 5) + int(2.6) + math.floor(-2.5) + math.ceil(0.2) + abs(-3)
        bits = (width & 7) | 16 ^ 3
        bits = (bits << 2) >> 1
        largest = max(half, rest, 4) - min(half, rest)
        low, high = divmod(whole, 3)
        scale = power / math.sqrt(float(largest)) + math.log(2.0) * math.pi - float("1.5") + int(True)
        if not (half < width <= 12 and width != 5) or math.isnan(scale):
            scale = 0.0
        return self.fc(x * scale + bits).view(-1, half * 2 + low - low, 2 + high - high)


@shelf("language", "scripted", "traced")
def number_arithmetic() -> tuple[nn.Module, Inputs]:
    return Numbers(), _row()


class ListsOfTensors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> list[Tensor]:
        parts = [self.fc(part) for part in x.unbind(0)]
        parts[0], parts[-1] = parts[-1], parts[0]
        middle = parts[1:3]
        repeated = [middle[0]] * 2 + middle
        for index, (a, b) in enumerate(zip(repeated, reversed_list(repeated))):  # noqa: B905
            repeated[index] = a + b
        return repeated + parts


def reversed_list(values: list[Tensor]) -> list[Tensor]:
    result: list[Tensor] = []
    for index in range(len(values) - 1, -1, -1):
        result.append(values[index])
    return result


@shelf("language", "scripted", "traced")
def lists_of_tensors() -> tuple[nn.Module, Inputs]:
    return ListsOfTensors(), _row()


class NumberLists(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        sizes = [i * 2 for i in range(1, 4)]
        sizes += [5, 1]
        sizes.extend([7])
        sizes.insert(0, 9)
        sizes.sort()
        sizes.reverse()
        last = sizes.pop()
        sizes.remove(9)
        del sizes[0]
        copy = sizes.copy()
        copy.clear()
        doubled = [size + last for size in sizes[1:]]
        total = sum(doubled) + sizes.index(4) + sizes.count(4)
        if 4 in sizes and len(copy) == 0 and sizes[::2] != doubled:
            x = self.fc(x) * total
        a, *_ = sizes[0], sizes[1]
        return x[:, : min(sizes)] * a


@shelf("language", "scripted", "traced")
def lists_of_numbers() -> tuple[nn.Module, Inputs]:
    return NumberLists(), _row()


class Dicts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        sizes = {"a": 1, "b": 2}
        sizes.update({"c": 3})
        sizes["b"] = sizes["b"] * sizes.get("missing", 5)
        removed = sizes.pop("a")
        squares = {index: index * index for index in range(4)}
        outputs = {name: self.fc(x) * size for name, size in sizes.items()}
        for name in list(sizes.keys()):
            if name not in ["c"]:
                outputs[name] = outputs[name] + sum(list(squares.values())) + removed
        del squares[0]
        outputs["e"] = outputs.setdefault("d", x) + outputs.pop("c") + len(outputs)
        return outputs


@shelf("language", "scripted", "traced")
def dicts() -> tuple[nn.Module, Inputs]:
    return Dicts(), _row()


class Slices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x[..., ::2]
        b = x[1:-1, None, 3:9]
        c = x[-2:, -6:].flip(1)
        d = x.narrow(1, 2, 6).select(0, -1)
        wide = x.unfold(1, 6, 3)[:, 1]
        return self.fc(a[: c.size(0)] + c), self.fc(b).squeeze(1) + d + wide[0]


@shelf("language", "scripted", "traced")
def slices() -> tuple[nn.Module, Inputs]:
    return Slices(), _row()


class Conversions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.tensor([1, 2, 3])
        number = torch.tensor(x.size(0), dtype=torch.float32)
        grid = torch.arange(x.size(1), device=x.device).to(x.dtype) / x.size(1)
        same = torch.as_tensor([0.5, 1.5], dtype=x.dtype)
        y = self.fc(x).to(torch.float64) + grid + rows.sum().item() + int(rows[1])
        return y.type_as(x) * number + same.numel() + x.new_ones(12) + torch.full_like(x, 2.0)


@shelf("language", "scripted", "traced")
def conversions() -> tuple[nn.Module, Inputs]:
    return Conversions(), _row()
