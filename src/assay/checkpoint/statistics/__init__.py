"""Statistics of tensors from their bytes: a native kernel with a numpy reference, mergeable partials, engines.

Nothing here imports torch or opens files (except `journal`): a callback reads the bytes, results are plain structs.
"""
