"""Child processes that can't be left behind: each ends with the demo, even when the demo is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_BOUND = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the demo is gone already")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the program that it is given, to be killed when its parent dies. Were it done between fork and exec
(``preexec_fn``), a Ctrl-C that comes in that moment would be lost: Python drops what is raised in hooks of a fork."""

Process = subprocess.Popen[bytes]


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str]) -> Process:
    """Start it with what it says in ``log``. Settings for Tachograph in the caller's environment are not handed on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH")}
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=kept | dict(env),
            start_new_session=True,  # Ctrl-C is for the demo, which ends the others in order
        )


def end(processes: Iterable[Process], how: signal.Signals = signal.SIGTERM, within_s: float = 10.0) -> None:
    """Ask them all, also those that are stopped (SIGSTOP), wait ``within_s`` for all, and kill what is still there."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)
    until_s = time.monotonic() + within_s
    for process in processes:
        try:
            process.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(log: Path, num_lines: int = 5) -> str:
    """The last lines of a log; empty where there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-num_lines:])
