"""Runs `assay` commands in forked processes with limits, and reports what each did: one job per line of stdin.

Started as a script by `test_hostile.py`; it imports torch and Assay once, so that a job costs only its own work.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from typing import Any

EXECUTED = 99
"""The exit code of a command that ran something from a file."""
CPU_LIMIT_S = 6
MEMORY_LIMIT = 2 << 30
"""Bytes of address space beyond what the process had before the fork."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "pty.spawn")


def main() -> None:
    """Warm up with the jobs given as arguments, then answer every line of stdin with one line on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    for warm in json.loads(sys.argv[1]):
        answer(warm, run_here=True)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


def answer(job: dict[str, Any], run_here: bool = False) -> dict[str, Any]:
    """Run one job and return its exit status, CPU time, peak memory and output."""
    out, err = os.path.join(job["scratch"], "out"), os.path.join(job["scratch"], "err")
    child = 0 if run_here else os.fork()
    if child == 0:
        code = _work(job, out, err, limited=not run_here)
        if run_here:
            return {}
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "out": _read(out),
        "err": _read(err),
    }


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(1 << 20)


def _work(job: dict[str, Any], out: str, err: str, limited: bool) -> int:
    os.chdir(job["folder"])
    for stream, path in ((1, out), (2, err)):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, stream)
        os.close(target)
    if limited:
        _limit()
        _watch(job["may_write"])
    from assay.cli.main import main as assay

    try:
        assay(job["arguments"])
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _limit() -> None:
    used = int(re.search(r"VmSize:\s+(\d+)", open("/proc/self/status").read())[1]) * 1024  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, used + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)


def _watch(may_write: list[str]) -> None:
    """End the process when it starts a program, connects, writes elsewhere, or loads TorchScript."""

    def stop(what: str) -> None:
        os.write(2, f"EXECUTED {what}\n".encode())
        os._exit(EXECUTED)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            stop(event)
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            path = os.path.abspath(os.fsdecode(arguments[0])) if not isinstance(arguments[0], int) else ""
            if path and not path.startswith((*may_write, "/dev/", "/proc/")):
                stop(f"open {path}")

    sys.addaudithook(hook)
    torch = sys.modules["torch"]
    for name in (
        "import_ir_module",
        "import_ir_module_from_buffer",
        "_jit_script_compile",
        "_create_method_from_trace",
    ):
        setattr(torch._C, name, lambda *_, name=name, **__: stop(name))


if __name__ == "__main__":
    main()
