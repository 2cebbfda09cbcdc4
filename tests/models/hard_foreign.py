"""Hard parts: scripted, traced, compiled, quantized and custom parts of an ordinary model."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from versions import require

from models.registry import Inputs, case

X = torch.linspace(-1, 1, 16).reshape(2, 8)


class Between(nn.Module):
    """An inner module of any kind between two plain layers."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before = nn.Linear(8, 8)
        self.inner = inner
        self.after = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(self.before(x)))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x))


def _quietly(make: Any, *args: Any, **options: Any) -> Any:
    """The result of `make`, without torch's deprecation warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args, **options)


@case
def scripted() -> tuple[nn.Module, Inputs]:
    return Between(_quietly(torch.jit.script, Small())), (X,)


@case
def traced() -> tuple[nn.Module, Inputs]:
    return Between(_quietly(torch.jit.trace, Small(), (X,))), (X,)


@case
def compiled() -> tuple[nn.Module, Inputs]:
    return Between(torch.compile(Small(), backend="eager")), (X,)


@case
def quantized() -> tuple[nn.Module, Inputs]:
    inner = _quietly(torch.ao.quantization.quantize_dynamic, Small(), {nn.Linear}, dtype=torch.qint8)
    return Between(inner), (X,)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class UsesFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Square.apply(x)


@case
def custom_function() -> tuple[nn.Module, Inputs]:
    return Between(UsesFunction()), (X,)


@torch.library.custom_op("assay_tests::scaled_sine", mutates_args=(), schema="(Tensor x, float scale) -> Tensor")
def scaled_sine(x: Tensor, scale: float) -> Tensor:
    return torch.sin(x) * scale


@scaled_sine.register_fake
def _(x: Tensor, scale: float) -> Tensor:
    return torch.empty_like(x)


class UsesCustomOp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return scaled_sine(x, 2.0)


@case
def custom_op() -> tuple[nn.Module, Inputs]:
    return Between(UsesCustomOp()), (X,)


@torch.library.custom_op("assay_tests::no_fake", mutates_args=(), schema="(Tensor x) -> Tensor")
def no_fake(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().cpu().numpy() * 2)


class UsesOpaqueOp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return no_fake(x)


@case
def custom_op_without_fake() -> tuple[nn.Module, Inputs]:
    return Between(UsesOpaqueOp()), (X,)


class Flex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        from torch.nn.attention.flex_attention import flex_attention

        query, key, value = self.qkv(x).unflatten(-1, (3, 1, 16)).permute(2, 0, 3, 1, 4)
        return flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + (q - k))


@case
def flexible_attention() -> tuple[nn.Module, Inputs]:
    require("torch", "2.5", "flex_attention")
    return Flex().requires_grad_(False), (torch.linspace(-1, 1, 256).reshape(1, 16, 16),)


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.inner(x)
        return y.float() + x


@case
def autocast() -> tuple[nn.Module, Inputs]:
    return Autocast(), (X,)


class Forces(nn.Module):
    """Forces as the negative gradient of an energy, taken inside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_()
            energy = self.energy(positions).sum()
            (gradient,) = torch.autograd.grad(energy, positions)
        return energy.detach(), -gradient


@case
def forces_from_energy() -> tuple[nn.Module, Inputs]:
    return Forces(), (torch.linspace(-1, 1, 12).reshape(4, 3),)


class Jacobian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.jacrev(self.inner))(x)


@case
def functional_jacobian() -> tuple[nn.Module, Inputs]:
    return Jacobian(), (X,)


class Inference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            return self.inner(x).clone()


@case
def inference_mode_inside() -> tuple[nn.Module, Inputs]:
    return Inference(), (X,)
