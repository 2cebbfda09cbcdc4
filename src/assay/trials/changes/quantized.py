"""Linear layers with weights of 8 or 4 bits."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from assay.document.trials import LOSSY
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import RECORDED_PASS_IMPORTS, device_of
from assay.trials.changes.plain_linears import LINEARS, linear_layers, replace_modules
from assay.trials.runnable import Runnable


def dynamic_int8(runnable: Runnable) -> Runnable:
    """The model with Linear layers that multiply int8 weights by inputs quantized on the fly."""
    if device_of(runnable) != "cpu":
        raise NotApplicable("dynamic quantization requires a model on the CPU")
    layers = [layer for layer in linear_layers(runnable) if layer.weight.dtype == torch.float32]
    chosen = {name for name, module in runnable.model.named_modules() if any(module is each for each in layers)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.10 and later announce the removal of this function
        try:
            from torch.ao.quantization import quantize_dynamic
        except ImportError as error:
            raise NotApplicable("this version of torch has no dynamic quantization") from error
        if not chosen:
            raise NotApplicable("the model runs no plain nn.Linear layer in float32")
        quantize_dynamic(runnable.model, chosen, dtype=torch.qint8, inplace=True)
    return runnable


class Int8WeightLinear(nn.Module):  # type: ignore[misc]
    """A Linear layer with int8 weights and one scale per row."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        scale = weight.abs().amax(1).clamp_min(1e-12) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale.to(layer.weight.dtype))
        self.bias = layer.bias

    def forward(self, x: Any) -> Any:
        """The product with the weights, scaled back."""
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        y = torch.ops.aten._weight_int8pack_mm(flat, self.weight, self.scale.to(x.dtype))
        y = y.reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias


class Int4WeightLinear(nn.Module):  # type: ignore[misc]
    """A Linear layer with 4-bit weights, and a scale and an offset per group of inputs."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.rows = layer.out_features
        self.group = next(size for size in (128, 64, 32) if layer.in_features % size == 0)
        self.packed = layer.weight.device.type == "cpu"
        weight = layer.weight.detach().float()
        weight = torch.cat([weight, weight.new_zeros(-self.rows % 64, weight.shape[1])])
        grouped = weight.unflatten(1, (-1, self.group))
        low = grouped.amin(-1)
        scale = ((grouped.amax(-1) - low) / 15).clamp_min(1e-8)
        codes = ((grouped - low[..., None]) / scale[..., None]).round().clamp(0, 15).to(torch.int32).flatten(1)
        if self.packed:
            stored = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        else:
            pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
            stored = torch.ops.aten._convert_weight_to_int4pack(pairs.contiguous(), 2)
        dtype = layer.weight.dtype if self.packed else torch.bfloat16  # the CUDA kernel knows only bfloat16
        self.register_buffer("weight", stored)
        scales = torch.stack([scale, low + 8 * scale], -1).transpose(0, 1)
        self.register_buffer("scales", scales.contiguous().to(dtype))
        self.bias = layer.bias

    def forward(self, x: Any) -> Any:
        """The product with the weights."""
        aten = torch.ops.aten
        multiply = aten._weight_int4pack_mm_for_cpu if self.packed else aten._weight_int4pack_mm
        scales = self.scales.to(x.dtype) if self.packed else self.scales
        y = multiply(x.reshape(-1, x.shape[-1]).contiguous().to(scales.dtype), self.weight, self.group, scales)
        y = y[:, : self.rows].to(x.dtype).reshape(*x.shape[:-1], self.rows)
        return y if self.bias is None else y + self.bias


def quantized_by_torchao(runnable: Runnable, layers: list[Any], names: tuple[str, ...]) -> bool:
    """Whether torchao is installed and has quantized these layers with the first config among `names` it knows."""
    try:
        import torchao.quantization as torchao  # type: ignore[import-not-found]
    except ImportError:
        return False
    config = next((getattr(torchao, name) for name in names if hasattr(torchao, name)), None)
    if config is None or not hasattr(torchao, "quantize_"):
        return False
    chosen = {id(layer) for layer in layers}
    torchao.quantize_(runnable.model, config(), filter_fn=lambda module, name: id(module) in chosen)
    return True


def with_kernel(runnable: Runnable, layers: list[Any], kind: Any) -> Runnable:
    """The model with these layers replaced by modules of class `kind`, where torch has the kernel for this device."""
    device, dtype = layers[0].weight.device, layers[0].weight.dtype
    try:
        probe = nn.Linear(128, 64, device=device, dtype=dtype)
        x = torch.linspace(-1, 1, 256, device=device).reshape(2, 128).to(dtype)
        with torch.no_grad():
            error = (kind(probe)(x) - probe(x)).abs().max() / probe(x).abs().max()
        if not error < 0.25:
            raise RuntimeError("the kernel expects another order of weights")
    except (RuntimeError, AttributeError) as error:
        bits = "8" if kind is Int8WeightLinear else "4"
        raise NotApplicable(
            f"torch has no product with {bits}-bit weights for {str(dtype).removeprefix('torch.')} on {device.type}: "
            "install torchao"
        ) from error
    with torch.no_grad():
        replace_modules(runnable.model, {layer: kind(layer) for layer in layers})
    return runnable


def int8_weights(runnable: Runnable) -> Runnable:
    """The model with Linear layers whose weights are int8."""
    layers = linear_layers(runnable)
    if quantized_by_torchao(runnable, layers, ("Int8WeightOnlyConfig", "int8_weight_only")):
        return runnable
    return with_kernel(runnable, layers, Int8WeightLinear)


def int4_weights(runnable: Runnable) -> Runnable:
    """The model with Linear layers whose weights have 4 bits."""
    layers = [layer for layer in linear_layers(runnable) if layer.in_features % 32 == 0]
    if not layers:
        raise NotApplicable("no nn.Linear layer has a number of inputs that is a multiple of 32")
    bfloat16 = all(layer.weight.dtype == torch.bfloat16 for layer in layers)
    names = ("Int4WeightOnlyConfig", "int4_weight_only")
    if bfloat16 and device_of(runnable) == "cuda" and quantized_by_torchao(runnable, layers, names):
        return runnable
    return with_kernel(runnable, layers, Int4WeightLinear)


PARTS = (*LINEARS, Int8WeightLinear, Int4WeightLinear, quantized_by_torchao, with_kernel)

register(
    Change(
        name="dynamic_int8",
        summary="Quantize Linear layers to int8, with inputs quantized on the fly",
        codes=("W204", "W209"),
        effect=LOSSY,
        apply=dynamic_int8,
        parts=LINEARS,
        imports=(*RECORDED_PASS_IMPORTS, "import warnings"),
        stage="quantization",
    )
)
register(
    Change(
        name="int8_weights",
        summary="Store the weights of Linear layers as int8 with one scale per row",
        codes=("W204", "W209"),
        effect=LOSSY,
        apply=int8_weights,
        parts=PARTS,
        imports=RECORDED_PASS_IMPORTS,
        stage="quantization",
    )
)
register(
    Change(
        name="int4_weights",
        summary="Store the weights of Linear layers with 4 bits and one scale per group of inputs",
        codes=("W204", "W209"),
        effect=LOSSY,
        apply=int4_weights,
        parts=PARTS,
        imports=RECORDED_PASS_IMPORTS,
        stage="quantization",
    )
)
