"""Measuring a model and its machine: passes, operations, sizes, energy, joined into one document."""
