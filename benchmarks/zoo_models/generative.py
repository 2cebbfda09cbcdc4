"""Generative networks: adversarial, variational, diffusion, flows and radiance fields."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


@shelf("generative")
def gan_generator() -> tuple[nn.Module, Inputs]:
    first = (nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(True))
    second = (nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(True))
    return nn.Sequential(*first, *second, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()), (torch.randn(2, 16, 1, 1),)


@shelf("generative")
def gan_discriminator() -> tuple[nn.Module, Inputs]:
    first = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 8, 4, 2, 1))
    second = nn.utils.parametrizations.spectral_norm(nn.Conv2d(8, 16, 4, 2, 1))
    layers = (first, nn.LeakyReLU(0.2), second, nn.Flatten(), nn.Linear(256, 1))
    return nn.Sequential(*layers).eval(), (torch.randn(2, 3, 16, 16),)


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.mean, self.spread = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        latent = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.decoder(latent).view_as(x), mean, spread


@shelf("generative")
def vae() -> tuple[nn.Module, Inputs]:
    return Vae(), (torch.rand(2, 1, 8, 8),)


@shelf("generative")
def autoencoder() -> tuple[nn.Module, Inputs]:
    down = (nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1))
    up = (nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU(), nn.ConvTranspose2d(8, 3, 2, 2))
    return nn.Sequential(nn.Sequential(*down), nn.Sequential(*up)), (torch.randn(1, 3, 16, 16),)


class Quantizer(nn.Module):
    """Replaces each vector by its nearest code, as a vector-quantized autoencoder does."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.codes, self.decoder = nn.Linear(8, 4), nn.Embedding(16, 4), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        latent = self.encoder(x)
        chosen = torch.cdist(latent, self.codes.weight).argmin(-1)
        coded = latent + (self.codes(chosen) - latent).detach()
        return self.decoder(coded), chosen


@shelf("generative")
def vector_quantizer() -> tuple[nn.Module, Inputs]:
    return Quantizer(), (torch.randn(2, 6, 8),)


