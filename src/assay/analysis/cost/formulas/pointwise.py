"""Element-wise ops: a fixed number of elementary ops per output element.

An addition, product, comparison, division, root, power, exponential, logarithm or trigonometric function is one op.
Composite functions count all their steps (a sigmoid negates, exponentiates, adds and divides: 4). In-place and
`_foreach_` variants use the formula of the plain name.
"""

from __future__ import annotations

from assay.analysis.cost.categories import ACTIVATION, ELEMENT_WISE
from assay.analysis.cost.reading import all_results_numel, attribute, number, result
from assay.analysis.cost.registry import WorkRule, register, register_table
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

ELEMENTARY = """
abs absolute mul multiply div divide true_divide floor_divide neg negative reciprocal sqrt rsqrt square
pow float_power exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan arcsin arccos arctan sinh
cosh tanh asinh acosh atanh arcsinh arccosh arctanh atan2 arctan2 erf erfc erfinv lgamma digamma polygamma
mvlgamma igamma igammac i0 floor ceil round trunc fix frac sign sgn signbit copysign maximum minimum fmax
fmin fmod remainder eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and
logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift
bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__
__irshift__ where isnan isinf isfinite isposinf isneginf isreal masked_fill heaviside gcd lcm nextafter
ldexp deg2rad rad2deg clamp_min clamp_max angle conj_physical _conj_physical nan_to_num xlogy polar
special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expm1 special_log1p
special_gammaln special_digamma special_psi special_polygamma special_multigammaln special_gammainc
special_gammaincc special_i0 special_i0e special_i1 special_i1e special_ndtr special_ndtri
special_log_ndtr special_round special_xlogy special_zeta special_airy_ai special_bessel_j0
special_bessel_j1 special_bessel_y0 special_bessel_y1 special_modified_bessel_i0
special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_spherical_bessel_j0
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_t
special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he
special_laguerre_polynomial_l special_legendre_polynomial_p isin _masked_scale
_amp_foreach_non_finite_check_and_unscale _amp_update_scale frexp modf
"""
"""One op per element."""

COMPOSITE = {
    2: "clamp clip hypot sinc special_sinc special_entr special_xlog1py _add_relu",
    3: "logaddexp logaddexp2 lerp isclose allclose logit special_logit cross linalg_cross",
    4: "sigmoid special_expit",
}
"""Names by their ops per element, if more than one."""

ACTIVATIONS = {
    2: "leaky_relu prelu _prelu_kernel relu6 hardtanh hardshrink softshrink rrelu rrelu_with_noise"
    " rrelu_with_noise_functional",
    4: "elu celu selu hardsigmoid log_sigmoid log_sigmoid_forward softplus",
    5: "silu hardswish glu",
    7: "mish",
}
"""Activations by their ops per output element; those with a single op are listed above or registered below."""

BACKWARDS = {
    1: "threshold_backward",
    2: "leaky_relu_backward hardtanh_backward hardshrink_backward softshrink_backward hardsigmoid_backward"
    " rrelu_with_noise_backward native_dropout_backward _prelu_kernel_backward",
    3: "sigmoid_backward tanh_backward logit_backward elu_backward softplus_backward",
    4: "log_sigmoid_backward hardswish_backward",
    8: "silu_backward glu_backward",
    10: "gelu_backward infinitely_differentiable_gelu_backward mish_backward",
}
"""Gradients of activations by their ops per element."""

PRIMS = """
abs acos acosh add asin asinh atan atan2 atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0
bessel_j1 bitwise_and bitwise_not bitwise_or bitwise_xor cbrt ceil conj_physical cos cosh digamma div eq
erf erf_inv erfc erfcx exp exp2 expm1 floor fmax fmin fmod frexp gcd ge gt hypot igamma igammac isfinite
le lgamma log log10 log1p log2 lt maximum minimum mul ndtri ne neg nextafter pow reciprocal remainder
round rsqrt shift_left shift_right_arithmetic sign signbit sin sinh spherical_bessel_j0 sqrt sub tan tanh
trunc where zeta
"""

MULTIPLICATIVE = frozenset({"mul", "multiply", "div", "divide", "true_divide", "square", "reciprocal"})
COMPLEX_MULTIPLICATION = 6
COMPLEX_OTHER = 2


def per_element(ops: int) -> WorkRule:
    """A formula: `ops` ops per element of all outputs, more if they are complex."""
    return lambda kind: Work(pointwise=ops * _real_ops(kind) * all_results_numel(kind))


def _real_ops(kind: OpKind) -> int:
    """Real ops per op on the result's dtype: a complex product is four products and two sums."""
    if not result(kind).dtype.startswith("complex"):
        return 1
    name = kind.target.split(".")[1].removeprefix("_foreach_").rstrip("_")
    return COMPLEX_MULTIPLICATION if name in MULTIPLICATIVE else COMPLEX_OTHER


register(ELEMENTARY, category=ELEMENT_WISE)(per_element(1))
register("relu threshold", category=ACTIVATION)(per_element(1))
register(PRIMS, category=ELEMENT_WISE, namespace="prims")(per_element(1))
register_table(COMPOSITE, per_element, category=ELEMENT_WISE)
register_table(ACTIVATIONS, per_element, category=ACTIVATION)
register_table(BACKWARDS, per_element, category=ACTIVATION)


@register("gelu", category=ACTIVATION)
def gelu(kind: OpKind) -> Work:
    """5 ops per element for the exact form (erf), 9 for the tanh approximation."""
    each = 9 if attribute(kind, "approximate", "none") == "tanh" else 5
    return Work(pointwise=each * all_results_numel(kind))


@register("addcmul addcdiv", category=ELEMENT_WISE)
def add_product(kind: OpKind) -> Work:
    """Two ops per element to add a product or quotient, and one more if it is scaled."""
    return Work(pointwise=(2 + (number(kind, "value", 1) != 1)) * all_results_numel(kind))


@register("add sub subtract rsub", category=ELEMENT_WISE)
def add(kind: OpKind) -> Work:
    """One op per element, and one more if the other operand is scaled by alpha."""
    each = 1 + (number(kind, "alpha", 1) != 1)
    return Work(pointwise=each * _real_ops(kind) * all_results_numel(kind))
