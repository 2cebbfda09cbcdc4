"""Files made in unusual ways: frozen, optimised, quantized, mixed, saved again, for mobile."""

from pathlib import Path

import torch
from torch import Tensor, nn

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf, scripted, traced

shelf = Shelf()
entries = shelf.entries
Program = torch.jit.ScriptModule


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.bn(self.conv(x))).mean([2, 3]))


def _frozen(model: nn.Module, inputs: Inputs) -> Program:
    return torch.jit.freeze(scripted(model, inputs))


def _frozen_trace(model: nn.Module, inputs: Inputs) -> Program:
    return torch.jit.freeze(traced(model, inputs))


def _frozen_unoptimized(model: nn.Module, inputs: Inputs) -> Program:
    return torch.jit.freeze(scripted(model, inputs), optimize_numerics=False)


def _folded() -> tuple[nn.Module, Inputs]:
    """The same with the batch norm folded into the convolution, as freezing does."""
    model, inputs = Small().eval(), images(32)
    model.conv = torch.nn.utils.fuse_conv_bn_eval(model.conv, model.bn)
    model.bn = nn.Identity()
    return model, inputs


@shelf.special("files", _frozen, live=_folded, inlined=True)
def frozen_script() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


@shelf.special("files", _frozen_trace, live=_folded, inlined=True)
def frozen_trace() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


@shelf.special("files", _frozen_unoptimized, inlined=True)
def frozen_without_folding() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


@shelf.special("files", lambda model, inputs: torch.jit.optimize_for_inference(scripted(model, inputs)), inlined=True)
def optimized_for_inference() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), (torch.randn(2, 16),)


class HoldsTrace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
        self.limit = 3

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for _ in range(self.limit):
            x = self.body(x)
        return x


def _script_of_trace(model: HoldsTrace, inputs: Inputs) -> Program:
    model.body = torch.jit.trace(model.body, torch.randn(1, 8, 30, 30))
    return scripted(model, inputs)


def _trace_of_script(model: HoldsTrace, inputs: Inputs) -> Program:
    model.body = torch.jit.script(model.body)
    return traced(model, inputs)


@shelf.special("files", _script_of_trace)
def script_holding_trace() -> tuple[nn.Module, Inputs]:
    return HoldsTrace(), images(32)


@shelf.special("files", _trace_of_script)
def trace_holding_script() -> tuple[nn.Module, Inputs]:
    return HoldsTrace(), images(32)


def _with_extra_files(program: Program, path: Path) -> None:
    torch.jit.save(
        program, str(path), _extra_files={"labels.txt": "cat\ndog", "config/model.json": '{"kind": "Small"}'}
    )


@shelf.special("files", traced, _with_extra_files)
def with_extra_files() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


def _for_mobile(program: Program, path: Path) -> None:
    program._save_for_lite_interpreter(str(path))


@shelf.special("files", scripted, _for_mobile)
def for_lite_interpreter() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


def _saved_again(program: Program, path: Path) -> None:
    torch.jit.save(program, str(path))
    torch.jit.load(str(path)).save(str(path))


@shelf.special("files", scripted, _saved_again)
def saved_again_script() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


@shelf.special("files", traced, _saved_again)
def saved_again_trace() -> tuple[nn.Module, Inputs]:
    return Small(), images(32)


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 4), nn.Linear(4, 16)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encode(x))


def _two_methods(model: nn.Module, inputs: tuple[Tensor]) -> Program:
    return torch.jit.trace_module(model, {"forward": inputs[0], "encode": inputs[0]})


@shelf.special("files", _two_methods)
def trace_of_two_methods() -> tuple[nn.Module, Inputs]:
    return Methods(), (torch.randn(2, 16),)


def _training_mode(model: nn.Module, inputs: Inputs) -> Program:
    return scripted(model.train(), inputs)


@shelf.special("files", _training_mode)
def saved_in_training_mode() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 4)), (
        torch.randn(4, 16),
    )


def _engine() -> None:
    engines = [engine for engine in ("fbgemm", "qnnpack") if engine in torch.backends.quantized.supported_engines]
    torch.backends.quantized.engine = engines[0]


@shelf("quantized", "scripted", "traced", counted=False)
def dynamic_int8() -> tuple[nn.Module, Inputs]:
    _engine()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, torch.qint8), (torch.randn(2, 16),)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.lstm(x)[0])


@shelf("quantized", "scripted", counted=False)
def dynamic_int8_lstm() -> tuple[nn.Module, Inputs]:
    _engine()
    model = torch.ao.quantization.quantize_dynamic(Recurrent().eval(), {nn.LSTM, nn.Linear}, torch.qint8)
    return model, (torch.randn(5, 2, 16),)


class Quantizable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.fc = nn.Linear(8, 4)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = torch.nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        return self.dequant(self.fc(x))


@shelf("quantized", "scripted", "traced", counted=False)
def static_int8() -> tuple[nn.Module, Inputs]:
    _engine()
    model = Quantizable().eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig(torch.backends.quantized.engine)
    fused = torch.ao.quantization.fuse_modules(model, [["conv", "bn", "relu"]])
    prepared = torch.ao.quantization.prepare(fused)
    prepared(torch.randn(4, 3, 32, 32))
    return torch.ao.quantization.convert(prepared), images(32)
