"""Policies for ops whose result depends on values, for passes without data: one short policy per op.

Sizes that depend on data take their upper bound; conditions are assumed to be true. Every assumption is recorded.
A policy gets (executor, func, args, kwargs) and returns the result, or `NOT_HANDLED` for the default behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map_only

from assay.messages import plural
from assay.sources.torchscript.branches import note_assumption, truth_to_assume

if TYPE_CHECKING:
    from assay.recorder.dataless import Dataless

NOT_HANDLED = object()
"""Returned by a policy that leaves the op to its meta kernel."""

MADE_UP_LIMIT = 1 << 20
"""Larger tensors stay on meta when they are moved to the CPU."""


Policy = Callable[["Dataless", Any, tuple[Any, ...], dict[str, Any]], Any]

TABLE: dict[str, Policy] = {}
"""The policies by the name of the op's schema; `*` stands for any namespace."""


def _policy(*names: str) -> Callable[[Policy], Policy]:
    """Register a function as the policy for the ops `names`."""

    def register(policy: Policy) -> Policy:
        for name in names:
            if name in TABLE:
                raise ValueError(f"{name} has two policies")
            TABLE[name] = policy
        return policy

    return register


def find(name: str) -> Policy | None:
    """The policy for the op `name`, or for all ops of its name in any namespace."""
    return TABLE.get(name) or TABLE.get(f"*::{name.rpartition('::')[2]}")


