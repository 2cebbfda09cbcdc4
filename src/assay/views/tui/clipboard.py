"""Copying text with the desktop's clipboard program if there is one, otherwise through the terminal (OSC 52)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

TERMINAL = "the terminal (OSC 52)"
_TIMEOUT_S = 2.0

_PROGRAMS = (
    ("pbcopy", ("pbcopy",), "darwin"),
    ("wl-copy", ("wl-copy",), "WAYLAND_DISPLAY"),
    ("xclip", ("xclip", "-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("xsel", "--clipboard", "--input"), "DISPLAY"),
    ("clip.exe", ("clip.exe",), "WSL_DISTRO_NAME"),
    ("clip", ("clip",), "win32"),
)
"""A program, its command line, and the platform or environment variable that it needs."""


def program(environment: Mapping[str, str], platform: str = sys.platform) -> tuple[str, ...] | None:
    """The command of the first usable clipboard program; None over SSH, where the clipboard is not the user's."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return None
    for name, command, requirement in _PROGRAMS:
        if (requirement == platform or environment.get(requirement)) and shutil.which(name):
            return command
    return None


def copy(text: str, through_terminal: Callable[[str], None], environment: Mapping[str, str] | None = None) -> str:
    """Copy `text` and return the channel for a message: a program's name or `the terminal (OSC 52)`."""
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
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
