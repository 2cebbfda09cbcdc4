"""Other readers of traces, each in a separate process: CPU seconds and peak memory of one load, as JSON.

python traces_peers.py NAME TRACE        with an interpreter that has the peer installed
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path


def hta(path: str) -> Callable[[], int]:
    """HolisticTraceAnalysis: only its load, which computes no sums."""
    from hta.common.trace import Trace

    def load() -> int:
        trace = Trace(trace_files={0: path}, trace_dir="")
        trace.parse_traces(use_multiprocessing=False)
        return len(trace.get_trace(0))

    return load


def orjson(path: str) -> Callable[[], int]:
    """Only a fast parser, into Python objects."""
    import orjson as parser

    return lambda: len(parser.loads(Path(path).read_bytes())["traceEvents"])


def stdlib(path: str) -> Callable[[], int]:
    """Only the standard library's parser."""

    def load() -> int:
        with open(path) as file:
            return len(json.load(file)["traceEvents"])

    return load


PEERS = {"hta": hta, "orjson": orjson, "json": stdlib}


def main() -> None:
    """Measure one load and print it."""
    name, path = sys.argv[1:]
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    load = PEERS[name](path)
    before = time.process_time()
    count = load()
    used = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_s": used, "peak_bytes": peak, "rows": count}))


if __name__ == "__main__":
    main()
