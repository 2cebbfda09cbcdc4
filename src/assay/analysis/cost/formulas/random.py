"""Random numbers: drawing them does not count as arithmetic."""

from __future__ import annotations

from assay.analysis.cost.bytes import outputs_only, overwritten, streamed
from assay.analysis.cost.categories import RANDOM
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free

DRAWN = """
rand randn randint randperm multinomial normal bernoulli poisson binomial _standard_gamma
_sample_dirichlet _sobol_engine_draw _cudnn_init_dropout_state _philox_key_split _philox_key_fold_in
"""
LIKE = """
rand_like randn_like randint_like uniform random exponential cauchy geometric log_normal normal_functional
_philox_normal _philox_uniform
"""
"""The input only provides the shape."""
IN_PLACE = """
normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_ _no_grad_normal_
_no_grad_uniform_ _fill_mem_eff_dropout_mask_ _philox_normal_ _philox_uniform_ _sobol_engine_ff_
_sobol_engine_scramble_ _sobol_engine_initialize_state_
"""

register(DRAWN, category=RANDOM, traffic=streamed)(free)
register(LIKE, category=RANDOM, traffic=outputs_only)(free)
register(IN_PLACE, category=RANDOM, traffic=overwritten)(free)
register("normal uniform", category=RANDOM, namespace="prims")(free)
register("philox_rand", category=RANDOM, namespace="rngprims")(free)
