"""Recognisers of single lines that tell of a failure or a stop, whatever trainer wrote the log around them.

``suspicious`` is the cheap test that nearly every line fails; ``recognise`` says what a suspicious line means. Both are
pure: what belongs together, and whether training survived it, is decided in ``failures``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tachograph_agent.events import LONGEST_DURATION_SECONDS
from tachograph_agent.trainers.text import rank_of

SHORT = 200
"""Longest detail kept of a message."""


@dataclass(slots=True)
class Sign:
    """What one line says. ``weight`` ranks it as an explanation: 3 a cause, 2 a symptom, 1 an exit, 0 an echo.

    ``soft``: training often survives it, so it only counts if no step follows. ``planned``: no failure but an order to
    stop, with its reason.
    """

    category: str
    detail: str
    weight: int
    soft: bool = False
    planned: bool = False
    rank: int | None = None
    node: str | None = None
    victim_rank: int | None = None
    """A rank that reported it, which need not be the one that caused it."""
    hang_s: float | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def suspicious(line: str) -> bool:
    """Whether a line may tell of a failure: a chain of substring tests, about a microsecond."""
    return (
        "rror" in line
        or "NCCL" in line
        or "atchdog" in line
        or "FAILED" in line
        or "CANCELLED" in line
        or "Traceback" in line
        or "endezvous" in line
        or "restart_count" in line
        or "world_sizes" in line
        or "Root Cause" in line
        or "exitcode" in line
        or "return code" in line
        or "milliseconds" in line
        or "SIGTERM" in line
        or "signal" in line
        or "oom" in line
        or "emory" in line
        or "Node failure" in line
        or "Xid" in line
        or "NVRM" in line
        or "the bus" in line
        or "blocked for more than" in line
        or "No space left" in line
        or "Stale file" in line
        or "KeyboardInterrupt" in line
    )


_WATCHDOG: Final = re.compile(
    r"collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d{1,18}), OpType=(?P<op>\w+)[^)]*?"
    r"(?:Timeout\(ms\)=(?P<limit>\d{1,12})\)?)?(?:[^|]*? ran for (?P<ran>\d{1,12}) milliseconds)?(?: before|$|\))"
)
_RAN: Final = re.compile(r"\bran for (\d{1,12}) milliseconds before timing out")
_WORK: Final = re.compile(
    r"detected by watchdog at work: (\d{1,18}), last enqueued NCCL work: (\d{1,18}),"
    r" last completed NCCL work: (\d{1,18})"
)
_CANCELLED: Final = re.compile(
    r"\*\*\* (?:JOB|STEP) (?P<job>\S+) (?:ON (?P<node>\S+) )?CANCELLED AT \S+(?: DUE TO (?P<why>[^*]+?))? *\*\*\*",
    re.IGNORECASE,
)
_TASK: Final = re.compile(
    r"srun: error: (?P<node>[\w.-]+): tasks? (?P<tasks>[\d,-]+): (?P<how>Exited with exit code (?P<code>\d+)|Killed"
    r"|Segmentation fault|Aborted|Bus error|Out Of Memory|Terminated)"
)
_NODE_FAILURE: Final = re.compile(r"srun: error: Node failure on (?P<node>[\w.\[\],-]+)")
_OOM_KILL: Final = re.compile(r"oom[-_ ]kill event|Out of memory: Kill(?:ed)? process|Memory cgroup out of memory")
_GROUP_FAILED: Final = re.compile(r"Worker group FAILED\. (?P<left>\d{1,9})/(?P<of>\d{1,9}) attempts left")
_EXIT: Final = re.compile(r"failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,9})")
_SIGNAL: Final = re.compile(
    r"Received 15 death signal|got signal: 15\b|after receiving SIGTERM|[Rr]eceived (?:signal )?SIGTERM"
    r"|exiting (?:program )?(?:on|due to|after) SIGTERM"
)
_NCCL_ERROR: Final = re.compile(
    r"nccl(?P<word>SystemError|RemoteError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument)"
    r"|NCCL WARN NET/IB[^|]*?Got completion"
)
_CUDA_MEMORY: Final = re.compile(r"CUDA out of memory|torch(?:\.cuda)?\.OutOfMemoryError")
_CUDA_ERROR: Final = re.compile(
    r"CUDA(?: driver)? (?:error|failure)(?: \d+)?: *'?(?P<what>[^.;'\n]{3,120})", re.IGNORECASE
)
_STORAGE: Final = re.compile(
    r"No space left on device|Stale file handle|\[Errno 5\] Input/output error|Disk quota exceeded"
    r"|Transport endpoint is not connected"
)
_RETURN_CODE: Final = re.compile(r"\bexits with return code = (-?\d{1,6})\b")  # DeepSpeed's launcher
_HEARTBEAT: Final = re.compile(r"Heartbeat monitor timed out|watchdog (?:thread )?(?:got )?stuck", re.IGNORECASE)
_PYTHON_ERROR: Final = re.compile(
    r"(?:^|[\s:])(?P<name>(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (?P<what>\S.*)"
)

_CUDA_CATEGORIES: Final = (
    ("uncorrectable ECC", "gpu_memory"),
    ("hardware", "gpu"),
    ("nvlink", "gpu"),
    ("unspecified launch failure", "gpu"),
    ("device unavailable", "gpu"),
    ("busy or unavailable", "gpu"),
    ("no CUDA-capable device", "gpu"),
    ("is lost", "gpu"),
    ("unknown error", "gpu"),
)
_NCCL_CATEGORIES: Final = {"SystemError": "network", "RemoteError": "network", "UnhandledCudaError": "gpu"}
_SIGNALS: Final = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def recognise(line: str, *, in_traceback: bool = False) -> Sign | None:
    """What a line (prefixes may still be on) says of a failure; None for the many that say nothing.

    ``in_traceback`` allows the last line of a Python traceback, an error's name, which alone may stand anywhere.
    """
    return (
        _nccl(line)
        or _slurm(line)
        or _hardware(line)
        or _elastic(line)
        or _stop(line)
        or _python(line, in_traceback=in_traceback)
    )


def short(text: str) -> str:
    """A message fit for a table cell."""
    text = " ".join(text.split())
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def _hang_s(milliseconds: str) -> float | None:
    """How long an operation hung; None for a length that can't be."""
    hang_s = int(milliseconds) / 1000
    return hang_s if hang_s <= LONGEST_DURATION_SECONDS else None


