"""The check of processes that can't be woken: in state D, waiting for a disk or a driver, look after look."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from tachograph_agent.health.finding import BlindError, Finding

NUM_LOOKS = 5
MAX_TOLD = 10
PF_KTHREAD = 0x00200000
_STAT = re.compile(rb"^\d+ \((.*)\) (\S) ", re.DOTALL)
_FLAGS, _START = 6, 19
"""Fields counted from the state: the kernel's flags, and the start in ticks since boot, by which a number that is used
anew is another process (proc_pid_stat(5))."""


class StuckProcesses:
    """Looks at every process below ``proc``. The kernel's own threads are left out: theirs to sleep so."""

    name = "stuck"
    every_s = 20.0
    timeout_s = 10.0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._kernels: set[str] = set()
        """The kernel's threads, thousands on a large node: looked at once, then known by number."""

    def look(self) -> Iterable[Finding]:
        """A finding for each process in state D, the first few by number."""
        try:
            numbers = {name for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - thousands of names
        except OSError as error:
            raise BlindError(f"{self._proc}: {error.strerror}") from error
        if "1" not in numbers:
            raise BlindError(
                f"{self._proc} doesn't show the processes of others (hidepid); those that hang aren't seen"
            )
        self._kernels &= numbers
        found = [finding for number in sorted(numbers - self._kernels, key=int) if (finding := self._of(number))]
        return found[:MAX_TOLD]

    def _of(self, number: str) -> Finding | None:
        try:
            with open(f"{self._proc}/{number}/stat", "rb") as file:  # noqa: PTH123 - thousands of files
                raw = file.read()
        except OSError:
            return None  # it has ended
        match = _STAT.match(raw)
        fields = raw[match.start(2) :].split() if match is not None else []
        if match is None or len(fields) <= _START or not fields[_FLAGS].isdigit():
            return None
        if int(fields[_FLAGS]) & PF_KTHREAD:
            self._kernels.add(number)
            return None
        if match[2] != b"D":
            return None
        name = match[1].decode("utf-8", errors="replace")
        return Finding(
            "stuck",
            "warning",
            f"process {name} ({number}) has been in state D for {NUM_LOOKS} looks, {self.every_s:g} s apart",
            int(number),
            subject=f"{number} {fields[_START].decode()}",
            num_looks=NUM_LOOKS,
            extra={"process": name},
        )
