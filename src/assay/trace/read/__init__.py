"""READING TRACES: any Chrome trace as columns, and the times of layers computed from them. No torch.

Belongs here: scanning files, nesting spans, attributing time to layers, comparing traces. Does not: writing traces
(`assay.trace.write`) and displaying results (`assay.views`).
"""
