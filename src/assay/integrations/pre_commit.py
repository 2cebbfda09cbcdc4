"""The pre-commit hook for checkpoints: `assay check` for each file, with the options before the files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from assay.errors import OK, UsageError

SUFFIXES = (".safetensors", ".pt", ".pth", ".gguf")
"""The files that the hook checks; its `files` pattern in .pre-commit-hooks.yaml has the same."""


def main(arguments: Sequence[str]) -> int:
    """Check every file among `arguments` and return the largest exit code; all other arguments are options."""
    paths = [argument for argument in arguments if argument.endswith(SUFFIXES)]
    options = [argument for argument in arguments if argument not in paths]
    if not paths:
        sys.stderr.write(f"assay: error: no file to check: expected names that end in {', '.join(SUFFIXES)}\n")
        return UsageError.exit_code
    codes = []
    for path in paths:
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
        codes.append(subprocess.run([sys.executable, "-m", "assay", "check", *options, path], check=False).returncode)
    return max(codes, default=OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
