"""The explorer's saved settings: labels, keymap and theme, in one small JSON file."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from assay import atomic, host
from assay.errors import AssayError
from assay.views.tui.labels import Labels

NAME = "explore.json"


class ExplorerSettings(Struct, frozen=True, omit_defaults=True):
    """The content of the settings file."""

    labels: dict[str, Labels] = field(default_factory=dict)
    """The labels of each tab."""
    keymap: dict[str, str] = field(default_factory=dict)
    """Key ids with the keys that replace their defaults: `{"fold-all": "x,ctrl+z"}`."""
    theme: str = ""
    aligned: bool = True


def settings_path() -> Path:
    """The path of the settings file, in the user's configuration directory."""
    return host.config_directory() / NAME


def load(path: Path) -> tuple[ExplorerSettings, str]:
    """The settings (defaults if they cannot be read), and a one-line warning, which is empty if all went well."""
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
    """Write the settings and return a one-line warning, which is empty if all went well."""
    try:
        atomic.make_directory(path.parent)
        atomic.write_bytes(path, msgspec.json.format(msgspec.json.encode(settings), indent=2))
    except AssayError as error:
        return f"settings not saved: {error}"
    return ""
