"""TRACES OF A RUNNING MODEL: torch's profiler around passes, with a label for every module call (torch).

Belongs here: starting and stopping the profiler safely, labels and clocks of module calls, names of files.
Does not: reading traces back (`traces`), and what is told about them (`assay.api.capture`).
"""
