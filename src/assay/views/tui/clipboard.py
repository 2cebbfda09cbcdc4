"""Copying: through the desktop's own clipboard where there is one, else through the terminal (OSC 52)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

TERMINAL = "the terminal (OSC 52)"
_PATIENCE_S = 2.0

_PROGRAMS = (
    ("pbcopy", ("pbcopy",), "darwin"),
    ("wl-copy", ("wl-copy",), "WAYLAND_DISPLAY"),
    ("xclip", ("xclip", "-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("xsel", "--clipboard", "--input"), "DISPLAY"),
    ("clip.exe", ("clip.exe",), "WSL_DISTRO_NAME"),
    ("clip", ("clip",), "win32"),
)
"""A program, how it is called, and the platform or variable that says it can work."""


def program(environment: Mapping[str, str], platform: str = sys.platform) -> tuple[str, ...] | None:
    """The program that copies here; None over SSH, where this machine's clipboard is not the user's."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return None
    for name, command, sign in _PROGRAMS:
        if (sign == platform or environment.get(sign)) and shutil.which(name):
            return command
    return None


def copy(text: str, through_terminal: Callable[[str], None], environment: Mapping[str, str] | None = None) -> str:
    """Copy `text`; how it was copied, as a person would be told."""
    command = program(os.environ if environment is None else environment)
    if command is not None and _run(command, text):
        return command[0]
    through_terminal(text)
    return TERMINAL


def _run(command: tuple[str, ...], text: str) -> bool:
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
