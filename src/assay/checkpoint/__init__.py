"""Checkpoint files: every tensor with its byte range, read from headers only; no code from a file is run.

Belongs here: one reader per format, the pickle interpreter they share, local and remote files, and the statistics of
weights (`statistics`). Does not belong here: formatting. The entry point is `open.open_checkpoint`.
"""
