"""Models of sound."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class FeatureExtractor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = ((1, 16, 10, 5), (16, 32, 3, 2), (32, 32, 2, 2))
        self.conv_layers = nn.ModuleList(
            nn.Conv1d(i, o, kernel, stride, bias=False) for i, o, kernel, stride in widths
        )
        self.norm = nn.GroupNorm(4, 32)

    def forward(self, x: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = x.unsqueeze(1)
        for layer in self.conv_layers:
            x = functional.gelu(layer(x))
        if length is not None:
            length = torch.clamp_min(torch.div(length, 20, rounding_mode="floor"), 1)
        return self.norm(x).transpose(1, 2), length


class Wav2Vec(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor = FeatureExtractor()
        self.projection = nn.Linear(32, 48)
        self.pos_conv = nn.Conv1d(48, 48, 8, padding=4, groups=4)
        self.encoder = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True)
        self.aux = nn.Linear(48, 29)

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x, lengths = self.feature_extractor(waveforms, lengths)
        x = self.projection(x)
        x = x + functional.gelu(self.pos_conv(x.transpose(1, 2))[..., :-1]).transpose(1, 2)
        return self.aux(self.encoder(x)), lengths


@shelf("audio", "scripted")
def wav2vec() -> tuple[nn.Module, Inputs]:
    return Wav2Vec(), (torch.randn(2, 400),)


@shelf("audio", *BOTH)
def wav2vec_with_lengths() -> tuple[nn.Module, Inputs]:
    return Wav2Vec(), (torch.randn(2, 400), torch.tensor([400, 300]))


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", torch.rand(33, 20))

    def forward(self, waveform: Tensor) -> Tensor:
        spectrum = torch.stft(waveform, 64, hop_length=16, window=self.window, center=True, return_complex=True)
        mel = torch.matmul(spectrum.abs().pow(2.0).transpose(-1, -2), self.mel)
        return torch.log(mel + 1e-6)


class KeywordSpotter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spectrogram = Spectrogram()
        self.conv = nn.Conv1d(20, 32, 5, stride=2)
        self.fc = nn.Linear(32, 12)

    def forward(self, waveform: Tensor) -> Tensor:
        x = self.spectrogram(waveform).transpose(1, 2)
        return self.fc(torch.relu(self.conv(x)).mean(-1))


@shelf("audio", *BOTH, counted=False)
def keyword_spotter() -> tuple[nn.Module, Inputs]:
    return KeywordSpotter(), (torch.randn(2, 640),)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.mask = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 33), nn.Sigmoid())

    def forward(self, waveform: Tensor) -> Tensor:
        spectrum = torch.stft(waveform, 64, 16, window=self.window, return_complex=True)
        gain = self.mask(spectrum.abs().transpose(1, 2)).transpose(1, 2)
        return torch.istft(spectrum * gain, 64, 16, window=self.window, length=waveform.size(-1))


@shelf("audio", *BOTH, counted=False)
def denoiser() -> tuple[nn.Module, Inputs]:
    return Denoiser(), (torch.randn(2, 640),)


class DilatedResidual(nn.Module):
    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.filter = nn.Conv1d(16, 32, 2, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(16, 16, 1), nn.Conv1d(16, 24, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gated = functional.glu(self.filter(x), dim=1)
        return self.residual(gated) + x[:, :, -gated.size(2) :], self.skip(gated)


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 16, 1)
        self.layers = nn.ModuleList(DilatedResidual(2**index) for index in range(5))
        self.end = nn.Conv1d(24, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        total = torch.zeros(1)
        for index, layer in enumerate(self.layers):
            x, skip = layer(x)
            total = skip if index == 0 else total[..., -skip.size(2) :] + skip
        return self.end(torch.relu(total))


@shelf("audio", *BOTH)
def wavenet() -> tuple[nn.Module, Inputs]:
    return WaveNet(), (torch.randn(1, 1, 100),)
