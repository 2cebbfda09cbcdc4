"""This machine: what it is, which sensors it has, what it did while something ran, what was measured of it.

Nothing here imports torch; what needs it is handed in as something to call.
"""
