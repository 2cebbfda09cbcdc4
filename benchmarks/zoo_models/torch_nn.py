"""The architectures of torch.nn, unmodified."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from zoo_models.registry import Entry, Inputs

_SEQUENCE = (torch.linspace(-1, 1, 2 * 6 * 16).reshape(2, 6, 16),)
_IMAGE = (torch.linspace(-1, 1, 2 * 8 * 8 * 8).reshape(2, 8, 8, 8),)
_VOLUME = (torch.linspace(-1, 1, 2 * 4 * 6 * 6 * 6).reshape(2, 4, 6, 6, 6),)
_ROW = (torch.linspace(-1, 1, 32).reshape(2, 16),)


def _layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)


class _SelfAttention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.attention(x, x, x, need_weights=True)


_MODELS: dict[str, tuple[Any, Inputs]] = {
    "rnn": (lambda: nn.RNN(16, 8, 2, batch_first=True), _SEQUENCE),
    "lstm": (lambda: nn.LSTM(16, 8, 2, batch_first=True), _SEQUENCE),
    "lstm-bidirectional": (lambda: nn.LSTM(16, 8, 2, bidirectional=True, batch_first=True), _SEQUENCE),
    "lstm-projected": (lambda: nn.LSTM(16, 8, proj_size=4, batch_first=True), _SEQUENCE),
    "gru": (lambda: nn.GRU(16, 8, 2, batch_first=True), _SEQUENCE),
    "lstm-cell": (lambda: nn.LSTMCell(16, 8), _ROW),
    "gru-cell": (lambda: nn.GRUCell(16, 8), _ROW),
    "transformer": (
        lambda: nn.Transformer(16, 2, 2, 2, 32, batch_first=True),
        (_SEQUENCE[0], _SEQUENCE[0][:, :4]),
    ),
    "transformer-encoder": (lambda: nn.TransformerEncoder(_layer(), 2), _SEQUENCE),
    "transformer-encoder-eval": (lambda: nn.TransformerEncoder(_layer(), 2).eval(), _SEQUENCE),
    "transformer-decoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 2),
        (_SEQUENCE[0][:, :4], _SEQUENCE[0]),
    ),
    "multihead-attention": (_SelfAttention, _SEQUENCE),
    "multihead-attention-biased": (lambda: _SelfAttention(add_bias_kv=True, add_zero_attn=True), _SEQUENCE),
    "convolutions-1d": (
        lambda: nn.Sequential(nn.Conv1d(6, 8, 3), nn.BatchNorm1d(8), nn.MaxPool1d(2), nn.ConvTranspose1d(8, 4, 2)),
        _SEQUENCE,
    ),
    "convolutions-2d": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 8, 3, padding="same", groups=2),
            nn.Conv2d(8, 8, 3, dilation=2, padding_mode="reflect", padding=1),
            nn.InstanceNorm2d(8, affine=True),
            nn.LocalResponseNorm(2),
            nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
            nn.PixelShuffle(2),
        ),
        _IMAGE,
    ),
    "convolutions-3d": (
        lambda: nn.Sequential(nn.Conv3d(4, 8, 3), nn.BatchNorm3d(8), nn.ReLU(), nn.AdaptiveAvgPool3d(2)),
        _VOLUME,
    ),
    "pools": (
        lambda: nn.Sequential(
            nn.MaxPool2d(2), nn.LPPool2d(2, 2), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(1), nn.Flatten()
        ),
        _IMAGE,
    ),
    "norms": (
        lambda: nn.Sequential(nn.LayerNorm(16), nn.RMSNorm(16), nn.GroupNorm(2, 6), nn.BatchNorm1d(6)).eval(),
        _SEQUENCE,
    ),
    "activations": (
        lambda: nn.Sequential(
            *(nn.ReLU6(), nn.ELU(), nn.SELU(), nn.CELU(), nn.Mish(), nn.Hardswish(), nn.Softplus(), nn.LogSigmoid()),
            *(nn.Softshrink(), nn.Tanhshrink(), nn.PReLU(), nn.GELU("tanh"), nn.GLU(), nn.Softmin(-1), nn.RReLU()),
        ),
        _SEQUENCE,
    ),
    "paddings-and-upsampling": (
        lambda: nn.Sequential(
            nn.ReflectionPad2d(1), nn.ZeroPad2d(2), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Unfold(2)
        ),
        _IMAGE,
    ),
    "bilinear": (lambda: nn.Bilinear(16, 16, 4), _ROW * 2),
    "adaptive-softmax": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10]),
        (_ROW[0], torch.tensor([1, 12])),
    ),
    "ctc-loss": (
        lambda: nn.CTCLoss(),
        (
            torch.zeros(6, 2, 5).log_softmax(-1),
            torch.tensor([[1, 2], [3, 4]]),
            torch.tensor([6, 6]),
            torch.tensor([2, 2]),
        ),
    ),
}


def entries() -> list[Entry]:
    """torch.nn's architectures."""
    return [
        Entry(f"torch/{name}", "torch.nn", lambda make=make, inputs=inputs: (make(), inputs))
        for name, (make, inputs) in _MODELS.items()
    ]
