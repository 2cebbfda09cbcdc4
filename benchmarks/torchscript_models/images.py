"""Inputs of vision models."""

import torch

from torchscript_models.registry import Inputs


def images(side: int = 32, channels: int = 3, batch: int = 1) -> Inputs:
    """One batch of images."""
    return (torch.randn(batch, channels, side, side),)
