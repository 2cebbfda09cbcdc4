"""The `assay` command line: one thin file per command, registered by name in `main`.

Belongs here: options, messages on stderr, exit codes. Does not: computations, file formats, running models.
"""
