"""Scaling formulas: each cost as an exact polynomial of the input sizes, derived from a few captures.

Belongs here: polynomials, scaling formulas, and fitting them to samples. Does not: running a model at chosen sizes.
"""
