"""HOW COSTS GROW: each as an exact polynomial in the sizes of the inputs, found from a few captures.

Belongs here: polynomials, laws, and finding them in samples. Does not: running a model, choosing sizes for it.
"""
