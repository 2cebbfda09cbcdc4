"""Modules that compute with plain values, whose results torch.jit itself shows."""

from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Dict, List, Tuple = dict, list, tuple  # names for annotations; TorchScript reads the lower-case ones too


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: float


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.seen: list[int] = []

    def add(self, by: int) -> int:
        self.count += by
        self.seen.append(by)
        return self.count


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: int) -> int:
        pass


class Double(nn.Module):
    def forward(self, x: int) -> int:
        return x * 2


class Numbers(nn.Module):
    def forward(self, a: int, b: float):
        q, r = a // 3, a % 3
        s = -a // 4
        return (
            q,
            r,
            s,
            a / 4,
            a**2,
            b**3,
            abs(-a),
            min(a, 3),
            max(b, 0.5),
            int(b),
            float(a),
            round(b),
            a & 6,
            a << 2,
        )


class Comparisons(nn.Module):
    def forward(self, a: int, b: float):
        return a == 3, a != 3, a < b, a <= b, a > b, a >= b, not a, a > 1 and b > 1, a > 9 or b > 1, 1 < a < 5


class Strings(nn.Module):
    def forward(self, word: str, n: int):
        parts = word.split(" ")
        joined = "-".join(parts)
        return (
            joined.upper(),
            word.replace("a", "b"),
            len(word),
            word[1],
            word[1:3],
            f"{word}/{n}/{n / 2}",
            word.startswith("a"),
            word.find("c"),
            "c" in word,
            word.strip(),
        )


class Lists(nn.Module):
    def forward(self, n: int):
        xs = [1, 2, 3]
        xs.append(n)
        xs.extend([7, 8])
        xs.insert(0, 9)
        last = xs.pop()
        ys = [x * x for x in xs]
        zs = sorted(xs)
        xs.reverse()
        xs.remove(3)
        return (
            xs,
            last,
            ys,
            zs,
            xs[1:-1],
            xs[-1],
            len(ys),
            sum(xs),
            max(xs),
            min(zs),
            2 in xs,
            xs.index(n),
            xs * 2,
            xs + ys,
        )


class Dictionaries(nn.Module):
    def forward(self, n: int):
        d: dict[str, list[int]] = {}
        for i in range(n):
            key = f"k{i % 3}"
            if key not in d:
                d[key] = torch.jit.annotate(list[int], [])
            d[key].append(i)
        counts = {key: len(value) for key, value in d.items()}
        counts["extra"] = 5
        del counts["k0"]
        return d, list(counts.keys()), list(counts.values()), counts.get("none", -1), "k1" in counts


class Flow(nn.Module):
    def forward(self, n: int):
        total = 0
        for i in range(0, n, 2):
            if i == 4:
                continue
            if i > 8:
                break
            for j in range(3):
                if j == 2:
                    break
                total += i * j
        k = 10
        while k > 0:
            k -= 3
            if k < 3:
                return total, k, "early"
        return total, k, "late"


class Optionals(nn.Module):
    def forward(self, x: int | None = None, y: str | None = "y"):
        if x is None:
            return 0, y is None
        return x + 1, y is not None


class Objects(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Counter(3)
        self.colour = Colour.BLUE

    def forward(self, n: int):
        own = Counter(n)
        own.add(2)
        pair = Pair(own.add(5), 1.5)
        left, right = pair
        return own.count, own.seen, pair.left, left, right, pair, self.colour == Colour.BLUE, self.colour.value


class Submodules(nn.Module):
    step: Step

    def __init__(self):
        super().__init__()
        self.step = Double()
        self.steps = nn.ModuleList([Double(), Double()])
        self.named = nn.ModuleDict({"a": Double(), "b": Double()})

    def twice(self, x: int) -> int:
        return self.step.forward(self.step.forward(x))

    def forward(self, x: int):
        for step in self.steps:
            x = step(x)
        names: list[str] = []
        for name, step in self.named.items():
            names.append(name)
            x = step(x)
        return self.twice(x), names, len(self.steps), "a" in self.named


class Forks(nn.Module):
    def helper(self, x: int) -> int:
        return x + 1

    def forward(self, x: Tensor):
        future = torch.jit.fork(self.shape, x)
        return torch.jit.wait(future)

    def shape(self, x: Tensor) -> list[int]:
        return x.shape


class Unpacking(nn.Module):
    def forward(self, items: list[tuple[int, str]]):
        numbers: list[int] = []
        words: list[str] = []
        for number, word in items:
            numbers.append(number)
            words.append(word)
        for index, word in enumerate(words):
            numbers[index] = numbers[index] + len(word)
        return numbers, words


class Sizes(nn.Module):
    def forward(self, x: Tensor):
        b, _, h, _ = x.shape
        y = x.view(b, -1)[..., : h * 2].reshape(b, 2, h)
        z = torch.cat([y, y.unsqueeze(1).squeeze(1)], dim=-1).transpose(0, 1)
        z[0, :, 1] = 3.0
        return y.shape, z.size(-1), z.stride(), z.dim(), x.numel(), z[:, None, ::2].shape, x.dtype == torch.float32


class Kinds(nn.Module):
    def forward(self, value: Any):
        if isinstance(value, int):
            return "int"
        if isinstance(value, str):
            return "str"
        return "other"


class Values(nn.Module):
    def forward(self, lengths: Tensor):
        numbers: list[int] = lengths.tolist()
        product: list[list[int]] = torch.cartesian_prod([lengths, lengths]).tolist()
        pairs: list[list[int]] = torch.combinations(lengths, 2).tolist()
        lower, upper = torch.tril_indices(3, 3), torch.triu_indices(3, 4, 1)
        return numbers, product, pairs, lower.shape, upper.shape, upper.dtype == torch.int64


CASES: list[tuple[nn.Module, tuple[Any, ...]]] = [
    (Numbers(), (17, 2.75)),
    (Numbers(), (-5, -0.5)),
    (Comparisons(), (3, 2.5)),
    (Strings(), ("a bcd ef", 3)),
    (Lists(), (4,)),
    (Dictionaries(), (8,)),
    (Flow(), (20,)),
    (Flow(), (3,)),
    (Optionals(), ()),
    (Optionals(), (4, None)),
    (Objects(), (2,)),
    (Submodules(), (3,)),
    (Forks(), (torch.zeros(2, 3),)),
    (Unpacking(), ([(1, "one"), (2, "three")],)),
    (Sizes(), (torch.zeros(2, 3, 4, 4),)),
    (Values(), (torch.tensor([4, 1, 3]),)),
    (Kinds(), (3,)),
    (Kinds(), ("x",)),
    (Kinds(), (2.5,)),
]
