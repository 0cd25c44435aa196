"""How many processes the kernel killed for memory in this control group, counted from a first look."""

from __future__ import annotations

import re
from pathlib import Path

PROC = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class OomKills:
    """Counts from its making. A control group that can't be read counts none: it is not known."""

    def __init__(self, counters: list[Path]) -> None:
        self._counters = {path: _count(path) for path in counters}

    @classmethod
    def of_this_process(cls, proc: Path = PROC, root: Path = ROOT) -> OomKills:
        """The counters of the control group that this process, and so what it starts, is in."""
        return cls(counters_of(proc, root))

    def since(self) -> int:
        """Kills since the first look; the children's groups count into their parents'."""
        new = [_count(path) - before for path, before in self._counters.items()]
        return max([0, *new])


def counters_of(proc: Path, root: Path) -> list[Path]:
    """The files that count kills, of version 2 and of version 1, as far as they are there."""
    try:
        lines = proc.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            found.append(root / group.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(root / "memory" / group.lstrip("/") / "memory.oom_control")
    return [path for path in found if path.is_file()]


def _count(path: Path) -> int:
    try:
        match = _OOM_KILL.search(path.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return 0
    return int(match[1]) if match else 0
