"""Tables that tell of outages only, no step among them: which kind of table a file is, by its header and first rows.

They are no trainer's logs and can't be booked; ``tachograph outages`` says what they tell. ``open_log`` refuses them
with ``OutageTableError``, which keeps what was opened, so that a pipe need not be read twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tachograph_agent.trainers.files import ReadingError, Source
from tachograph_agent.trainers.table_rows import are_names, head_rows
from tachograph_agent.trainers.text import integer, number

KINDS: Final[dict[str, str]] = {
    "sacct": "Slurm accounting, sacct --parsable2 (State and other fields, one row a job)",
    "incidents": "table of incidents (CSV: when, event, and what it cost)",
    "causes": "table of causes (CSV: cause, category, count)",
    "devices": "table of device failures (CSV: device, time, one row a failure)",
    "attempts": "list of attempts (CSV: start time, process)",
    "facts": "table of facts about a run (CSV: fact, value, unit)",
}
"""The kinds of tables, with one line for ``tachograph formats``."""

STATES: Final = ("state", "job state")
_SACCT_FIELDS: Final = frozenset({
    "account", "allocnodes", "alloccpus", "allocgres", "alloctres", "averss", "consumedenergyraw", "cputime",
    "cputimeraw", "elapsed", "elapsedraw", "eligible", "end", "exitcode", "derivedexitcode", "jobid", "jobidraw",
    "jobname", "ncpus", "nnodes", "nodelist", "partition", "priority", "qos", "reqcpus", "reqmem", "reqnodes",
    "reqtres", "reserved", "resvcpuraw", "start", "submit", "suspended", "timelimit", "timelimitraw", "user",
})  # fmt: skip
WHENS: Final = (
    "when",
    "when_text",
    "time",
    "date",
    "datetime",
    "timestamp",
    "start",
    "started",
    "start_time",
    "event_time",
)
EVENTS: Final = ("event", "incident", "what", "failure", "cause", "reason", "description", "type", "category")
CAUSES: Final = (
    "component",
    "cause",
    "root_cause",
    "root cause",
    "interruption",
    "reason",
    "event",
    "type",
    "category",
)
COUNTS: Final = ("count", "counts", "num", "number", "interruptions", "failures", "interruption_count", "occurrences")
DEVICES: Final = ("gpu", "device", "gpu_id", "gpu_serial", "serial", "sn", "device_id", "node", "host", "hostname")
FAILED_AT: Final = ("event_time", "failure_time", "failed_at", "fail_time", "time_of_failure", "removed", "remove")
STARTS: Final = ("unix_start", "start", "start_time", "started", "started_at")
PROCESSES: Final = ("pid", "attempt", "job_id", "jobid", "restart")
_YEAR_OR_SECONDS: Final = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?|\d{9,11}(?:\.\d+)?")
_MOST_COLUMNS: Final = 150
_OUTAGE_WORDS: Final = re.compile(
    r"crash|fail|fault|\berror|\bh[au]ng\b|deadlock|outage|restart|interrupt|maintenance|abort|time-?out|preempt|kill|"
    r"\bxid|\becc\b|\boom\b|out of memory|\bgpu|\bnccl\b|\bnode\b|\bhost\b|\bnic\b|off the bus|watchdog|corrupt|"
    r"\bdown\b",
    re.IGNORECASE,
)
"""Many tables have a date and an event, or a name and a count: one of outages says so somewhere in its first rows."""
_OUTAGE_NAMES: Final = re.compile(r"fail|fault|outage|interrupt|incident|downtime|root.cause|restart|(?<![a-z])lost")
_OF_GPUS: Final = frozenset({"gpu", "gpu_id", "gpu_serial", "device", "device_id"})
_OF_PROGRAMS: Final = frozenset({"command", "cmd", "args", "user", "%cpu", "name"})
_COST: Final = re.compile(r"(?:time_)?(?:lost|downtime|outage)\b|(?:time_)?(?:lost|downtime|outage)_")
_IN_ORDER: Final = ("sacct", "facts", "devices", "incidents", "causes", "attempts")
"""A header can be of several kinds: the more special one goes first."""


class OutageTableError(ReadingError):
    """What was to be booked is a table of outages. ``tables`` are the open sources with their kinds."""

    def __init__(self, tables: Sequence[tuple[Source, str]]) -> None:
        self.tables = list(tables)
        source, kind = self.tables[0]
        super().__init__(
            f"{source.name}: tells of outages only ({KINDS[kind].partition(' (')[0]}), so no minute can be booked; "
            f"'tachograph outages {source.path}' says what it tells"
        )


def first_of(names: Sequence[str], cells: Mapping[str, object] | Sequence[str]) -> str | None:
    """The first of ``names`` that is there."""
    return next((name for name in names if name in cells), None)


def recognise(head: bytes) -> str | None:
    """The kind of table that the first 64 KiB of a file are of; None if it is none, or a table without a row."""
    if b"\0" in head[:512]:
        return None
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    told = head_rows(text, _are_columns)
    if not told:
        return None
    names = list(dict.fromkeys(name for row in told for name in row))
    return next((kind for kind in _IN_ORDER if _is_of(kind, names, told)), None)


def are_columns(names: Sequence[str]) -> bool:
    """Whether a line's cells are the columns of one of these tables."""
    return _are_columns(names)


