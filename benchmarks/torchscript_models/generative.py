"""Models that generate images."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU())
        self.mu, self.logvar = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 784), nn.Sigmoid())

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


@shelf("generative", *BOTH)
def vae() -> tuple[nn.Module, Inputs]:
    return Vae(), images(28, 1, 2)


@shelf("generative", *BOTH)
def dcgan_generator() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = [nn.ConvTranspose2d(20, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers += [nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()), (torch.randn(2, 20, 1, 1),)


@shelf("generative", *BOTH)
def dcgan_discriminator() -> tuple[nn.Module, Inputs]:
    norm = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 16, 4, 2, 1)).eval()
    nn.utils.parametrize.remove_parametrizations(norm, "weight")
    body = (norm, nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(16, 32, 4, 2, 1), nn.InstanceNorm2d(32, affine=True))
    return nn.Sequential(*body, nn.PReLU(), nn.Conv2d(32, 1, 4), nn.Sigmoid()), images(16)


def timestep_embedding(steps: Tensor, width: int) -> Tensor:
    half = width // 2
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32, device=steps.device) / half)
    angles = steps[:, None].float() * frequencies[None]
    embedding = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
    if width % 2 == 1:
        embedding = functional.pad(embedding, (0, 1))
    return embedding


class ResidualBlock(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inside), nn.GroupNorm(4, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(32, outside)
        self.shortcut = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(t))[:, :, None, None]
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(h)))


class SpatialAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.qkv, self.out = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).reshape(b, c, -1)).chunk(3, dim=1)
        weight = torch.softmax(torch.einsum("bct,bcs->bts", q * c**-0.25, k * c**-0.25), dim=-1)
        return x + self.out(torch.einsum("bts,bcs->bct", weight, v)).reshape(b, c, h, w)


class DiffusionUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time_mlp = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.ModuleList([ResidualBlock(16, 16), ResidualBlock(16, 32)])
        self.middle, self.attention = ResidualBlock(32, 32), SpatialAttention(32)
        self.up = nn.ModuleList([ResidualBlock(64, 16), ResidualBlock(32, 16)])
        self.head = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        t = self.time_mlp(timestep_embedding(steps, 16))
        x = self.stem(x)
        skips: list[Tensor] = []
        for block in self.down:
            x = block(x, t)
            skips.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.attention(self.middle(x, t))
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skips.pop()], dim=1), t)
        return self.head(x)


@shelf("generative", *BOTH)
def diffusion_unet() -> tuple[nn.Module, Inputs]:
    return DiffusionUNet(), (torch.randn(2, 3, 16, 16), torch.tensor([3, 500]))


class Sampler(nn.Module):
    """Denoises in a loop whose schedule is a list of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = DiffusionUNet()
        self.betas: list[float] = [0.1, 0.05, 0.01]

    def forward(self, noise: Tensor) -> Tensor:
        x = noise
        for step, beta in enumerate(self.betas):
            steps = torch.full((x.size(0),), step, dtype=torch.long)
            x = (x - beta * self.unet(x, steps)) / math.sqrt(1.0 - beta)
        return x


@shelf("generative", *BOTH)
def diffusion_sampler() -> tuple[nn.Module, Inputs]:
    return Sampler(), (torch.randn(1, 3, 16, 16),)


class VectorQuantizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv2d(3, 8, 4, 4), nn.ConvTranspose2d(8, 3, 4, 4)
        self.codebook = nn.Embedding(32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, 8)
        codes = torch.cdist(flat, self.codebook.weight).argmin(dim=1)
        quantized = self.codebook(codes).view(z.shape)
        loss = functional.mse_loss(quantized, z.detach()) + 0.25 * functional.mse_loss(quantized.detach(), z)
        return self.decoder((z + (quantized - z).detach()).permute(0, 3, 1, 2)), loss


@shelf("generative", *BOTH, counted=False)
def vq_vae() -> tuple[nn.Module, Inputs]:
    return VectorQuantizer(), images(16, 3, 2)
