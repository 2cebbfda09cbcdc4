"""READING TRACES: any Chrome trace as columns, and what follows from them for layers. No torch.

Belongs here: scanning files, nesting spans, giving time to layers, comparing traces. Does not: writing a
trace, which is `assay.api.capture`, and showing figures, which is a view's.
"""