def _are_columns(names: Sequence[str]) -> bool:
    return len(names) <= _MOST_COLUMNS and are_names(names) and any(_could_be(kind, names) for kind in KINDS)


def _could_be(kind: str, names: Sequence[str]) -> bool:
    """Whether the header alone is of that kind."""
    if kind == "sacct":
        return first_of(STATES, names) is not None and len(_SACCT_FIELDS & set(names)) >= 2
    if kind == "facts":
        return {"fact", "value"} <= set(names)
    if kind == "devices":
        # A table that tells what each cost is one of incidents, whatever device it names.
        costs = any(_COST.match(name) for name in names)
        return first_of(DEVICES, names) is not None and first_of(FAILED_AT, names) is not None and not costs
    if kind == "incidents":
        when = first_of(WHENS, names)
        return when is not None and any(name in EVENTS for name in names if name != when) and "step" not in names
    if kind == "causes":
        count = first_of(COUNTS, names)
        return count is not None and any(name in CAUSES for name in names if name != count)
    start = first_of(STARTS, names)
    return start is not None and first_of(PROCESSES, names) is not None and not _OF_PROGRAMS & set(names)


def _is_of(kind: str, names: Sequence[str], told: Sequence[Mapping[str, str]]) -> bool:
    """Whether header and rows are of that kind."""
    if not _could_be(kind, names):
        return False
    if kind == "sacct":
        state = first_of(STATES, names) or ""
        return all(row.get(state, "A")[:1].isupper() for row in told)
    if kind == "causes":
        count = first_of(COUNTS, names) or ""
        return all(integer(row.get(count, "")) is not None for row in told) and _tells_of_outages(names, told)
    if kind == "facts":
        return all("fact" in row for row in told)
    columns = {"devices": FAILED_AT, "incidents": WHENS, "attempts": STARTS}[kind]
    when = first_of(columns, names) or ""
    times = [row[when] for row in told if when in row]
    if not times or not all(_YEAR_OR_SECONDS.match(time) for time in times):
        return False
    if kind == "incidents":
        event = first_event(names)
        return any(number(row.get(event, "0")) is None for row in told) and _tells_of_outages(names, told)
    return kind == "attempts" or bool(_OF_GPUS & set(names)) or _tells_of_outages(names, told)


def _tells_of_outages(names: Sequence[str], told: Sequence[Mapping[str, str]]) -> bool:
    """Whether any name of a column or any cell has a word that only outages have."""
    return any(map(_OUTAGE_NAMES.search, names)) or any(
        _OUTAGE_WORDS.search(cell) for row in told for cell in row.values()
    )


def first_event(names: Sequence[str]) -> str:
    """The column that says what an incident was."""
    when = first_of(WHENS, names)
    return next((name for name in EVENTS if name in names and name != when), "event")
