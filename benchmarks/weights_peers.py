"""Statistics of a weight matrix with plain torch: call by call, and in cache-sized blocks."""

from __future__ import annotations

import torch

BLOCK = 256 * 1024
QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


def naive(x: torch.Tensor) -> list[float]:
    """Light statistics, quantiles by sorting, nine quantization errors and 2:4, each over the whole tensor."""
    wide = x.float()
    return [*_light(wide), *_shape(wide), *_quantiles(x), *_casts(wide), *_rows(wide)]


def blocked(x: torch.Tensor) -> list[torch.Tensor]:
    """Light statistics and row-wise quantization in blocks that fit the cache; no quantiles, no fp8."""
    rows = max(1, BLOCK // x.shape[1])
    sums = []
    for start in range(0, x.shape[0], rows):
        block = x[start : start + rows].float()
        sums.append(torch.stack([*_block_light(block), *_row_errors(block)]))
    return sums


def _light(x: torch.Tensor) -> list[float]:
    figures = [
        x.mean(),
        x.std(),
        x.min(),
        x.max(),
        x.norm(1),
        x.norm(2),
        (x == 0).sum(),
        x.isnan().sum(),
        x.isinf().sum(),
    ]
    return [float(figure) for figure in figures]


def _shape(x: torch.Tensor) -> list[float]:
    counts = torch.histc(x, 64)
    share = counts[counts > 0] / counts.sum()
    z = (x - x.mean()) / x.std()
    return [float(-(share * share.log2()).sum()), float((z**3).mean()), float((z**4).mean())]


def _quantiles(x: torch.Tensor) -> list[float]:
    ordered = x.flatten().sort().values
    return [float(ordered[int(share * (ordered.numel() - 1))]) for share in QUANTILES]


def _casts(x: torch.Tensor) -> list[float]:
    peak = x.abs().max()
    errors = [((x - x.to(torch.bfloat16).float()) ** 2).sum()]
    for kind, largest in ((torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)):
        scale = peak / largest
        errors.append(((x - (x / scale).to(kind).float() * scale) ** 2).sum())
    for levels in (127, 7):
        scale = peak / levels
        errors.append(((x - (x / scale).round() * scale) ** 2).sum())
    return [float(error) for error in errors]


def _rows(x: torch.Tensor) -> list[float]:
    return [float(error) for error in _row_errors(x)]


def _row_errors(x: torch.Tensor) -> list[torch.Tensor]:
    errors = []
    for shaped in (x, x.view(-1, 128)):
        peak = shaped.abs().amax(1, keepdim=True).clamp_min(1e-30)
        for levels in (127, 7):
            scale = peak / levels
            errors.append(((shaped - (shaped / scale).round() * scale) ** 2).sum())
    errors.append(_two_of_four(x))
    return errors


def _two_of_four(x: torch.Tensor) -> torch.Tensor:
    """Sum of squares of the larger two of every four; a sorting network, since topk is many times slower."""
    a, b, c, d = (x * x).view(-1, 4).unbind(1)
    high, other = torch.maximum(a, b), torch.maximum(c, d)
    low = torch.maximum(torch.minimum(a, b), torch.minimum(c, d))
    return torch.maximum(high, other).sum() + torch.maximum(torch.minimum(high, other), low).sum()


def _block_light(x: torch.Tensor) -> list[torch.Tensor]:
    square = x * x
    return [
        x.sum(),
        square.sum(),
        (square * x).sum(),
        (square * square).sum(),
        x.abs().sum(),
        x.min(),
        x.max(),
        (x == 0).sum().float(),
        x.isfinite().sum().float(),
    ]
