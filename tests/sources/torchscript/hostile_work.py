"""Single operators that would take long, need much memory or crash for short arguments."""

from __future__ import annotations

from hostile import Case
from hostile_code import program

LONG = 's = torch.mul("ab", 25000)\nl = torch.mul([s], 40000)\n'
"""A list of strings with two billion characters in all."""


def _zeros(shape: str) -> str:
    return f"torch.zeros({shape}, dtype=6, layout=None, device=None, pin_memory=None)"


def _known(shape: str, dtype: int = 4) -> str:
    """A tensor whose values are known."""
    return f"torch.ones({shape}, dtype={dtype}, layout=None, device=None, pin_memory=None)"


def _quantized(shape: str, dtype: int = 13) -> str:
    return f"torch.quantize_per_tensor({_zeros(shape)}, 1., 0, {dtype})"


def _convolution(data: str, weight: str, padding: str) -> str:
    return (
        f"q = {_quantized(data)}\nw = {_quantized(weight, 12)}\n"
        f"p = ops.quantized.conv2d_prepack(w, None, [1, 1], {padding}, [1, 1], 1)\n"
        "y = ops.quantized.conv2d(q, p, 1., 0)"
    )


SCALARS = {
    "round": ("a number rounded to 10^8 digits before the point", "n = torch.round(5, -100000000)"),
    "percent": ("a string in front of a percent sign", 'n = torch.remainder("%0800000000d", 5)'),
    "join": ("a long string between long strings", LONG + "t = torch.join(s, l)"),
    "text": ("the text of a list of long strings", LONG + "t = torch.str(l)"),
    "text-bare": ("the text of a list of long strings, by its bare name", LONG + "t = str(l)"),
    "format": ("a format of a list of long strings", LONG + 't = torch.format("{}", l)'),
    "percent-format": ("the same with a percent sign", LONG + 't = torch.percentFormat("a", l)'),
    "raise": ("an error whose message is a list of long strings", LONG + "ops.prim.RaiseException(l)"),
}
LISTS = {
    "multi-dot": ("the best order for 4,000 products", "y = torch.linalg_multi_dot(torch.mul([a], 4000))"),
    "chain-matmul": ("the same, by its old name", "y = torch.chain_matmul(torch.mul([a], 4000))"),
    "block-diag": ("40,000 blocks on a diagonal", "y = torch.block_diag(torch.mul([a], 40000))"),
    "einsum": (
        "a product of 9,000 tensors",
        'y = torch.einsum(torch.join(",", torch.mul(["ab"], 9000)), torch.mul([a], 9000))',
    ),
    "atleast": ("40,000 tensors, one by one", "y = torch.atleast_3d(torch.mul([a], 40000))"),
    "roll": ("40,000 shifts", "y = torch.roll(a, torch.mul([1], 40000), torch.mul([0], 40000))"),
    "repeat": ("40,000 dimensions that are repeated", "y = torch.repeat(a, torch.mul([1], 40000))"),
    "tile": ("40,000 dimensions that are tiled", "y = torch.tile(a, torch.mul([1], 40000))"),
    "diff": ("differences of order 10^18", f"y = torch.diff({_zeros('[100000]')}, 1000000000000000000)"),
    "rnn-packed": (
        "two million steps of a packed sequence",
        f"w = torch.mul([{_zeros('[1, 1]')}, {_zeros('[1, 1]')}, {_zeros('[1]')}, {_zeros('[1]')}], 1)\n"
        f"y = torch.rnn_relu({_zeros('[2000000, 1]')}, {_known('[2000000]')}, {_zeros('[1, 1, 1]')}, w, True, 1, 0., "
        "False, False)",
    ),
    "lstm": (
        "3,000 steps of 1,000 layers",
        f"h = {_zeros('[1000, 1, 1]')}\nw = {_zeros('[4, 1]')}\nb = {_zeros('[4]')}\n"
        f"y = torch.lstm({_zeros('[3000, 1, 1]')}, [h, h], torch.mul([w, w, b, b], 1000), True, 1000, 0., "
        "False, False, False)",
    ),
}
_DEGREE = "y = torch.special_{}(torch.tensor([0.5]), torch.tensor([1000000000]))"
VALUES = {
    "avg-pool": (
        "a window of a million known values",
        f"y = torch.avg_pool2d({_known('[1, 1, 2000, 2000]')}, [1000, 1000], [1, 1])",
    ),
    "max-pool": (
        "the same for their maximum",
        f"y = torch.max_pool2d({_known('[1, 1, 2000, 2000]')}, [1000, 1000], [1, 1])",
    ),
    "margin-loss": (
        "a loss that compares all classes with each other",
        f"y = torch.multilabel_margin_loss({_known('[1, 2000000]', 6)}, {_known('[1, 2000000]')})",
    ),
    "nuclear-norm": (
        "the singular values of a large known matrix",
        f"y = torch.nuclear_norm({_known('[2000, 1000]', 6)})",
    ),
    "product": ("a product of large known integers", f"a = {_known('[2000, 2000]')}\ny = torch.linear(a, a)"),
    "legendre": ("a polynomial of degree 10^9", _DEGREE.format("legendre_polynomial_p")),
    "laguerre": ("the same with other weights", _DEGREE.format("laguerre_polynomial_l")),
    "mask": (
        "a known mask expanded to 10^12 values",
        "m = torch.expand(torch.tensor([True]), [1000000000000])\n"
        f"y = torch.masked_select({_zeros('[1000000000000]')}, m)",
    ),
    "mask-broadcast": (
        "one value that selects 10^12",
        f"y = torch.masked_select({_zeros('[1000000000000]')}, torch.tensor(True))",
    ),
}
QUANTIZED = {
    "conv-result": ("1,000 channels of an image", _convolution("[1, 16, 250, 250]", "[1000, 16, 3, 3]", "[1, 1]")),
    "conv-padding": ("a padding of 2,000", _convolution("[1, 16, 50, 50]", "[100, 16, 3, 3]", "[2000, 2000]")),
    "conv-products": ("10^12 products", _convolution("[1, 64, 256, 256]", "[256, 64, 29, 29]", "[14, 14]")),
    "upsample": (
        "an image that grows 10,000 times",
        f"y = torch.upsample_nearest2d({_quantized('[1, 16, 100, 100]')}, [10000, 10000], None, None)",
    ),
    "pool": (
        "a window of a million values",
        f"y = torch.max_pool2d({_quantized('[1, 1, 2000, 2000]')}, [1000, 1000], [1, 1])",
    ),
    "repeat": (
        "a tensor repeated 10,000 times",
        f"y = torch.repeat({_quantized('[1, 16, 100, 100]')}, [1, 1, 100, 100])",
    ),
    "add": (
        "the sum of a long row and a long column",
        f"y = ops.quantized.add({_quantized('[100000, 1]')}, {_quantized('[1, 100000]')}, 1., 0)",
    ),
    "cat": (
        "3,000 copies of a tensor",
        f"y = ops.quantized.cat(torch.mul([{_quantized('[1000, 1000]')}], 3000), 0, 1., 0)",
    ),
}
CRASHES = {
    "view": (
        "a dtype that does not exist, for which torch crashes",
        f"y = torch.view({_known('[2000000]', 6)}, 100000)",
    ),
    "nnpack": (
        "an operator that divides by a stride of zero",
        f"i = {_zeros('[1, 16, 9, 9]')}\ny = torch._nnpack_spatial_convolution(i, i, None, [1], [0, 0])",
    ),
}


def cases() -> list[Case]:
    """One case per row of the tables; torch.jit need not load them."""
    tables = {"scalar": SCALARS, "list": LISTS, "values": VALUES, "quantized": QUANTIZED, "crash": CRASHES}
    return [
        program(f"work-{kind}-{name}", why, f"a = {_zeros('[2, 2]')}\n{body}\nreturn x", valid=False)
        for kind, table in tables.items()
        for name, (why, body) in table.items()
    ]
