"""Ops that need care: indexing, in-place changes, sizes that depend on values, unusual dtypes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


def _row(*shape: int) -> Inputs:
    return (torch.randn(*(shape or (6, 16))),)


class Linear(nn.Module):
    """A model with one layer, to which each model here adds its ops."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)


class InPlace(Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x).relu_()
        y += x
        y[0] = 0.0
        y[:, 1:3].mul_(2.0)
        y[1:, -1] = x[1:, 0]
        y.view(-1)[::5].zero_().add_(1.0)
        y.clamp_(min=-1.0).div_(y.norm().add_(1.0))
        return y.t_().t_()


@shelf("tensors", *BOTH)
def in_place() -> tuple[nn.Module, Inputs]:
    return InPlace(), _row()


class Gathering(Linear):
    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        y = self.fc(x)[rows] + x[rows, rows][:, None]
        y[rows[:2], 1] = 5.0
        y.index_fill_(0, rows[:1], 0.0)
        y = y.index_put((rows[:2],), torch.ones(16), accumulate=True)
        return y.take_along_dim(rows[:, None], 1) + y.gather(1, rows[:, None]) + y.index_select(1, rows[:1])


@shelf("tensors", *BOTH)
def indexing() -> tuple[nn.Module, Inputs]:
    return Gathering(), (torch.randn(6, 16), torch.tensor([0, 3, 2, 5]))


class Masks(Linear):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        y = self.fc(x).masked_fill(~mask, float("-inf")).softmax(-1)
        y = torch.where(mask & (y > 0.1), y, torch.zeros_like(y))
        return y.masked_fill(mask.logical_not().all(1, keepdim=True), 1.0).tril().cumsum(-1)


@shelf("tensors", *BOTH)
def masks() -> tuple[nn.Module, Inputs]:
    return Masks(), (torch.randn(6, 16), torch.tensor([16, 3, 8, 1, 5, 9]))


class Selected(Linear):
    """The number of rows depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        kept = x[x[:, 0] > 0]
        places = torch.nonzero(x.sum(1) > 0).squeeze(1)
        return self.fc(kept).sum(0) + self.fc(x[places]).sum(0)


@shelf("tensors", *BOTH, counted=False)
def sizes_from_values() -> tuple[nn.Module, Inputs]:
    return Selected(), (torch.linspace(-1, 1, 96).reshape(6, 16),)


class Unique(Linear):
    def forward(self, tokens: Tensor) -> Tensor:
        values, places, counts = torch.unique(tokens, return_inverse=True, return_counts=True)
        table = self.fc(functional.one_hot(values, 16).float()) / counts.unsqueeze(1)
        return table[places]


@shelf("tensors", "scripted")
def unique_tokens() -> tuple[nn.Module, Inputs]:
    return Unique(), (torch.tensor([[3, 5, 3], [1, 5, 9]]),)


class Sorting(Linear):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, order = self.fc(x).sort(dim=-1, descending=True)
        top, places = values.topk(4, dim=-1)
        ranks = order.argsort(dim=-1)[:, :4]
        kth = x.kthvalue(3, dim=-1)[0] + x.median(dim=-1)[0] + x.mode(-1)[0]
        return top * kth.unsqueeze(1) + places, torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))[:, :4] + ranks


@shelf("tensors", *BOTH)
def sorting() -> tuple[nn.Module, Inputs]:
    return Sorting(), _row()


class MatrixProducts(Linear):
    def forward(self, x: Tensor) -> Tensor:
        batch = self.fc(x).view(2, 3, 16)
        a = torch.einsum("bij,bkj->bik", batch, batch)
        b = torch.baddbmm(a, batch, batch.transpose(1, 2), beta=0.5)
        c = torch.addmm(x[:, :3], x, x[:3].t()) + torch.tensordot(batch, batch, dims=[[0, 2], [0, 2]]).sum()
        return b.sum() + c.sum() + torch.outer(x[0], x[1]).trace()


@shelf("tensors", *BOTH)
def matrix_products() -> tuple[nn.Module, Inputs]:
    return MatrixProducts(), _row()


class Views(Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x).view(2, 3, 4, 4).permute(0, 2, 1, 3).contiguous().flatten(1)
        y = y.unflatten(1, [4, 12]).movedim(0, -1).swapaxes(0, 1).reshape(-1, 8)
        y = torch.stack([y, y.clone()]).expand(3, 2, 12, 8).transpose(0, 3)
        y = torch.cat([y, y.repeat(1, 1, 1, 2)], dim=-1).squeeze().as_strided([4, 3], [3, 1])
        return torch.roll(y, 1, 0).rot90().unsqueeze(0).broadcast_to(2, 3, 4).diagonal(dim1=1, dim2=2)


@shelf("tensors", *BOTH)
def views() -> tuple[nn.Module, Inputs]:
    return Views(), _row()


class Broadcasting(Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        distances = (y[:, None] - x[None]).pow(2).sum(-1).sqrt()
        a, b = torch.broadcast_tensors(distances[:1], distances[:, :1])
        return torch.addcmul(a, b, b, value=0.5).lerp(distances, 0.25) / torch.maximum(a, b.abs() + 1.0)


@shelf("tensors", *BOTH)
def broadcasting() -> tuple[nn.Module, Inputs]:
    return Broadcasting(), _row()


class Fourier(nn.Module):
    """A Fourier neural operator: complex weights on low frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(4, 4, 8, dtype=torch.cfloat))
        self.skip = nn.Conv1d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(x.size(0), 4, x.size(-1) // 2 + 1, dtype=torch.cfloat)
        out[:, :, :8] = torch.einsum("bix,iox->box", spectrum[:, :, :8], self.weights)
        magnitude = torch.view_as_real(out).norm(p=2, dim=-1).mean() + out.real.sum() + out.imag.abs().sum()
        return functional.gelu(torch.fft.irfft(out, n=x.size(-1)) + self.skip(x)) * magnitude


@shelf("tensors", *BOTH, counted=False)
def fourier_operator() -> tuple[nn.Module, Inputs]:
    return Fourier(), _row(2, 4, 32)


def _plain() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))


