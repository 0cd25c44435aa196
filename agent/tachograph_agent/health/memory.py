"""The check of memory: how much is left, how long all work stands still for it, and what the kernel killed for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from tachograph_agent.health.deltas import Deltas
from tachograph_agent.health.finding import AbsentError, Finding

WARNING_SHARE, CRITICAL_SHARE = 0.05, 0.02
WARNING_STALL_PERCENT, CRITICAL_STALL_PERCENT = 10.0, 40.0
"""Share of the last minute in which every process waited for memory (``full avg60`` of PSI)."""
_FULL = re.compile(r"^full .*\bavg60=([\d.]+)", re.MULTILINE)
_OOM = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_KB = re.compile(r"^(MemTotal|MemAvailable): +(\d+) kB$", re.MULTILINE)


class Memory:
    """Looks at ``meminfo``, ``pressure/memory`` and ``vmstat`` below ``proc``; what one lacks the others tell.

    Kills for memory are counted only where ``tells_kills``: the kernel's log, if it can be read, names each.
    """

    name = "memory"
    every_s = 15.0
    timeout_s = 10.0

    def __init__(self, proc: Path = Path("/proc"), tells_kills: Callable[[], bool] = lambda: True) -> None:
        self._proc = proc
        self._tells_kills = tells_kills
        self._deltas = Deltas()

    def look(self) -> Iterable[Finding]:
        """What is short."""
        kilobytes = {name: int(value) for name, value in _KB.findall(self._text("meminfo"))}
        if not kilobytes.get("MemTotal"):
            raise AbsentError(f"{self._proc / 'meminfo'} tells no memory")
        found = []
        if "MemAvailable" in kilobytes:
            share = kilobytes["MemAvailable"] / kilobytes["MemTotal"]
            if share < WARNING_SHARE:
                severity = "critical" if share < CRITICAL_SHARE else "warning"
                detail = f"{share:.1%} of the node's memory is available"
                found.append(Finding("memory", severity, detail, round(share, 4), subject="available"))
        stalled = _FULL.search(self._text("pressure/memory"))
        if stalled is not None and (percent := float(stalled[1])) >= WARNING_STALL_PERCENT:
            severity = "critical" if percent >= CRITICAL_STALL_PERCENT else "warning"
            detail = f"all work waited for memory in {percent:g} % of the last minute"
            found.append(Finding("memory", severity, detail, percent, subject="pressure", num_looks=2))
        kills = _OOM.search(self._text("vmstat"))
        added = self._deltas.of({"oom_kill": int(kills[1])})["oom_kill"] if kills is not None else 0
        if added and self._tells_kills():
            detail = f"the kernel killed {added} processes for memory"
            found.append(Finding("oom", "warning", detail, added, subject="counted", lasts=False))
        return found

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""
