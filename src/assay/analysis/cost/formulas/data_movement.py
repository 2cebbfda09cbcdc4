"""Views, copies, gathers, scatters and fills: no arithmetic, unless values are accumulated."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from assay.analysis.cost.bytes import gathered, no_traffic, outputs_only, overwritten, scattered
from assay.analysis.cost.categories import DATA_MOVEMENT
from assay.analysis.cost.reading import items, numel, operand
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_operand
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

VIEWS = """
view view_as reshape reshape_as _reshape_alias _unsafe_view flatten unflatten ravel squeeze unsqueeze
transpose t permute movedim moveaxis swapaxes swapdims mT mH numpy_T matrix_H adjoint expand expand_as
broadcast_to broadcast_tensors as_strided slice select narrow split split_with_sizes chunk unbind unfold
diagonal linalg_diagonal tensor_split hsplit vsplit dsplit unsafe_split unsafe_split_with_sizes
unsafe_chunk detach alias lift lift_fresh view_as_real view_as_complex real imag conj _conj _neg_view
resolve_conj resolve_neg atleast_1d atleast_2d atleast_3d contiguous meshgrid positive values _values
indices _indices crow_indices col_indices ccol_indices row_indices data _nested_view_from_buffer
_nested_view_from_jagged _nested_get_values _nested_get_offsets _nested_get_lengths _nested_get_min_seqlen
_nested_get_max_seqlen _nested_get_jagged_dummy _nested_get_ragged_idx _fw_primal _make_dual _unpack_dual
requires_grad_ slice_inverse unflatten_dense_tensors _remove_batch_dim _add_batch_dim to type_as
pin_memory _pin_memory
"""
"""No traffic if the result shares storage with an input, otherwise a copy (`reshape`, `to`)."""

COPIES = """
clone _to_copy copy cat concat concatenate stack _stack hstack vstack dstack column_stack row_stack
block_diag repeat tile repeat_interleave flip fliplr flipud roll rot90 constant_pad_nd pad _pad_enum
_pad_circular reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
replication_pad3d pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle tril triu diag
diag_embed diagflat one_hot lift_fresh_copy detach_copy expand_copy permute_copy _reshape_alias_copy
_reshape_copy transpose_copy t_copy squeeze_copy unsqueeze_copy view_copy view_as_real_copy
view_as_complex_copy alias_copy as_strided_copy unfold_copy _conj_copy _neg_view_copy values_copy
indices_copy _values_copy _indices_copy crow_indices_copy col_indices_copy unbind_copy split_copy
split_with_sizes_copy slice_scatter select_scatter diagonal_scatter as_strided_scatter slice_backward
select_backward diagonal_backward unfold_backward complex _pack_padded_sequence _pad_packed_sequence
pad_sequence _pack_padded_sequence_backward _copy_from _copy_from_and_resize _cast_Byte _cast_Char
_cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _autocast_to_full_precision
_autocast_to_reduced_precision cpu cuda chalf to_dense _to_dense to_mkldnn mkldnn_reorder_conv2d_weight
mkldnn_reorder_conv3d_weight _mkldnn_reshape _mkldnn_transpose to_padded_tensor nested_to_padded_tensor
_nested_from_padded _nested_from_padded_and_nested_example _nested_from_padded_tensor
_nested_tensor_from_mask _nested_tensor_from_tensor_list _jagged_to_padded_dense_forward
_padded_dense_to_jagged_forward _nested_select_backward masked_scatter flatten_dense_tensors _chunk_cat
_lazy_clone to_dense_backward to_mkldnn_backward _cudnn_rnn_flatten_weight combinations _foreach_clone
_to_cpu item _local_scalar_dense _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu
_dyn_quant_pack_4bit_weight masked_scatter_backward gather_backward vander int_repr
_nested_view_from_buffer_copy _nested_view_from_jagged_copy _nested_get_values_copy fft_fftshift
fft_ifftshift masked_select_backward ccol_indices_copy row_indices_copy _fw_primal_copy _make_dual_copy
_pack_sequence _nested_tensor_from_mask_left_aligned _reshape_from_tensor tensor quantized::cat
quantized::cat_relu mkldnn::_reorder_linear_weight mkldnn::_reorder_convolution_weight
mkldnn::_reorder_convolution_transpose_weight mkldnn::_reorder_mkldnn_rnn_layer_weight
mkl::_mkl_reorder_linear_weight inductor::_reinterpret_tensor inductor::_alloc_from_pool
export::access_subclass_inner_tensor
"""
"""Every element is read and written once."""

PADDING_BACKWARDS = """
reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
replication_pad2d_backward replication_pad3d_backward
"""
"""One addition per gradient element, to the element it was padded from."""

ACCUMULATED = {
    "_unsafe_masked_index_put_accumulate": "values",
    "scatter_add scatter_reduce": "index",
    "index_add index_reduce": "source",
}
"""Op names with an operand; one addition per element of that operand."""

GATHERS = """
index index_select gather take take_along_dim _unsafe_index _unsafe_masked_index slice_copy select_copy
narrow_copy diagonal_copy
"""
"""Only the selected elements of the source are read."""

FILLS = "fill_ zero_ copy_ _foreach_copy_ _foreach_zero_ _no_grad_fill_ _no_grad_zero_ fill_diagonal_"
"""The target is written without being read."""

FACTORIES = """
zeros ones full arange linspace logspace eye scalar_tensor tril_indices triu_indices range hann_window
hamming_window blackman_window bartlett_window kaiser_window from_file fft_fftfreq fft_rfftfreq
_dim_arange _shape_as_tensor as_tensor _list_to_tensor _nested_tensor_size _nested_tensor_strides
_nested_tensor_storage_offsets _efficientzerotensor _spdiags sparse_coo_tensor
"""
TEMPLATED = "zeros_like ones_like full_like new_zeros new_ones new_full zero fill _foreach_zero"
UNFILLED = """
empty empty_like empty_strided empty_permuted new_empty new_empty_strided empty_quantized
_empty_affine_quantized _empty_per_channel_affine_quantized resize resize_ resize_as resize_as_
_resize_output _resize_output_ set set_ set_data as_strided_ squeeze_ unsqueeze_ transpose_ t_ swapaxes_
swapdims_ detach_ _new_zeros_with_same_feature_meta
"""
"""Memory is allocated or relabelled but not written."""

PRIMS_VIEWS = """
as_strided broadcast_in_dim collapse_view conj real imag split_dim squeeze transpose view_of view_of_dtype
reshape collapse
"""
PRIMS_COPIES = """
cat clone convert_element_type copy_strided copy_to device_put fill rev as_strided_scatter item
maximum_value minimum_value resize
"""


def _extent_of(source: str) -> Callable[[OpKind], int]:
    """A function that returns the number of elements of the named operand."""
    return lambda kind: numel(operand(kind, source))


def _assigned(kind: OpKind) -> int:
    """The number of elements that an indexed assignment writes: one per value, or per index for a single value."""
    values, target, indices = operand(kind, "values"), operand(kind, "self"), items(kind, "indices")
    if numel(values) > 1 or not indices:
        return numel(values)
    if any(index.dtype in ("bool", "uint8") for index in indices):
        return numel(target)
    return max(numel(index) for index in indices) * prod(target.shape[len(indices) :])


register(VIEWS, category=DATA_MOVEMENT)(free)
register(COPIES, category=DATA_MOVEMENT)(free)
register(GATHERS, category=DATA_MOVEMENT, traffic=gathered("self"))(free)
register(FILLS, category=DATA_MOVEMENT, traffic=overwritten)(free)
register(FACTORIES, category=DATA_MOVEMENT)(free)
register(TEMPLATED, category=DATA_MOVEMENT, traffic=outputs_only)(free)
register(UNFILLED, category=DATA_MOVEMENT, traffic=no_traffic)(free)
register(PRIMS_VIEWS, PRIMS_COPIES, "full iota scalar_tensor", category=DATA_MOVEMENT, namespace="prims")(free)
register("full_like", category=DATA_MOVEMENT, traffic=outputs_only, namespace="prims")(free)
register("empty empty_permuted empty_strided", category=DATA_MOVEMENT, traffic=no_traffic, namespace="prims")(free)


@register(
    "index_put _index_put_impl _unsafe_index_put",
    category=DATA_MOVEMENT,
    traffic=scattered(_assigned, reads_target=False),
)
def index_put(kind: OpKind) -> Work:
    """No arithmetic, or one addition per value if `accumulate` is set."""
    return Work(pointwise=numel(operand(kind, "values")) if kind.attributes.get("accumulate") else 0)


@register("scatter put", category=DATA_MOVEMENT, traffic=scattered(_extent_of("index"), reads_target=False))
def scatter(kind: OpKind) -> Work:
    """No arithmetic, or one op per index if values are reduced or accumulated."""
    combined = bool(kind.attributes.get("reduce") or kind.attributes.get("accumulate"))
    return Work(pointwise=numel(operand(kind, "index")) if combined else 0)


def _filled_rows(kind: OpKind) -> int:
    target, dim = operand(kind, "self"), int(kind.attributes["dim"])
    return numel(target) // max(1, target.shape[dim]) * numel(operand(kind, "index"))


for _name, _extent in {"index_copy": _extent_of("source"), "index_fill": _filled_rows}.items():
    register(_name, category=DATA_MOVEMENT, traffic=scattered(_extent, reads_target=False))(free)
for _names, _source in ACCUMULATED.items():
    _traffic = scattered(_extent_of(_source), reads_target=True)
    register(_names, category=DATA_MOVEMENT, traffic=_traffic)(per_operand(1, _source))
register(PADDING_BACKWARDS, category=DATA_MOVEMENT)(per_operand(1, "grad_output"))
register("index_select_backward _gather_sparse_backward", category=DATA_MOVEMENT)(per_operand(1, "grad"))
