"""What to do, without data, when an operation's result depends on values: one short policy an operation.

Sizes that only data can tell take their upper bound; truths are taken as true. Every guess is noted.
A policy gets (executor, func, args, kwargs) and may answer `NO_OPINION`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from assay.recorder.dataless import Dataless

NO_OPINION = object()

MADE_UP_LIMIT = 1 << 20
"""Elements beyond which leaving the device yields a meta tensor still."""


Policy = Callable[["Dataless", Any, tuple[Any, ...], dict[str, Any]], Any]

TABLE: dict[str, Policy] = {}


def _policy(*names: str) -> Callable[[Policy], Policy]:
    def register(policy: Policy) -> Policy:
        for name in names:
            if name in TABLE:
                raise ValueError(f"two policies for {name}")
            TABLE[name] = policy
        return policy

    return register


def _meta(shape: list[int] | tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@_policy("aten::item", "aten::_local_scalar_dense")
def _scalar(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    dtype = args[0].dtype
    if dtype is torch.bool:
        return run.guess(str(func), True)
    return run.guess(str(func), 1.0 if dtype.is_floating_point else complex(1) if dtype.is_complex else 1)


@_policy("aten::is_nonzero", "aten::equal", "aten::allclose")
def _truth(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return run.guess(str(func), True)


@_policy("aten::_assert_async", "aten::_assert_scalar", "aten::_linalg_check_errors", "aten::_assert_tensor_metadata")
def _no_check(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return None


@_policy("aten::nonzero", "aten::argwhere")
def _nonzero(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    run.assume(str(func), f"no data, took all {tensor.numel()} elements")
    return _meta((tensor.numel(), tensor.dim()), torch.int64)


@_policy("aten::nonzero_numpy", "aten::where")
def _where(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1:
        return NO_OPINION
    tensor = args[0]
    run.assume(str(func), f"no data, took all {tensor.numel()} elements")
    return [_meta((tensor.numel(),), torch.int64) for _ in range(max(tensor.dim(), 1))]


@_policy("aten::masked_select")
def _masked_select(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, mask = args
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    if run.is_known(mask):
        return _meta((int(mask.expand(shape).sum()),), tensor.dtype)
    size = math.prod(shape)
    run.assume(str(func), f"no data, took all {size} elements")
    return _meta((size,), tensor.dtype)


@_policy("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
def _index(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Masks among the indices become positions: the true ones where known, else as many as there can be."""
    indices = args[1]
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NO_OPINION
    positions: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            positions.append(None if index is None else _meta(index.shape, index.dtype))
            continue
        if run.is_known(index):
            count = int(index.count_nonzero())
        else:
            count = index.numel()
            run.assume(str(func), f"no data, took all {count} elements of a mask")
        positions.extend(_meta((count,), torch.int64) for _ in range(index.dim()))
    target = args[0]
    if "put" in func._schema.name:
        return target if func._schema.name.endswith("_") else _meta(target.shape, target.dtype)
    return torch.ops.aten.index.Tensor(_meta(target.shape, target.dtype), positions)


