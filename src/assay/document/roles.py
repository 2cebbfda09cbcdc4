"""The roles of stored tensors; a role is empty if the file does not state it."""

from __future__ import annotations

from collections.abc import Collection

PARAMETER = "parameter"
BUFFER = "buffer"
ATTRIBUTE = "attribute"
"""A tensor of a module that is neither a parameter nor a buffer."""
CONSTANT = "constant"
"""A tensor of the code, not of a module."""
ROLES = (PARAMETER, BUFFER, ATTRIBUTE, CONSTANT)
UNLISTED = (ATTRIBUTE, CONSTANT)
"""The tensors that neither `parameters()` nor `buffers()` of the loaded model yields."""


def joint_role(roles: Collection[str]) -> str:
    """The role of a tied tensor: a parameter if it is one under any of its names; empty if unknown."""
    return next((role for role in ROLES if role in roles), "")
