"""`assay env`: versions and hardware for a bug report, without user names, host names or paths."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import click

from assay import host, units
from assay.cli.streams import is_utf8
from assay.version import __version__
from assay.views.plain import plain

_PACKAGES = ("torch", "transformers", "safetensors", "numpy", "msgspec", "click", "rich", "textual", "ray")


def _version(package: str) -> str | None:
    """The installed version, read without importing the package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _facts() -> dict[str, Any]:
    """Versions and hardware by name; None if not installed or unknown."""
    from assay.machine import hardware

    return {
        "assay": __version__,
        "python": f"{host.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        **{package: _version(package) for package in _PACKAGES},
        "cpu": hardware.processor(),
        "cores": host.processors(),
        "memory_bytes": hardware.memory_bytes(),
        "cuda_devices": hardware.board_names(),
    }


_TITLES_AND_FORMATS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "cores": ("cores", units.exact),
    "memory_bytes": ("memory", units.size),
    "cuda_devices": ("cuda devices", lambda names: ", ".join(names) if names else units.UNKNOWN),
    **{package: (package, lambda version: version or "not installed") for package in _PACKAGES},
}


def _block(facts: dict[str, Any]) -> str:
    lines = []
    for key, value in facts.items():
        title, text_of = _TITLES_AND_FORMATS.get(key, (key, lambda text: text or units.UNKNOWN))
        lines.append(f"{title:<14}{text_of(value)}")
    return "\n".join(lines)


@click.command()
@click.option(
    "--format", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def env(format: str) -> None:
    """Print versions and hardware, to paste into a bug report.

    Imports none of the packages it lists; anything unknown is shown as a dash.
    """
    facts = _facts()
    text = json.dumps(facts, indent=2) if format == "json" else _block(facts)
    click.echo((text if is_utf8(sys.stdout) else plain(text)).encode())