@_policy("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::_unique")
def _unique(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    run.assume(str(func), f"no data, took all {tensor.numel()} elements as distinct")
    inverse = _meta(tensor.shape, torch.int64)
    if func._schema.name == "aten::unique_dim":
        extent = tensor.shape[args[1]]
        return _meta(tensor.shape, tensor.dtype), _meta((extent,), torch.int64), _meta((extent,), torch.int64)
    values = _meta((tensor.numel(),), tensor.dtype)
    if func._schema.name == "aten::_unique":
        return values, inverse
    return values, inverse, _meta((tensor.numel(),), torch.int64)


@_policy("aten::bincount")
def _bincount(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    minlength = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    run.assume(str(func), f"no data, took {max(minlength, 1)} bins")
    return _meta((max(minlength, 1),), torch.int64)


@_policy("aten::one_hot")
def _one_hot(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    classes = args[1] if len(args) > 1 else -1
    if classes < 0:
        classes = 2
        run.assume(str(func), "no data, took 2 classes")
    return _meta((*args[0].shape, classes), torch.int64)


@_policy("aten::repeat_interleave")
def _repeat_interleave(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    repeats = args[1] if len(args) > 1 else args[0]
    if not isinstance(repeats, torch.Tensor) or kwargs.get("output_size") is not None or run.is_known(repeats):
        return NO_OPINION
    run.assume(str(func), "no data, took one repeat each")
    return _meta(args[0].shape, args[0].dtype if len(args) > 1 else torch.int64)


@_policy("aten::split_with_sizes", "aten::split")
def _split(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Sizes that were read from made-up values need not add up: the extent is then shared out evenly."""
    tensor, sizes = args[0], args[1]
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    extent = tensor.shape[dim]
    if not isinstance(sizes, (list, tuple)) or sum(sizes) == extent or not run.gave_values:
        return NO_OPINION
    share, rest = divmod(extent, len(sizes))
    even = [share + (position < rest) for position in range(len(sizes))]
    run.assume(str(func), f"no data, took sizes {even}")
    return torch.ops.aten.split_with_sizes(tensor, even, dim)


@_policy("aten::_grouped_mm", "aten::_scaled_grouped_mm")
def _grouped_mm(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The shapes of a grouped product; the meta kernel takes bfloat16 alone."""
    left, right = args[0], args[1]
    wanted = kwargs.get("out_dtype") or (args[4] if len(args) > 4 and isinstance(args[4], torch.dtype) else None)
    dtype = wanted or left.dtype
    if left.dim() == 2 and right.dim() == 2:
        offsets = kwargs.get("offs", args[2] if len(args) > 2 else None)
        groups = offsets.shape[0] if offsets is not None else 1
        return _meta((groups, left.shape[0], right.shape[1]), dtype)
    if left.dim() == 3 and right.dim() == 3:
        return _meta((left.shape[0], left.shape[1], right.shape[2]), dtype)
    return _meta((left.shape[-2], right.shape[-1]), dtype)


@_policy("aten::to", "aten::_to_copy", "aten::cpu")
def _leave(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Code that asks for the CPU is about to look at values: give it ones."""
    device = kwargs.get("device") or next((value for value in args if isinstance(value, torch.device)), None)
    tensor = args[0]
    if device is None or device.type != "cpu" or tensor.numel() > MADE_UP_LIMIT or not tensor.is_meta:
        return NO_OPINION
    dtype = kwargs.get("dtype") or next((value for value in args if isinstance(value, torch.dtype)), None)
    run.assume(str(func), "values asked for on the CPU, took ones")
    return run.made_up(_meta(tensor.shape, dtype or tensor.dtype))


@_policy("aten::_pack_padded_sequence")
def _pack(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lengths that are known give the true batch sizes, which must stay on the CPU."""
    padded, lengths = args[0], args[1]
    if not run.is_known(lengths):
        return NO_OPINION
    packed, batch_sizes = func(torch.zeros((*padded.shape[:2], 1)), lengths, *args[2:])
    return _meta((packed.shape[0], *padded.shape[2:]), padded.dtype), batch_sizes


@_policy("aten::_pad_packed_sequence")
def _pad(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    packed, batch_sizes = args[0], args[1]
    if not run.is_known(batch_sizes):
        return NO_OPINION
    padded, lengths = func(torch.zeros((packed.shape[0], 1)), batch_sizes, *args[2:])
    return _meta((*padded.shape[:2], *packed.shape[1:]), packed.dtype), lengths


@_policy("aten::scaled_dot_product_attention")
def _attention(run: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The fused kernel's output lies in memory as its query does; the meta kernel forgets that.

    It matters: a transpose back is then free, and `contiguous` after it is no operation.
    """
    query, key, value = args[:3]
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    dropout = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
    fused = (
        query.dim() == key.dim() == value.dim() == 4
        and query.shape[-1] == key.shape[-1] == value.shape[-1]
        and query.shape[0] == key.shape[0]
        and (query.shape[1] == key.shape[1] or kwargs.get("enable_gqa", False))
        and (mask is None or mask.dim() in (2, 4))
        and not dropout
    )
    return torch.empty_like(query, device="meta") if fused else NO_OPINION
