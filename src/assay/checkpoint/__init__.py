"""CHECKPOINTS: where every tensor of a file lies, told from headers and byte ranges; no code from it runs.

Belongs here: one reader a format, the pickle machine they share, local and remote files. Does not: reading
the numbers themselves, statistics, or formatting. `open.open_checkpoint` is the door.
"""
