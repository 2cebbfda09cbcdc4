"""This machine: its hardware, its sensors, samples taken while code runs, and stored measurement reports.

Nothing here imports torch; callers pass in callables that do.
"""
