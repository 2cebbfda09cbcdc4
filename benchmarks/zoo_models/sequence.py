"""Sequence networks written by hand: language, audio, time series, state spaces, control."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _tokens(length: int = 12) -> Inputs:
    return (torch.arange(2 * length).reshape(2, length) % 50,)


class WaveNet(nn.Module):
    def __init__(self, width: int = 8, layers: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.head = nn.Conv1d(width, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        total: Tensor | int = 0
        for gate, skip in zip(self.gates, self.skips, strict=True):
            a, b = gate(functional.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            total, x = total + y, x + y
        return self.head(functional.relu(total))


@shelf("audio")
def wavenet() -> tuple[nn.Module, Inputs]:
    return WaveNet(), (torch.randn(1, 1, 64),)


@shelf("time series")
def tcn() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [
            nn.ConstantPad1d((2 * 2**i, 0), 0.0),
            nn.Conv1d(8, 8, 3, dilation=2**i),
            nn.ReLU(),
            nn.Dropout(0.1),
        ]
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 8, 1)), *layers).eval(), (
        torch.randn(2, 3, 32),
    )


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        )

    def forward(self, wave: Tensor) -> Tensor:
        spectrum = torch.stft(wave, 64, 32, window=self.window, return_complex=True).abs()
        return self.body(spectrum.clamp(min=1e-5).log().unsqueeze(1))


@shelf("audio")
def spectrogram_cnn() -> tuple[nn.Module, Inputs]:
    return Spectrogram(), (torch.randn(2, 1024),)


class Seq2Seq(nn.Module):
    """An encoder and a decoder of GRU cells with attention, fed its own last word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True)
        self.cell, self.head = nn.GRUCell(32, 16), nn.Linear(16, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        memory, last = self.encoder(self.embedding(tokens))
        state, word, out = last[0], tokens[:, 0], []
        for _ in range(4):
            share = torch.bmm(memory, state.unsqueeze(-1)).softmax(1)
            state = self.cell(torch.cat([self.embedding(word), (share * memory).sum(1)], -1), state)
            out.append(self.head(state))
            word = out[-1].argmax(-1)
        return torch.stack(out, 1)


@shelf("language")
def seq2seq_attention() -> tuple[nn.Module, Inputs]:
    return Seq2Seq(), _tokens()


class CausalBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class NanoGpt(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(CausalBlock(width) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@shelf("language")
def nano_gpt() -> tuple[nn.Module, Inputs]:
    return NanoGpt(), _tokens()


class SelectiveScan(nn.Module):
    """A selective state space, stepped through time."""

    def __init__(self, width: int = 16, state: int = 4) -> None:
        super().__init__()
        self.project = nn.Linear(width, 2 * state + width)
        self.decay = nn.Parameter(torch.zeros(width, state))
        self.state = state

    def forward(self, x: Tensor) -> Tensor:
        step, into, outof = self.project(x).split([x.shape[-1], self.state, self.state], -1)
        step = functional.softplus(step)
        state = x.new_zeros(x.shape[0], x.shape[-1], self.state)
        out = []
        for t in range(x.shape[1]):
            keep = torch.exp(-step[:, t, :, None] * self.decay.exp())
            state = keep * state + (step[:, t] * x[:, t]).unsqueeze(-1) * into[:, t].unsqueeze(1)
            out.append(torch.einsum("bds,bs->bd", state, outof[:, t]))
        return torch.stack(out, 1)


@shelf("state space")
def selective_scan() -> tuple[nn.Module, Inputs]:
    return SelectiveScan(), (torch.randn(2, 10, 16),)


class FourierMixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(9, 9, 5, dtype=torch.complex64))
        self.lift, self.drop = nn.Linear(1, 9), nn.Linear(9, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.lift(x).transpose(1, 2)
        low = torch.einsum("bif,iof->bof", torch.fft.rfft(y)[..., :5], self.weight)
        full = torch.zeros(x.shape[0], 9, x.shape[1] // 2 + 1, dtype=low.dtype)
        full[..., :5] = low
        return self.drop(torch.fft.irfft(full, n=x.shape[1]).transpose(1, 2))


@shelf("scientific")
def fourier_operator() -> tuple[nn.Module, Inputs]:
    return FourierMixing(), (torch.randn(2, 32, 1),)


@shelf("scientific")
def physics_mlp() -> tuple[nn.Module, Inputs]:
    class Residual(nn.Module):
        """The residual of a heat equation, by derivatives taken inside forward."""

        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                first = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)[0]
                second = torch.autograd.grad(first[:, 0].sum(), x)[0][:, 0]
            return first[:, 1] - second

    return Residual(), (torch.rand(6, 2),)


class NeuralOde(nn.Module):
    """Integrates its inner network with a step size that adapts to the error."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        time, step = 0.0, 0.25
        while time < 1.0:
            first = self.slope(x)
            second = self.slope(x + step * first)
            error = (0.5 * step * (second - first)).abs().max().item()
            if error < 0.05 or step < 0.05:
                x, time = x + 0.5 * step * (first + second), time + step
            else:
                step /= 2
        return x


@shelf("scientific")
def neural_ode() -> tuple[nn.Module, Inputs]:
    return NeuralOde(), (torch.randn(3, 4),)


class Forecaster(nn.Module):
    """Splits a series into trend and season and extends each linearly."""

    def __init__(self) -> None:
        super().__init__()
        self.smooth = nn.AvgPool1d(5, 1, 2, count_include_pad=False)
        self.trend, self.season = nn.Linear(24, 6), nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        x = (x - mean) / (spread + 1e-5)
        trend = self.smooth(x)
        return (self.trend(trend) + self.season(x - trend)) * spread + mean


@shelf("time series")
def linear_forecaster() -> tuple[nn.Module, Inputs]:
    return Forecaster(), (torch.randn(2, 3, 24),)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.body(state)
        chances = torch.distributions.Categorical(logits=self.policy(hidden))
        action = chances.sample()
        return action, chances.log_prob(action), self.value(hidden)


@shelf("control")
def actor_critic() -> tuple[nn.Module, Inputs]:
    return ActorCritic(), (torch.randn(4, 6),)


class Conformer(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.conv = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 7, padding=3, groups=width)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.conv(x.transpose(1, 2)).transpose(1, 2)


@shelf("audio")
def conformer_block() -> tuple[nn.Module, Inputs]:
    return Conformer().eval(), (torch.randn(1, 20, 16),)


@shelf("language")
def text_cnn() -> tuple[nn.Module, Inputs]:
    class TextCnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(50, 16, padding_idx=0)
            self.convs = nn.ModuleList(nn.Conv1d(16, 8, k) for k in (2, 3, 4))

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.words(tokens).transpose(1, 2)
            return torch.cat([conv(x).relu().amax(-1) for conv in self.convs], -1)

    return TextCnn(), _tokens()


@shelf("language")
def mixture_of_experts() -> tuple[nn.Module, Inputs]:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(16, 4)
            self.into = nn.Parameter(torch.randn(4, 16, 32))
            self.outof = nn.Parameter(torch.randn(4, 32, 16))

        def forward(self, x: Tensor) -> Tensor:
            share = self.router(x).softmax(-1)
            hidden = functional.silu(torch.einsum("btd,edh->bteh", x, self.into))
            return torch.einsum("bteh,ehd,bte->btd", hidden, self.outof, share)

    return Mixture(), (torch.randn(2, 5, 16),)