def _nccl(line: str) -> Sign | None:
    if "NCCL" not in line and "milliseconds" not in line and "eartbeat" not in line and "nccl" not in line:
        return None
    rank = rank_of(line)
    found = _WATCHDOG.search(line)
    if found is not None:
        sequence, operation, limit = found.group("seq", "op", "limit")
        ran = found.group("ran") or ((match := _RAN.search(line)) and match.group(1))
        fields: dict[str, Any] = {"seq": int(sequence), "op": operation}
        if limit is not None:
            fields["timeout_s"] = int(limit) / 1000
        return Sign(
            "collective_timeout",
            f"NCCL watchdog: {operation} (SeqNum {sequence}) timed out"
            + (f" after {int(ran) / 1000:g} s" if ran else ""),
            2,
            victim_rank=rank,
            hang_s=_hang_s(ran) if ran else None,
            fields=fields,
        )
    found = _WORK.search(line)
    if found is not None:
        work, enqueued, completed = (int(group) for group in found.groups())
        told = {"seq": work, "last_enqueued": enqueued, "last_completed": completed, "waiting": enqueued - work}
        return Sign(
            "collective_timeout", f"NCCL watchdog: work {work} failed or timed out", 1, victim_rank=rank, fields=told
        )
    found = _RAN.search(line)
    if found is not None:  # the second half of a wrapped record
        return Sign("collective_timeout", "NCCL watchdog timeout", 1, victim_rank=rank, hang_s=_hang_s(found.group(1)))
    if _HEARTBEAT.search(line):
        return Sign("collective_timeout", short("NCCL heartbeat monitor timed out"), 1, victim_rank=rank)
    if _CUDA_ERROR.search(line):
        return None
    found = _NCCL_ERROR.search(line)
    if found is not None:
        category = _NCCL_CATEGORIES.get(found.group("word") or "SystemError", "software")
        return Sign(category, short(line[found.start() :]), 2, soft=True, victim_rank=rank)
    if "ProcessGroupNCCL" in line and ("[E" in line or "timed out" in line):
        tells = "timed out" in line or "xception" in line or "terminat" in line
        return Sign("collective_timeout", short(line), 1 if tells else 0, victim_rank=rank)
    return None