def sinusoid(steps: Tensor, width: int) -> Tensor:
    """Sine and cosine features of diffusion steps."""
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10_000) / (width // 2)))
    angles = steps[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


class ResBlock(nn.Module):
    def __init__(self, inside: int, outside: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1))
        self.time = nn.Linear(time, outside)
        self.second = nn.Sequential(nn.GroupNorm(4, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1))
        self.skip: nn.Module = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class CrossAttention(nn.Module):
    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.query, self.key, self.value = (nn.Linear(n, width) for n in (width, context, context))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        heads = [
            t.unflatten(-1, (2, -1)).transpose(1, 2)
            for t in (self.query(tokens), self.key(context), self.value(context))
        ]
        mixed = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return x + self.out(mixed).transpose(1, 2).view_as(x)


class DiffusionUNet(nn.Module):
    def __init__(self, width: int = 16, context: int = 12) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList([ResBlock(width, width, 4 * width), ResBlock(width, 2 * width, 4 * width)])
        self.shrink = nn.Conv2d(width, width, 3, 2, 1)
        self.attention = CrossAttention(2 * width, context)
        self.middle = ResBlock(2 * width, 2 * width, 4 * width)
        self.up = ResBlock(3 * width, width, 4 * width)
        self.head = nn.Conv2d(width, 4, 3, padding=1)
        self.width = width

    def forward(self, x: Tensor, step: Tensor, context: Tensor) -> Tensor:
        time = self.time(sinusoid(step, self.width))
        first = self.down[0](self.stem(x), time)
        second = self.attention(self.down[1](self.shrink(first), time), context)
        grown = functional.interpolate(self.middle(second, time), scale_factor=2.0, mode="nearest")
        return self.head(self.up(torch.cat([grown, first], 1), time))


@shelf("diffusion")
def diffusion_unet() -> tuple[nn.Module, Inputs]:
    return DiffusionUNet(), (torch.randn(1, 4, 16, 16), torch.tensor([7]), torch.randn(1, 5, 12))


class Sampler(nn.Module):
    """Calls one U-Net several times, as sampling does."""

    def __init__(self, steps: int = 3) -> None:
        super().__init__()
        self.unet, self.steps = DiffusionUNet(), steps

    def forward(self, context: Tensor) -> Tensor:
        x = torch.randn(context.shape[0], 4, 8, 8)
        for step in reversed(range(self.steps)):
            x = x - 0.1 * self.unet(x, torch.full((x.shape[0],), step), context)
        return x


@shelf("diffusion")
def diffusion_sampler() -> tuple[nn.Module, Inputs]:
    return Sampler(), (torch.randn(1, 5, 12),)


class ModulatedBlock(nn.Module):
    """A transformer block whose norms are scaled and shifted by the diffusion step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU("tanh"), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        a, b, c, d, e, f = self.modulation(condition).unsqueeze(1).chunk(6, -1)
        y = self.norms[0](x) * (1 + a) + b
        x = x + c * self.attention(y, y, y, need_weights=False)[0]
        return x + f * self.mlp(self.norms[1](x) * (1 + d) + e)


class DiffusionTransformer(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches, self.width = nn.Conv2d(4, width, 2, 2), width
        self.blocks = nn.ModuleList(ModulatedBlock(width) for _ in range(2))
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            tokens = block(tokens, sinusoid(step, self.width))
        return functional.fold(self.head(tokens).transpose(1, 2), x.shape[-2:], 2, stride=2)


@shelf("diffusion")
def diffusion_transformer() -> tuple[nn.Module, Inputs]:
    return DiffusionTransformer(), (torch.randn(1, 4, 8, 8), torch.tensor([3]))


class Coupling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        left, right = x.chunk(2, -1)
        scale, shift = self.net(left).chunk(2, -1)
        return torch.cat([right * scale.tanh().exp() + shift, left], -1), scale.tanh().sum(-1)


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling() for _ in range(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return x, total


@shelf("generative")
def normalizing_flow() -> tuple[nn.Module, Inputs]:
    return Flow(), (torch.randn(3, 8),)


class Field(nn.Module):
    """A radiance field: points along rays to colours, summed along each ray."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(39, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.density, self.colour = nn.Linear(32, 1), nn.Sequential(nn.Linear(35, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, origins: Tensor, directions: Tensor) -> Tensor:
        depths = torch.linspace(0, 1, 8)
        points = origins[:, None] + directions[:, None] * depths[:, None]
        scaled = [points * 2.0**k for k in range(6)]
        hidden = self.body(torch.cat([points, *(s.sin() for s in scaled), *(s.cos() for s in scaled)], -1))
        opacity = 1 - torch.exp(-functional.softplus(self.density(hidden)))
        through = torch.cumprod(1 - opacity + 1e-6, 1)
        colour = self.colour(torch.cat([hidden, directions[:, None].expand_as(points)], -1)).sigmoid()
        return (through * opacity * colour).sum(1)


@shelf("generative")
def radiance_field() -> tuple[nn.Module, Inputs]:
    return Field(), (torch.zeros(5, 3), torch.randn(5, 3))


class HyperNetwork(nn.Module):
    """One network writes another's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = nn.Linear(4, 8 * 8 + 8)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        made = self.writer(task)
        return functional.linear(x, made[:64].view(8, 8), made[64:])


@shelf("generative")
def hypernetwork() -> tuple[nn.Module, Inputs]:
    return HyperNetwork(), (torch.randn(3, 8), torch.randn(4))


class StyleLayer(nn.Module):
    """A convolution whose weight is modulated per sample, run as one grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.style = nn.Parameter(torch.randn(8, 8, 3, 3)), nn.Linear(16, 8)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        b, c, h, w = x.shape
        weight = self.weight * (self.style(style).view(b, 1, c, 1, 1) + 1)
        weight = weight * weight.pow(2).sum((2, 3, 4), keepdim=True).rsqrt()
        out = functional.conv2d(x.view(1, b * c, h, w), weight.view(b * 8, c, 3, 3), padding=1, groups=b)
        return out.view(b, 8, h, w)


@shelf("generative")
def style_modulation() -> tuple[nn.Module, Inputs]:
    return StyleLayer(), (torch.randn(2, 8, 8, 8), torch.randn(2, 16))
