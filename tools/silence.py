"""Run a command in a pseudo-terminal and print its longest silence and the progress it showed.

Usage: python tools/silence.py assay cost examples/resnet.py::load_model
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

COLUMNS = 80
_ELAPSED = re.compile(r"\s+(\d+ min )?\d+ s\b.*")
_BAR = re.compile(r"^[█░]+\s+|^\[[#-]+\]\s")


def record(command: list[str]) -> tuple[list[tuple[float, bytes]], float, int]:
    """What the command wrote and when, in seconds since its start; its duration; its exit code."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"TERM": "xterm"}
    begin = time.monotonic()
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=variables)
    os.close(child)
    written: list[tuple[float, bytes]] = []
    while select.select([parent], [], [], None)[0]:
        try:
            data = os.read(parent, 1 << 16)
        except OSError:  # the other side was closed
            break
        written.append((time.monotonic() - begin, data))
    code = process.wait()
    os.close(parent)
    return written, time.monotonic() - begin, code


def silences(written: list[tuple[float, bytes]], end_s: float) -> list[tuple[float, float]]:
    """The spans without output as (seconds, when they began), the longest first."""
    times = [0.0, *(at for at, _ in written), end_s]
    return sorted(((after - before, before) for before, after in itertools.pairwise(times)), reverse=True)


def progress_lines(written: list[tuple[float, bytes]]) -> list[str]:
    """One progress line per stage, the last that was drawn of it."""
    text = b"".join(data for _, data in written).decode(errors="replace")
    lines = re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", text)
    return list({_ELAPSED.sub("", _BAR.sub("", line)): line for line in lines}.values())


def main(command: list[str]) -> int:
    """Run the command and print what it showed."""
    written, end_s, code = record(command)
    (longest, at), *_ = silences(written, end_s)
    head = f"exit {code}, {end_s:.1f} s, longest silence {longest:.1f} s (from {at:.1f} s on)"
    lines = [f"{' '.join(command)}: {head}", *(f"    {line}" for line in progress_lines(written))]
    sys.stdout.write("\n".join([*lines, ""]))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
