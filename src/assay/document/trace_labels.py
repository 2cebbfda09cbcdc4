"""The contract between writing and reading a trace: labels of module calls, and facts about the capture.

A label is the name of one complete event (`ph` X, whatever its `cat`) that spans one call of one module:
`assay:layer1.0.conv1`, `assay:.` for the model itself. Paths are percent-encoded because Kineto writes quotes
unescaped, replaces names that are not ASCII by "unknown" and drops newlines. What labels cannot carry is one
base64 text of JSON under the root key `assay`, since Kineto also breaks escapes inside metadata.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

import msgspec

PREFIX = "assay:"
ROOT = PREFIX + "."
METADATA_KEY = "assay"
SCHEMA = 1

_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]")


class TracedModule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A module that was called while the trace was written."""

    path: str
    """As `named_modules` says; empty for the model itself, `parent.(Class)` for one created in forward."""
    class_name: str
    aliases: tuple[str, ...] = ()
    """Its other paths, where one module has several names."""
    shapes: tuple[int, ...] = ()
    """For each call in the order of their beginning, an index into `TraceFacts.shapes`; -1 is not known."""


class TraceFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known about a captured trace beside its events."""

    model_name: str
    pass_number: int
    model_class: str = ""
    covers: str = "forward"
    """`forward`: one call of the model; `block`: everything inside a `with` block."""
    error: str | None = None
    """The class of the exception that ended it."""
    rank: int | None = None
    device: str = "cpu"
    started_ns: int | None = None
    """Unix time at the start."""
    settings: dict[str, bool | int | str] = {}
    """The profiler's switches: record_shapes, profile_memory, with_stack, cuda and others."""
    versions: dict[str, str] = {}
    """Of assay, torch and python."""
    modules: tuple[TracedModule, ...] = ()
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """The distinct inputs of calls: for each tensor among the arguments its sizes."""
    notes: tuple[str, ...] = ()
    """What a reader should know, such as compiled regions that hide their layers."""
    schema: int = SCHEMA


def encode_path(path: str) -> str:
    """The label of the module at `path`.

    >>> encode_path('blocks.a"b'), encode_path("")
    ('assay:blocks.a%22b', 'assay:.')
    """
    if not path:
        return ROOT
    if path == ".":
        return PREFIX + "%2E"
    raw = path.encode("utf-8", "surrogatepass")
    return PREFIX + _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")


def decode_path(label: str) -> str | None:
    """The module path that a label says; None where the name is not a label."""
    if not label.startswith(PREFIX):
        return None
    if label == ROOT:
        return ""
    return unquote_to_bytes(label[len(PREFIX) :]).decode("utf-8", "surrogatepass")


def encode_facts(facts: TraceFacts) -> str:
    """The text to keep under `METADATA_KEY`: base64 of JSON, so plain ASCII without quotes or backslashes."""
    return base64.b64encode(msgspec.json.encode(facts)).decode("ascii")


def decode_facts(text: str) -> TraceFacts | None:
    """The facts in a text from `METADATA_KEY`; None where it is none of ours or was damaged."""
    try:
        return msgspec.json.decode(base64.b64decode(text, validate=True), type=TraceFacts)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