def _slurm(line: str) -> Sign | None:
    found = _CANCELLED.search(line)
    if found is not None:
        why, node = (found.group("why") or "").upper(), found.group("node")
        if "NODE FAIL" in why:
            return Sign("host", "Slurm: cancelled due to node failure", 3, fields={"job": found.group("job")})
        if why:
            reason = why.split(",")[0].strip().lower()
            return Sign("unknown", f"Slurm: {reason}", 3, planned=True, node=node)
        return Sign("unknown", "Slurm: cancelled", 1, planned=True, node=node)
    found = _NODE_FAILURE.search(line)
    if found is not None:
        return Sign("host", f"Slurm: node failure on {found.group('node')}", 3, node=found.group("node"))
    if _OOM_KILL.search(line):
        return Sign("host", "out of host memory: a process was killed", 3, soft=True)
    found = _TASK.search(line)
    if found is not None:
        how, node, tasks = found.group("how", "node", "tasks")
        if how == "Terminated":
            return Sign("unknown", "srun: tasks terminated", 0)
        if how == "Out Of Memory":
            return Sign("host", f"out of host memory on {node}", 3, node=node)
        rank = int(tasks) if tasks.isdigit() and len(tasks) < 10 else None
        category = "software" if how == "Segmentation fault" else "unknown"
        detail = f"srun: {node}: task {tasks}: {how}"
        return Sign(category, short(detail), 1, victim_rank=rank, fields={"exit_node": node})
    return None


def _hardware(line: str) -> Sign | None:
    if _CUDA_MEMORY.search(line):
        return Sign("software", "CUDA out of memory", 2, soft=True, victim_rank=rank_of(line))
    found = _CUDA_ERROR.search(line)
    if found is not None:
        what = found.group("what").strip()
        category = next((name for words, name in _CUDA_CATEGORIES if words.lower() in what.lower()), "software")
        return Sign(category, short(f"CUDA error: {what}"), 3, soft=True, victim_rank=rank_of(line))
    found = _STORAGE.search(line)
    if found is not None:
        return Sign("storage", found.group(), 3, soft=True, victim_rank=rank_of(line))
    return None


def _elastic(line: str) -> Sign | None:
    found = _GROUP_FAILED.search(line)
    if found is not None:
        left, of = int(found.group("left")), int(found.group("of"))
        detail = f"torchelastic: worker group failed, {left}/{of} restarts were left"
        # The agent prints what was left before it takes this restart off.
        return Sign("unknown", detail, 1, fields={"restarts_left": max(left - 1, 0)})
    found = _EXIT.search(line)
    if found is not None:
        return exited(int(found.group("code")), {"local_rank": int(found.group("local"))})
    found = _RETURN_CODE.search(line)
    if found is not None and int(found.group(1)):
        return exited(int(found.group(1)), {})
    return None


def exited(code: int, fields: dict[str, Any]) -> Sign:
    """A worker's exit with ``code``, negative for a signal."""
    name = _SIGNALS.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"
    category = "software" if code == -11 else "unknown"
    return Sign(category, f"a worker ended with {name}", 1, fields={"exit_code": code, **fields})


def _stop(line: str) -> Sign | None:
    if _SIGNAL.search(line):
        return Sign("unknown", "SIGTERM", 2 if "xiting program" in line else 1, planned=True)
    if "KeyboardInterrupt" in line:
        return Sign("unknown", "interrupted from the keyboard", 1, planned=True)
    return None


def _python(line: str, *, in_traceback: bool) -> Sign | None:
    if "Traceback (most recent call last)" in line:
        return Sign("software", "Python traceback", 1, soft=True, victim_rank=rank_of(line), fields={"traceback": True})
    if in_traceback:
        found = _PYTHON_ERROR.search(line)
        if found is not None and "ChildFailedError" not in line:
            detail = f"{found.group('name')}: {found.group('what')}"
            return Sign("software", short(detail), 2, soft=True, victim_rank=rank_of(line))
    return None
