"""Inferring a model's inputs, if none are given, from its own examples, its config, its graph or its layers.

Belongs here: one file per source of guesses, and the trial that chooses between guesses. Does not belong here:
creating the tensors.
"""
