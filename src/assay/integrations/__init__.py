"""Plugins and hooks for other programs, such as pytest and pre-commit; importing one does not import torch."""
