"""Fourier transforms: 5 N log2 n FLOPs for complex data, half of that for real; n is the size of one transform.

They count as matrix FLOPs; a transform has no MACs.
"""

from __future__ import annotations

from math import log2, prod

from assay.analysis.cost.categories import FFT
from assay.analysis.cost.reading import attribute, first, numel, operand, optional, result
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind, TensorType

COMPLEX = 5.0
REAL = 2.5


def _flops(elements: int, transform: int, each: float) -> int:
    return round(each * elements * log2(transform)) if transform > 1 else 0


def _dims(kind: OpKind, rank: int) -> list[int]:
    """The transformed dimensions, as non-negative indices."""
    chosen = attribute(kind, "dim", _default_dims(kind, rank))
    return [int(dim) % rank for dim in ([chosen] if isinstance(chosen, int) else chosen)]


def _default_dims(kind: OpKind, rank: int) -> tuple[int, ...]:
    name = kind.target.split(".")[1]
    if name.endswith("2"):
        return (-2, -1)
    sizes = attribute(kind, "s")
    if name.endswith("n"):
        return tuple(range(rank - len(sizes), rank)) if sizes is not None else tuple(range(rank))
    return (-1,)


def _transform(kind: OpKind, full: TensorType, each: float) -> Work:
    """The work of a transform; `full` is the side that is not halved."""
    size = prod(full.shape[dim] for dim in _dims(kind, len(full.shape)))
    return Work(matrix_flops=_flops(numel(full), size, each))


@register("fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn _fft_c2c prims::fft_c2c", category=FFT)
def complex_transform(kind: OpKind) -> Work:
    """5 N log2 n FLOPs."""
    return _transform(kind, result(kind), COMPLEX)


@register("fft_rfft fft_rfft2 fft_rfftn fft_ihfft fft_ihfft2 fft_ihfftn _fft_r2c prims::fft_r2c", category=FFT)
def real_to_complex(kind: OpKind) -> Work:
    """2.5 N log2 n FLOPs, N elements on the real side after padding or trimming."""
    return _transform(kind, _resized(kind, first(kind)), REAL)


@register("fft_irfft fft_irfft2 fft_irfftn fft_hfft fft_hfft2 fft_hfftn _fft_c2r prims::fft_c2r", category=FFT)
def complex_to_real(kind: OpKind) -> Work:
    """2.5 N log2 n FLOPs, N elements on the real side."""
    return _transform(kind, result(kind), REAL)


def _resized(kind: OpKind, tensor: TensorType) -> TensorType:
    """The input after it is padded or trimmed to the sizes `n` or `s`."""
    sizes = attribute(kind, "s", [attribute(kind, "n")])
    if sizes == [None]:
        return tensor
    shape = list(tensor.shape)
    for dim, size in zip(_dims(kind, len(shape)), sizes, strict=False):
        shape[dim] = size if size != -1 else shape[dim]
    return TensorType(tuple(shape), tensor.dtype)


@register("stft", category=FFT)
def stft(kind: OpKind) -> Work:
    """One transform per frame, and one product per frame element if there is a window."""
    size, spectrum = int(kind.attributes["n_fft"]), result(kind)
    halves = 2 if not spectrum.dtype.startswith("complex") else 1  # 2: the last dimension is real and imaginary part
    bins = spectrum.shape[-2 - (halves == 2)]
    frames = numel(spectrum) // (halves * bins)
    each = COMPLEX if operand(kind, "self").dtype.startswith("complex") else REAL
    window = frames * size if optional(kind, "window") else 0
    return Work(pointwise=window, matrix_flops=_flops(frames * size, size, each))


@register("istft", category=FFT)
def istft(kind: OpKind) -> Work:
    """One real transform per frame, and three ops per frame element for the window and the overlap-add."""
    size, spectrum = int(kind.attributes["n_fft"]), operand(kind, "self")
    frames = numel(spectrum) // spectrum.shape[-2]
    return Work(pointwise=3 * frames * size, matrix_flops=_flops(frames * size, size, REAL))