def _meta(shape: list[int] | tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _smallest(shape: tuple[int, ...]) -> torch.Tensor:
    """A real tensor that takes one byte."""
    return torch.zeros(1, dtype=torch.bool).expand(shape)


@_policy("aten::item", "aten::_local_scalar_dense")
def _scalar(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    dtype = args[0].dtype
    note_assumption()
    if dtype is torch.bool:
        return executor.assume_value(str(func), truth_to_assume())
    return executor.assume_value(str(func), 1.0 if dtype.is_floating_point else complex(1) if dtype.is_complex else 1)


@_policy("aten::is_nonzero", "aten::equal", "aten::allclose")
def _truth(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    note_assumption()
    return executor.assume_value(str(func), truth_to_assume())


@_policy("aten::_assert_async", "aten::_assert_scalar", "aten::_linalg_check_errors", "aten::_assert_tensor_metadata")
def _no_check(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return None


@_policy("aten::nonzero", "aten::argwhere")
def _nonzero(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    positions = _positions(executor, func, args[0])
    return positions if args[0].dim() else positions[:, :0]


@_policy("aten::nonzero_numpy", "aten::where")
def _where(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1:
        return NOT_HANDLED
    return list(_positions(executor, func, args[0]).unbind(1))


def _positions(executor: Dataless, func: Any, mask: torch.Tensor) -> torch.Tensor:
    """The positions of as many elements as can be true; known if these are all, so that loops over them work."""
    most = executor.bounds.most_true(mask)
    executor.assume_size(str(func), f"the maximum of {plural(most, 'element')}")
    if most == mask.numel() <= MADE_UP_LIMIT:
        return torch.ones(mask.shape or (1,)).nonzero()
    return _meta((most, max(mask.dim(), 1)), torch.int64)


@_policy("aten::masked_select")
def _masked_select(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, mask = args
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    copies = math.prod(shape) // max(mask.numel(), 1)
    if executor.is_known(mask):
        return _meta((int(mask.count_nonzero()) * copies,), tensor.dtype)
    size = executor.bounds.most_true(mask) * copies
    executor.assume_size(str(func), f"the maximum of {plural(size, 'element')}")
    return _meta((size,), tensor.dtype)


@_policy("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
def _index(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Masks among the indices become positions: of the true elements if known, else of all elements."""
    indices = args[1]
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NOT_HANDLED
    positions: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            positions.append(None if index is None else _meta(index.shape, index.dtype))
            continue
        if executor.is_known(index):
            count = int(index.count_nonzero())
        else:
            count = executor.bounds.most_true(index)
            executor.assume_size(str(func), f"a mask with {plural(count, 'true element')}")
        positions.extend(_meta((count,), torch.int64) for _ in range(index.dim()))
    target = args[0]
    if "put" in func._schema.name:
        return target if func._schema.name.endswith("_") else _meta(target.shape, target.dtype)
    return torch.ops.aten.index.Tensor(_meta(target.shape, target.dtype), positions)


@_policy("aten::expand_as", "aten::view_as", "aten::reshape_as")
def _shaped_as(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Known values stay known: only the shape of the other tensor matters."""
    tensor, other = args
    if not executor.is_known(tensor):
        return NOT_HANDLED
    return func(tensor, torch.empty((), dtype=other.dtype).expand(other.shape))


@_policy("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::_unique")
def _unique(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    executor.assume_size(str(func), plural(tensor.numel(), "distinct element"))
    inverse = _meta(tensor.shape, torch.int64)
    if func._schema.name == "aten::unique_dim":
        extent = tensor.shape[args[1]]
        return _meta(tensor.shape, tensor.dtype), _meta((extent,), torch.int64), _meta((extent,), torch.int64)
    values = _meta((tensor.numel(),), tensor.dtype)
    if func._schema.name == "aten::_unique":
        return values, inverse
    return values, inverse, _meta((tensor.numel(),), torch.int64)


@_policy("aten::bincount")
def _bincount(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    minlength = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    executor.assume(str(func), f"no data, assumed {plural(max(minlength, 1), 'bin')}")
    return _meta((max(minlength, 1),), torch.int64)


@_policy("aten::one_hot")
def _one_hot(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    classes = args[1] if len(args) > 1 else -1
    if classes < 0:
        classes = 2
        executor.assume(str(func), "no data, assumed 2 classes")
    return _meta((*args[0].shape, classes), torch.int64)


@_policy("aten::repeat_interleave")
def _repeat_interleave(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    repeats = args[1] if len(args) > 1 else args[0]
    if not isinstance(repeats, torch.Tensor) or kwargs.get("output_size") is not None or executor.is_known(repeats):
        return NOT_HANDLED
    executor.assume(str(func), "no data, assumed one repetition per element")
    return _meta(args[0].shape, args[0].dtype if len(args) > 1 else torch.int64)


@_policy("aten::split_with_sizes", "aten::split")
def _split(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Split evenly if the sizes were computed from made-up values and do not add up."""
    tensor, sizes = args[0], args[1]
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    size = tensor.shape[dim]
    if not isinstance(sizes, (list, tuple)) or sum(sizes) == size or not executor.made_up_values:
        return NOT_HANDLED
    share, rest = divmod(size, len(sizes))
    even = [share + (position < rest) for position in range(len(sizes))]
    executor.assume(str(func), f"no data, assumed sizes {even}")
    return torch.ops.aten.split_with_sizes(tensor, even, dim)


@_policy("aten::_grouped_mm", "aten::_scaled_grouped_mm")
def _grouped_mm(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The shapes of a grouped matrix product; the meta kernel supports only bfloat16."""
    left, right = args[0], args[1]
    out_dtype = kwargs.get("out_dtype") or (args[4] if len(args) > 4 and isinstance(args[4], torch.dtype) else None)
    dtype = out_dtype or left.dtype
    if left.dim() == 2 and right.dim() == 2:
        offsets = kwargs.get("offs", args[2] if len(args) > 2 else None)
        groups = offsets.shape[0] if offsets is not None else 1
        return _meta((groups, left.shape[0], right.shape[1]), dtype)
    if left.dim() == 3 and right.dim() == 3:
        return _meta((left.shape[0], left.shape[1], right.shape[2]), dtype)
    return _meta((left.shape[-2], right.shape[-1]), dtype)


@_policy("*::nms")
def _nms(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Non-maximum suppression, of torchvision or with the same arguments: at most every box is kept."""
    boxes, scores = args[:2] if len(args) > 1 else (None, None)
    if not isinstance(boxes, torch.Tensor) or not isinstance(scores, torch.Tensor) or len(func._schema.returns) != 1:
        return NOT_HANDLED
    if boxes.dim() != 2 or scores.shape != boxes.shape[:1]:
        return NOT_HANDLED
    executor.assume_size(str(func), f"the maximum of {plural(boxes.shape[0], 'box', 'boxes')} kept")
    return _meta((boxes.shape[0],), torch.int64)


@_policy("torchvision::roi_align", "torchvision::roi_pool", "torchvision::ps_roi_align", "torchvision::ps_roi_pool")
def _regions(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pooled regions of a feature map, one per box; all but `roi_align` return the positions too."""
    features, boxes, height, width = args[0], args[1], args[3], args[4]
    channels = features.shape[1]
    if "ps_roi" in func._schema.name:
        channels //= height * width
    shape = (boxes.shape[0], channels, height, width)
    pooled = _meta(shape, features.dtype)
    return pooled if len(func._schema.returns) == 1 else (pooled, _meta(shape, torch.int32))


@_policy("aten::to", "aten::_to_copy", "aten::cpu")
def _leave(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Code that moves a tensor to the CPU is about to read its values: return ones."""
    device = kwargs.get("device") or next((value for value in args if isinstance(value, torch.device)), None)
    tensor = args[0]
    if device is None or device.type != "cpu" or tensor.numel() > MADE_UP_LIMIT or not tensor.is_meta:
        return NOT_HANDLED
    dtype = kwargs.get("dtype") or next((value for value in args if isinstance(value, torch.dtype)), None)
    executor.assume(str(func), "values needed on the CPU, assumed ones")
    return executor.made_up(_meta(tensor.shape, dtype or tensor.dtype))


@_policy("aten::_pack_padded_sequence")
def _pack(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute the batch sizes, which must stay on the CPU, if the lengths are known."""
    padded, lengths = args[0], args[1]
    if not executor.is_known(lengths):
        return NOT_HANDLED
    packed, batch_sizes = func(_smallest((*padded.shape[:2], 1)), lengths, *args[2:])
    return _meta((packed.shape[0], *padded.shape[2:]), padded.dtype), batch_sizes


@_policy("aten::_pad_packed_sequence")
def _pad(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    packed, batch_sizes = args[0], args[1]
    if not executor.is_known(batch_sizes):
        return NOT_HANDLED
    padded, lengths = func(_smallest((packed.shape[0], 1)), batch_sizes, *args[2:])
    return _meta((*padded.shape[:2], *packed.shape[1:]), packed.dtype), lengths


@_policy("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
def _recurrent(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The shapes of a single step, repeated: the meta kernel takes milliseconds for each step of each layer."""
    if kwargs or func._overloadname != "input" or args[0].dim() != 3:
        return NOT_HANDLED
    time = 1 if args[-1] else 0  # batch first
    steps = args[0].shape[time]
    data, *rest = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), args)
    output, *states = func(data.narrow(time, 0, 1), *rest)
    result = _meta((steps, *output.transpose(0, time).shape[1:]), output.dtype)
    return result.transpose(0, time), *states


@_policy("aten::scaled_dot_product_attention")
def _attention(executor: Dataless, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Give the output the memory layout of the query, as the fused kernel does and the meta kernel does not.

    With this layout, transposing back is free and a following `contiguous` is not an op.
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
    return torch.empty_like(query, device="meta") if fused else NOT_HANDLED
