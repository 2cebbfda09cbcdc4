"""Control flow, checks, metadata and communication: no arithmetic, except for reductions across ranks.

The ops in the body of a higher-order op are recorded individually, so the higher-order op itself costs nothing.
"""

from __future__ import annotations

from assay.analysis.cost.bytes import no_traffic
from assay.analysis.cost.categories import COMMUNICATION, CONTROL
from assay.analysis.cost.reading import numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

HIGHER_ORDER = """
cond while_loop while_loop_stack_output scan associative_scan map map_impl wrap wrap_with_autocast
wrap_with_set_grad_enabled wrap_activation_checkpoint tag_activation_checkpoint inductor_compiled_code
dynamo_bypassing_wrapper invoke_subgraph run_const_graph strict_mode with_effects hints_wrap hints_wrapper
auto_functionalized auto_functionalized_v2 autograd_function_apply custom_function_call call_torchbind
export_tracepoint print torchbind foreach_map base_hop prim_hop_base local_map_hop checkpoint switch
"""
CHECKS = """
_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar
_functional_sym_constrain_range _functional_sym_constrain_range_for_size sym_constrain_range
sym_constrain_range_for_size sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous size
stride numel dim storage_offset is_nonzero is_same_size is_contiguous is_pinned is_floating_point
is_complex is_signed is_coalesced _nnz _dimI _dimV sparse_dim dense_dim _version result_type promote_types
can_cast record_stream _fused_sdp_choice _has_compatible_shallow_copy_type _debug_has_internal_overlap
_use_cudnn_ctc_loss _use_cudnn_rnn_flatten_weight cudnn_is_acceptable _nnpack_available
is_non_overlapping_and_dense is_strides_like_format _print _make_dep_token retain_grad retains_grad
is_leaf output_nr is_set_to _propagate_xla_data q_scale q_zero_point q_per_channel_axis qscheme
is_distributed is_inference is_conj is_neg _is_zerotensor get_device element_size is_vulkan_available warn
is_grad_enabled set_grad_enabled device _validate_sparse_coo_tensor_args _validate_sparse_csr_tensor_args
_validate_sparse_csc_tensor_args _validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args
_validate_sparse_compressed_tensor_args _validate_compressed_sparse_indices _has_same_storage_numel
_cufft_get_plan_cache_size _cufft_get_plan_cache_max_size _cufft_set_plan_cache_max_size
_cufft_clear_plan_cache _get_cpu_capability is_autocast_enabled is_autocast_cpu_enabled get_autocast_dtype
_use_miopen_ctc_loss _cslt_sparse_mm_search _nested_compute_contiguous_strides_offsets _infer_size
_size_if_not_equal broadcast_shapes backward profiler::_record_function_enter
profiler::_record_function_enter_new profiler::_record_function_exit profiler::_call_end_callbacks_on_jit_fut
prims::_make_token prims::_sink_tokens inductor::resize_storage_bytes_ debug_mode_ops::annotate prim::device
prim::layout
"""
MOVES = """
all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out all_to_all_single
broadcast broadcast_ wait_tensor isend irecv batch_p2p_ops _c10d_functional_autograd::all_gather_into_tensor
_c10d_functional_autograd::all_to_all_single _dtensor::shard_dim_alltoall
"""
REDUCES = """
all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ reduce_scatter_tensor
reduce_scatter_tensor_coalesced reduce_scatter_tensor_out _c10d_functional_autograd::reduce_scatter_tensor
"""
C10D = """
_allgather_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ alltoall_ alltoall_base_
barrier broadcast_ gather_ monitored_barrier_ recv_ recv_any_source_ scatter_ send check_for_nan
"""
C10D_REDUCES = """
_reduce_scatter_base_ allreduce_ allreduce_coalesced_ reduce_ reduce_scatter_
reduce_scatter_tensor_coalesced_
"""

register(HIGHER_ORDER, category=CONTROL, traffic=no_traffic, namespace="higher_order")(free)
register(CHECKS, category=CONTROL, traffic=no_traffic)(free)
register(MOVES, category=COMMUNICATION, namespace="_c10d_functional")(free)
register(C10D, category=COMMUNICATION, namespace="c10d")(free)


@register(REDUCES, category=COMMUNICATION, namespace="_c10d_functional")
@register(C10D_REDUCES, category=COMMUNICATION, namespace="c10d")
def reduced_across(kind: OpKind) -> Work:
    """One addition per input element, which is this rank's share of the reduction."""
    return Work(pointwise=sum(numel(one.type) for one in kind.inputs))
