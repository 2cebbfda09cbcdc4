"""WRITING TRACES: captures passes of a running model with torch's profiler and labels every module call (torch).

Belongs here: starting and stopping the profiler safely, labelling and timing module calls, naming files.
Does not: reading traces back (`assay.trace.read`) and messages about captures (`assay.api.capture`).
"""
