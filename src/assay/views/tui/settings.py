"""What the explorer remembers between two runs: labels, keymap, theme. One small file, written whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from assay import atomic, host
from assay.errors import AssayError
from assay.views.tui.labels import Labels

NAME = "explore.json"


class ExplorerSettings(Struct, frozen=True, omit_defaults=True):
    """The file's contents."""

    labels: dict[str, Labels] = field(default_factory=dict)
    """By tab."""
    keymap: dict[str, str] = field(default_factory=dict)
    """Ids of bindings with the keys they are to have: `{"fold-all": "x,ctrl+z"}`."""
    theme: str = ""
    aligned: bool = True


def settings_path() -> Path:
    """The settings file, in the user's configuration directory."""
    return host.config_directory() / NAME


def load(path: Path) -> tuple[ExplorerSettings, str]:
    """The settings, and one line about what was wrong with them where something was."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ExplorerSettings(), ""
    except OSError as error:
        return ExplorerSettings(), f"settings not read: {path}: {error.strerror or error}"
    try:
        return msgspec.json.decode(data, type=ExplorerSettings), ""
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return ExplorerSettings(), f"settings ignored: {path} is damaged: {error}"


def save(settings: ExplorerSettings, path: Path) -> str:
    """Write the settings; one line where that failed."""
    try:
        atomic.make_directory(path.parent)
        atomic.write_bytes(path, msgspec.json.format(msgspec.json.encode(settings), indent=2))
    except AssayError as error:
        return f"settings not saved: {error}"
    return ""
