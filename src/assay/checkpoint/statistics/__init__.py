"""Statistics over the bytes of tensors: a native kernel with a numpy reference, partials that merge, engines.

Nothing here imports torch or opens files: bytes come through a callback, results are plain structs.
"""
