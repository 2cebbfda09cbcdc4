"""The start of the `assay` command, also as `python -m assay`: from here on, Ctrl-C ends it with one line."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

_INTERRUPTED = 130
"""As in `assay.errors`, which is not imported yet."""


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    try:
        from assay.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("assay: interrupted\n")
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # the interpreter prints a traceback if it is interrupted at exit


if __name__ == "__main__":
    main()
