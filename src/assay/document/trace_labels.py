"""The contract between writing and reading a trace: labels of module calls, and facts about the capture.

A label is the name of one complete event (`ph` X, any `cat`) that spans one call of one module:
`assay:layer1.0.conv1`, or `assay:.` for the model itself. Paths are percent-encoded because Kineto writes quotes
unescaped, replaces non-ASCII names with "unknown" and drops newlines. Everything else is stored as base64-encoded
JSON under the root key `assay`, because Kineto also breaks escapes inside metadata.
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
    """Its path in `named_modules`; empty for the model itself, `parent.(Class)` if it was created in forward."""
    class_name: str
    """The name of its class."""
    aliases: tuple[str, ...] = ()
    """Other paths of the same module."""
    shapes: tuple[int, ...] = ()
    """An index into `TraceFacts.shapes` per call, in order of call start; -1 if unknown."""


class TraceFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Information about a captured trace that its events do not contain."""

    model_name: str
    """The name given to the model."""
    pass_number: int
    """The number of the pass within the capture."""
    model_class: str = ""
    """The class name of the model."""
    covers: str = "forward"
    """`forward`: one call of the model; `block`: everything inside a `with` block."""
    error: str | None = None
    """The class of the exception that ended it; null if none did."""
    rank: int | None = None
    """The rank of the process; null if it is not distributed."""
    device: str = "cpu"
    """The device on which the model ran."""
    started_ns: int | None = None
    """Unix time of the start in nanoseconds; null if unknown."""
    settings: dict[str, bool | int | str] = {}
    """The profiler's settings: record_shapes, profile_memory, with_stack, cuda and others."""
    versions: dict[str, str] = {}
    """The versions of assay, torch and python."""
    modules: tuple[TracedModule, ...] = ()
    """The modules that were called."""
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """The distinct input shapes of calls: the shape of each tensor argument."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, for example that compiled regions hide their layers."""
    schema: int = SCHEMA
    """The version of this layout."""


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
    return PREFIX + _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")


def decode_path(label: str) -> str | None:
    """The module path in a label; None if `label` is not a label."""
    if not label.startswith(PREFIX):
        return None
    if label == ROOT:
        return ""
    return unquote_to_bytes(label[len(PREFIX) :]).decode("utf-8", "surrogatepass")


def encode_facts(facts: TraceFacts) -> str:
    """The text to store under `METADATA_KEY`: base64-encoded JSON, which has no quotes or backslashes."""
    return base64.b64encode(msgspec.json.encode(facts)).decode("ascii")


def decode_facts(text: str) -> TraceFacts | None:
    """The facts in a text from `METADATA_KEY`; None if Assay did not write it or it is damaged."""
    try:
        return msgspec.json.decode(base64.b64decode(text, validate=True), type=TraceFacts)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
