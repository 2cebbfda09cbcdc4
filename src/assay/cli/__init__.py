"""The command line: one thin file a command, found by name in `main`.

Belongs here: options, narration, exit codes. Does not: figures, file formats, anything that runs a model.
"""
