"""TORCHSCRIPT FILES, RUN ON SHAPES: their serialized code is interpreted, never handed to torch.jit.

`read` builds a model whose modules run that code on tensors without data. Each pass is bounded in steps, calls, ops
and memory, and every op is on a list of those that only compute. Loading a trusted file belongs in `sources.stored`.
"""
