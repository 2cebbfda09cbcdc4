"""Categories of ops, by which costs can be grouped. Every formula has one."""

from __future__ import annotations

CONVOLUTION = "Convolution"
LINEAR = "Linear"
MATMUL = "MatMul"
ATTENTION = "Attention"
RECURRENT = "Recurrent"
NORMALIZATION = "Normalization"
ACTIVATION = "Activation"
ELEMENT_WISE = "ElementWise"
REDUCTION = "Reduction"
SORTING = "Sorting"
POOLING = "Pooling"
EMBEDDING = "Embedding"
DATA_MOVEMENT = "DataMovement"
RESAMPLING = "Resampling"
FFT = "FFT"
SPARSE = "Sparse"
QUANTIZED = "Quantized"
LINEAR_ALGEBRA = "LinearAlgebra"
LOSS = "Loss"
OPTIMIZER = "Optimizer"
RANDOM = "Random"
COMMUNICATION = "Communication"
CONTROL = "Control"
CUSTOM = "Custom"
OTHER = "Other"

CATEGORIES = (
    CONVOLUTION, LINEAR, MATMUL, ATTENTION, RECURRENT, NORMALIZATION, ACTIVATION, ELEMENT_WISE, REDUCTION,
    SORTING, POOLING, EMBEDDING, DATA_MOVEMENT, RESAMPLING, FFT, SPARSE, QUANTIZED, LINEAR_ALGEBRA, LOSS,
    OPTIMIZER, RANDOM, COMMUNICATION, CONTROL, CUSTOM, OTHER,
)  # fmt: skip
"""All categories, in the order in which tables list them."""
