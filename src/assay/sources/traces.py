"""Profiler traces as sources: a file, or a directory with one per pass or rank. They contain no model."""

from __future__ import annotations

import os

from assay.checkpoint.files import Files
from assay.checkpoint.formats.recognise import HEAD, is_trace
from assay.checkpoint.remote import is_url
from assay.document.trace import Trace
from assay.errors import ReadError
from assay.messages import one_line
from assay.sources.opened import Model

_SUFFIXES = (".json", ".json.gz")


def holds_traces(path: str, names: list[str], files: Files) -> bool:
    """Whether the first JSON file in the directory `path` is a trace; `names` are its files."""
    first = next((name for name in sorted(names) if name.endswith(_SUFFIXES)), None)
    if first is None or is_url(path):
        return False
    with files.region(os.path.join(path, first)) as region:
        return is_trace(region.read(0, min(HEAD, region.size)))


def read(path: str) -> list[Trace]:
    """The traces at `path`; raises `ReadError` for the first that cannot be read."""
    from assay.trace.read.parallel import (
        UnreadableTrace,
        read_traces,
        trace_files,
    )  # takes longer to import than numpy

    traces = []
    for each in read_traces(trace_files([path])):
        if isinstance(each, UnreadableTrace):
            raise ReadError(each.why)
        traces.append(each)
    return traces


def raise_no_model(path: str) -> Model:
    """Raise `ReadError`: a trace contains no model."""
    raise ReadError(f"{one_line(path)} is a profiler trace, not a model: use assay trace, or assay check")
