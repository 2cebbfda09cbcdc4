"""Runs `assay` in forks of one process that has imported what the commands need, each with a terminal or a pipe.

Started by `screens.py` as a program. Reads one JSON request per line from stdin, such as
`{"arguments": ["env"], "columns": 80, "both": false}`, and answers each with one line: what was printed on stdout and
on stderr, the exit code, and whether torch was imported. Without columns, stdout is a pipe; with `both`, stderr is
the same stream.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import math
import os
import struct
import sys
import tempfile
import termios
from typing import Any

from assay.cli import progress
from assay.cli.main import main

PACKAGES = ("assay", "numpy", "rich")
"""What one command imported is imported before the next is forked."""


def answer(arguments: list[str], columns: int | None, both: bool) -> dict[str, Any]:
    """What `assay` prints with `arguments` on a terminal of `columns` columns, or in a pipe."""
    reading, writing = os.pipe() if columns is None else _terminal(columns)
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as imports:
        child = os.fork()
        if child == 0:
            _run(arguments, writing, writing if both else errors.fileno(), imports.fileno())
        os.close(writing)
        out = _read(reading)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        names, err = _content(imports.fileno()), _content(errors.fileno())
    _import_the_same(names.split())
    return {"out": out.replace("\r\n", "\n"), "err": err, "code": code, "torch": "torch" in names.split()}


def _terminal(columns: int) -> tuple[int, int]:
    reading, writing = os.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return reading, writing


def _run(arguments: list[str], *streams: int) -> None:
    """Replace the standard streams, run the command and end the process."""
    out, err, imports = streams
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.close(out)
    code: object = 70
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(imports, " ".join(sys.modules).encode())
        os._exit(code if isinstance(code, int) else 0)


def _read(descriptor: int) -> str:
    chunks = []
    with contextlib.suppress(OSError):  # how Linux reports that a terminal was closed
        while chunk := os.read(descriptor, 1 << 16):
            chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks).decode()


def _content(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, encoding="utf-8", closefd=False) as file:
        return file.read()


def _import_the_same(names: list[str]) -> None:
    """Import what a command imported, but never torch: commands that need it are few."""
    if "torch" in names and "torch" not in sys.modules:
        return
    for name in names:
        if name.partition(".")[0] in PACKAGES:
            importlib.import_module(name)


if __name__ == "__main__":
    progress.PRINTED_AFTER_S = math.inf  # on a slow machine, more stages would be printed
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(**json.loads(line))) + "\n")
        sys.stdout.flush()
