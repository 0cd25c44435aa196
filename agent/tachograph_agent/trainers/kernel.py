"""What the kernel's log says of a node's GPUs and stuck processes: Xid lines, GPUs off the bus, hung tasks.

One fault makes many lines: a burst on one GPU is one ``Health`` event with the lines counted, a process that stays
blocked is one event that lasted. Application errors (Xid 13, 31, 43) are told apart from hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tachograph_agent.events import AnyEvent, Health
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock, seconds_since_boot

BURST_SECONDS: Final = 5.0
"""Lines about one GPU at most this far apart are one fault."""
HUNG_TASK_LIMIT: Final = 10
"""The kernel stops reporting hung tasks after so many messages (``hung_task_warnings``)."""

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 69})
MEMORY_XIDS: Final = frozenset({48, 63, 64, 92, 94, 95, 140})
GPU_XIDS: Final = frozenset({62, 74, 79, 110, 119, 120, 136, 143, 145, 149})

_XID: Final = re.compile(r"Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<xid>\d{1,4})(?:, (?P<text>.*))?")
_PID: Final = re.compile(r"pid=(\d+)(?:, name=([^,]+))?")
_PCI: Final = re.compile(r"\b((?:[0-9a-fA-F]{4}|[0-9a-fA-F]{8}):[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\b")
_HUNG: Final = re.compile(r"task (?P<name>\S+):(?P<pid>\d+) blocked for more than (?P<limit>\d+) seconds")
_HOST: Final = re.compile(r"\d\d:\d\d:\d\d\S* ([A-Za-z][\w.-]*) kernel: ")
_MODULE: Final = re.compile(r"\[(mmfs\w*|lustre|nfsv?\d*|ceph|fuse|beegfs|xfs|ext4|gpfs\w*|wekafs\w*)\]")


def xid_class(xid: int) -> str:
    """``application``, ``gpu_memory``, ``gpu`` or ``unknown``: whose fault an Xid of this number mostly is."""
    if xid in APPLICATION_XIDS:
        return "application"
    if xid in MEMORY_XIDS:
        return "gpu_memory"
    return "gpu" if xid in GPU_XIDS else "unknown"


@dataclass(slots=True)
class _Fault:
    """The lines about one GPU within one burst."""

    pci: str
    t: float | None
    last_t: float | None
    uptime_s: float | None
    node: str | None
    xids: dict[int, int] = field(default_factory=dict)
    text: str = ""
    pid: int | None = None
    process: str | None = None
    since_load_s: float | None = None
    num_lines: int = 0

    @property
    def category(self) -> str:
        classes = {xid_class(xid) for xid in self.xids}
        return next((name for name in ("gpu_memory", "gpu", "application") if name in classes), "unknown")


@dataclass(slots=True)
class _Hung:
    name: str
    pid: int
    first_t: float | None
    last_t: float | None
    limit_s: float
    node: str | None
    count: int = 0
    modules: dict[str, None] = field(default_factory=dict)


class KernelWatch:
    """Collects kernel lines into faults; ``feed`` each line, then take the events with ``close``."""

    def __init__(self, context: Context, clock: Clock) -> None:
        self._context = context
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._done: list[_Fault] = []
        self._hung: dict[tuple[str, int], _Hung] = {}
        self._in_trace: _Hung | None = None
        self._last: tuple[str, float | None, float | None] | None = None
        self._loaded: float | None = None

    def feed(self, line: str, t: float | None) -> str | None:
        """Take a line, ``t`` its time if known; the category of a GPU's hardware fault if it tells of one."""
        if "blocked for more than" in line:
            self._blocked(line, t)
            return None
        if "NVRM" not in line and "Xid" not in line and "the bus" not in line:
            if self._in_trace is not None and (module := _MODULE.search(line)) is not None:
                self._in_trace.modules[module.group(1)] = None
            return None
        self._in_trace = None
        if "NVRM: loading" in line:
            self._loaded = t
            return None
        return self._nvrm(line, t)

    @property
    def reading_trace(self) -> bool:
        """Whether the stack of a hung task may follow, so that the next lines are wanted too."""
        return self._in_trace is not None

    def _nvrm(self, line: str, t: float | None) -> str | None:
        uptime_s = seconds_since_boot(line)
        if uptime_s is not None:
            t = None  # the caller's last known time belongs to other lines
        found = _XID.search(line)
        if found is None:
            pci = _PCI.search(line)
            if pci is not None:
                self._last = (_bus(pci.group(1)), t, uptime_s)
            if "fallen off the bus" not in line:
                return None
            if self._last is None:
                self._last = ("", t, uptime_s)
            name, t, uptime_s = self._last if pci is None else (self._last[0], t, uptime_s)
            fault = self._fault(name, t, uptime_s, line)
            fault.text = fault.text or "GPU has fallen off the bus"
            return None if fault.xids else "gpu"
        xid = int(found.group("xid"))
        fault = self._fault(_bus(found.group("pci")), t, uptime_s, line)
        fault.xids[xid] = fault.xids.get(xid, 0) + 1
        text = found.group("text") or ""
        if (pid := _PID.search(text)) is not None and len(pid.group(1)) < 10:
            fault.pid, fault.process = int(pid.group(1)), pid.group(2)
        category = xid_class(xid)
        if not fault.text or (category.startswith("gpu") and len(fault.xids) > 1 and fault.xids[xid] == 1):
            fault.text = text.rpartition("name=<unknown>, ")[2] or text
        return category if category.startswith("gpu") else None

    def _fault(self, pci: str, t: float | None, uptime_s: float | None, line: str) -> _Fault:
        fault = self._faults.get(pci)
        if fault is not None and not _near(fault.last_t, t):
            self._done.append(fault)
            fault = None
        if fault is None:
            host = _HOST.search(line)
            fault = _Fault(pci, t, t, uptime_s, host.group(1) if host else None)
            if self._loaded is not None and t is not None and uptime_s is None:
                fault.since_load_s = t - self._loaded
            self._faults[pci] = fault
        fault.last_t = t if t is not None else fault.last_t
        fault.num_lines += 1
        return fault

    def _blocked(self, line: str, t: float | None) -> None:
        found = _HUNG.search(line)
        if found is None or len(found.group("pid")) > 9 or len(found.group("limit")) > 9:
            return
        key = (found.group("name"), int(found.group("pid")))
        hung = self._hung.get(key)
        if hung is None:
            host = _HOST.search(line)
            limit_s = float(found.group("limit"))
            hung = self._hung[key] = _Hung(*key, t, t, limit_s, host.group(1) if host else None)
        hung.last_t = t if t is not None else hung.last_t
        hung.count += 1
        self._in_trace = hung

    def close(self, fallback_t: float) -> list[AnyEvent]:
        """The faults so far as ``Health`` events; one without a calendar time is put at ``fallback_t`` and noted."""
        events: list[AnyEvent] = [
            self._fault_event(fault, fallback_t) for fault in (*self._done, *self._faults.values())
        ]
        events += [self._hung_event(hung, fallback_t) for hung in self._hung.values()]
        if sum(hung.count for hung in self._hung.values()) >= HUNG_TASK_LIMIT:
            self._context.note(
                f"The kernel stops reporting hung tasks after {HUNG_TASK_LIMIT} messages: silence after the last one is"
                " no recovery."
            )
        self._done, self._faults, self._hung, self._in_trace = [], {}, {}, None
        return events

    def _placed(self, t: float | None, fallback_t: float) -> float:
        if t is not None:
            return t
        self._context.note("Some kernel lines have no calendar time; they stand at the last time known before them.")
        return fallback_t

    def _fault_event(self, fault: _Fault, fallback_t: float) -> Health:
        category = fault.category if fault.xids else "gpu"
        wanted = [xid for xid in fault.xids if xid_class(xid) == category]
        value = wanted[0] if wanted else None
        extra: dict[str, Any] = {"count": fault.num_lines, "class": category}
        if fault.xids:
            extra["xids"] = {str(xid): count for xid, count in fault.xids.items()}
        told = {
            "pid": fault.pid,
            "process": fault.process,
            "uptime_s": fault.uptime_s,
            "since_driver_load_s": fault.since_load_s,
        }
        extra.update({name: known for name, known in told.items() if known is not None})
        if fault.t is None:
            extra["undated"] = True
        words = f"Xid {value}" if value is not None else "GPU lost without an Xid"
        return Health(
            t=self._placed(fault.t, fallback_t),
            run=self._context.run,
            node=fault.node,
            check="xid" if fault.xids else "gpu_lost",
            gpu=fault.pci or None,
            value=value,
            severity="critical" if category.startswith("gpu") and value != 63 else "warning",
            detail=f"{words} on {fault.pci or 'a GPU'}: {fault.text}"[:300],
            unknown_fields=extra,
        )

    def _hung_event(self, hung: _Hung, fallback_t: float) -> Health:
        extra: dict[str, Any] = {"count": hung.count, "process": hung.name}
        dur = None
        if hung.first_t is not None and hung.last_t is not None:
            dur = hung.last_t - hung.first_t + hung.limit_s
            dur = max(dur, hung.limit_s)
            extra["since"] = hung.first_t - hung.limit_s
        else:
            extra["undated"] = True
        where = ""
        if hung.modules:
            extra["class"] = "filesystem"
            extra["modules"] = sorted(hung.modules)
            where = f", in the file system ({', '.join(sorted(hung.modules))})"
        return Health(
            t=self._placed(hung.last_t, fallback_t),
            run=self._context.run,
            node=hung.node,
            dur=dur,
            check="hung_task",
            value=hung.pid,
            severity="warning",
            detail=f"task {hung.name}:{hung.pid} blocked for more than {hung.limit_s:g} s{where}"[:300],
            unknown_fields=extra,
        )


def _bus(pci: str) -> str:
    """A PCI address without its function and in lower case, so that one GPU has one name."""
    return pci.lower().partition(".")[0]


def _near(before: float | None, t: float | None) -> bool:
    return before is None or t is None or abs(t - before) <= BURST_SECONDS