@shelf("dtypes", *BOTH)
def float64() -> tuple[nn.Module, Inputs]:
    return _plain().double(), (torch.randn(6, 16, dtype=torch.float64),)


@shelf("dtypes", *BOTH)
def bfloat16() -> tuple[nn.Module, Inputs]:
    return _plain().bfloat16(), (torch.randn(6, 16).bfloat16(),)


@shelf("dtypes", *BOTH)
def float16() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).half(), (torch.randn(6, 16).half(),)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float() + x


@shelf("dtypes", *BOTH)
def autocast() -> tuple[nn.Module, Inputs]:
    return Mixed(), _row()


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 5)
        self.smooth = nn.CrossEntropyLoss(weight=torch.ones(5), label_smoothing=0.1)
        self.triplet = nn.TripletMarginLoss()

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        logits = self.fc(x)
        loss = self.smooth(logits, labels) + functional.nll_loss(logits.log_softmax(-1), labels)
        loss = loss + functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float() / 5)
        return loss + self.triplet(logits, logits.flip(0), logits.roll(1, 0)) + functional.huber_loss(x, x * 0)


@shelf("tensors", *BOTH)
def losses() -> tuple[nn.Module, Inputs]:
    return Losses(), (torch.randn(6, 16), torch.tensor([0, 1, 2, 3, 4, 0]))


class Random(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(x.size(0), 1) + torch.randn_like(x) + torch.randint(0, 5, (1,))
        y = functional.dropout(self.fc(x + noise), 0.3, True)
        chosen = torch.multinomial(y.softmax(-1), 3)
        return y.gather(1, chosen) * torch.bernoulli(torch.full((6, 3), 0.5)) + torch.randperm(3)


@shelf("tensors", *BOTH)
def random_numbers() -> tuple[nn.Module, Inputs]:
    return Random(), _row()


@shelf("tensors", *BOTH)
def convolution_3d() -> tuple[nn.Module, Inputs]:
    body = (nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2))
    head = (nn.ConvTranspose3d(8, 4, 2, 2), nn.AdaptiveAvgPool3d(2), nn.Flatten(), nn.Linear(32, 3))
    return nn.Sequential(*body, *head), _row(1, 1, 8, 16, 16)


@shelf("tensors", *BOTH)
def unusual_layers() -> tuple[nn.Module, Inputs]:
    body = (nn.ReflectionPad2d(1), nn.Conv2d(4, 8, 3, groups=2, padding_mode="circular", padding=1), nn.CELU())
    more = (nn.PixelUnshuffle(2), nn.ChannelShuffle(4), nn.Softmax2d(), nn.LPPool2d(2, 2))
    return nn.Sequential(*body, *more, nn.Unfold(2), nn.Mish(), nn.RReLU(), nn.Threshold(0.1, 0.0)), _row(
        1, 4, 10, 10
    )
