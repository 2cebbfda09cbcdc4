"""WHAT A MODEL WANTS TO BE CALLED WITH, where nobody said: its own examples, its config, its layers.

Belongs here: one file for each place that can tell, and the trial that chooses between guesses. Does
not: making the tensors.
"""
