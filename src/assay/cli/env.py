"""`assay env`: what a bug report needs to know, without names of people, hosts or places."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import click

from assay import host, units
from assay.version import __version__

_PACKAGES = ("torch", "transformers", "safetensors", "numpy", "msgspec", "click", "rich", "textual", "ray")


def _version(package: str) -> str | None:
    """The installed version, read without importing the package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _facts() -> dict[str, Any]:
    """Everything the block tells; None is what is not installed or not known."""
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


_SHOWN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "cores": ("cores", units.exact),
    "memory_bytes": ("memory", units.size),
    "cuda_devices": ("cuda devices", lambda names: ", ".join(names) if names else units.UNKNOWN),
    **{package: (package, lambda version: version or "not installed") for package in _PACKAGES},
}


def _block(facts: dict[str, Any]) -> str:
    lines = []
    for key, value in facts.items():
        title, show = _SHOWN.get(key, (key, lambda text: text or units.UNKNOWN))
        lines.append(f"{title:<14}{show(value)}")
    return "\n".join(lines)


@click.command()
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
def env(format: str) -> None:
    """Versions and hardware, as a block to paste into a bug report.

    Nothing heavy is imported to find out; what cannot be known that way is a dash.
    """
    facts = _facts()
    text = json.dumps(facts, indent=2) if format == "json" else _block(facts)
    click.echo(text.encode())
