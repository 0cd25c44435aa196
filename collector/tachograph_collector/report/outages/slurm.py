"""Slurm's accounting: jobs by state, what their ends mean, and, where start and end were dumped, jobs that came again.

``TIMEOUT`` is a time limit reached and ``CANCELLED by 1000`` is ``CANCELLED``: neither is the hardware's. Only
``NODE_FAIL`` and ``BOOT_FAIL`` are; without one the hardware's mean time between failures is unknown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from tachograph_agent.trainers.outage_tables import STATES
from tachograph_agent.trainers.table_rows import TableRow
from tachograph_agent.trainers.text import integer

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, Value, hours
from tachograph_collector.report.outages.rates import mtbf_figures
from tachograph_collector.report.outages.reading import Times, cell, column
from tachograph_collector.report.text import count, percent

_MEANS: Final = {
    "COMPLETED": "done",
    "FAILED": "failed: its own exit code",
    "TIMEOUT": "time limit reached",
    "CANCELLED": "cancelled by a person",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "NODE_FAIL": "hardware: a node failed",
    "BOOT_FAIL": "hardware: a node didn't boot",
    "OUT_OF_MEMORY": "out of memory",
    "DEADLINE": "deadline reached",
    "SUSPENDED": "suspended",
    "REVOKED": "moved to another cluster",
    "RUNNING": "not over",
    "PENDING": "not begun",
    "RESIZING": "not over",
}
_HARDWARE: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})
_OPEN: Final = frozenset({"RUNNING", "PENDING", "RESIZING", "SUSPENDED", "REQUEUED"})
_NOT_FAILED: Final = frozenset({"COMPLETED", "REVOKED"}) | _OPEN
_CLOCK: Final = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,5}):)?(\d{1,5}):(\d\d)(?:\.\d+)?")
_MOST_NAMES: Final = 10


def slurm_seconds(text: str | None) -> float | None:
    """Seconds of Slurm's ``[days-][hours:]minutes:seconds``: ``2-22:00:00`` is 252,000."""
    found = _CLOCK.fullmatch(text or "")
    if found is None:
        return None
    days, hour, minute, second = (int(part or 0) for part in found.groups())
    return float(days * 86_400 + hour * 3600 + minute * 60 + second)


def state_of(text: str) -> str:
    """The state without what is behind it: ``CANCELLED by 1000`` and ``CANCELLED+`` are ``CANCELLED``."""
    return text.partition(" ")[0].rstrip("+").upper()[:30]


def add_slurm(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """States, processor time by state, hardware failures, limits, waiting, and jobs of one name."""
    jobs = [row for row in rows if "." not in row.cells.get("jobid", row.cells.get("jobidraw", ""))]
    if len(jobs) < len(rows):
        report.note(f"{count(len(rows) - len(jobs), 'row')} of job steps (a point in the job's number) were left out.")
    states = [state_of(cell(row, STATES) or "unknown") for row in jobs]
    by_state = Counter(states)
    over = sum(num for state, num in by_state.items() if state not in _OPEN)
    bad = sum(num for state, num in by_state.items() if state not in _NOT_FAILED)
    report.headline = (
        f"{count(len(jobs), 'job')}: {percent(bad / over if over else None)} of those that are over didn't complete"
    )
    report.figure("num_jobs", "jobs", len(jobs))
    report.figure(
        "not_completed", "didn't complete", bad / over if over else None, percent(bad / over) if over else None
    )
    _states(report, jobs, states, by_state)
    _hardware(report, jobs, by_state, options)
    _limits(report, jobs)
    times = Times(options.tz)
    _order_and_waiting(report, jobs, times)
    _attempts(report, jobs, states, times)
    report.notes += times.notes()


def _states(report: OutageReport, jobs: Sequence[TableRow], states: Sequence[str], by_state: Counter[str]) -> None:
    cpu: Counter[str] = Counter()
    for row, state in zip(jobs, states, strict=True):
        raw = integer(row.cells.get("cputimeraw", ""))
        cpu[state] += raw if raw is not None else round(slurm_seconds(row.cells.get("cputime")) or 0.0)
    total = cpu.total()
    listed: list[Sequence[Value]] = [
        (
            state,
            num,
            num / len(jobs),
            cpu[state] / total if total else None,
            _MEANS.get(state, "not a state that I know"),
        )
        for state, num in by_state.most_common()
    ]
    report.listings.append(Listing("states", "by state", ("state", "num", "share", "cpu_share", "meaning"), listed))
    if not total:
        report.note("Processor time is unknown: neither CPUTimeRAW nor CPUTime was dumped.")


def _hardware(report: OutageReport, jobs: Sequence[TableRow], by_state: Counter[str], options: Options) -> None:
    num = sum(by_state[state] for state in _HARDWARE)
    report.figure("num_hardware_failures", "ended by a failed node", num)
    node_s = 0.0
    known = True
    for row in jobs:
        elapsed = integer(row.cells.get("elapsedraw", ""))
        elapsed_s = float(elapsed) if elapsed is not None else slurm_seconds(row.cells.get("elapsed"))
        nodes = integer(row.cells.get("nnodes", row.cells.get("allocnodes", "")))
        known = known and elapsed_s is not None and nodes is not None
        node_s += (elapsed_s or 0.0) * (nodes or 0)
    nodes_failed = Counter(
        row.cells["nodelist"][:60]
        for row in jobs
        if "nodelist" in row.cells and state_of(cell(row, STATES) or "") in _HARDWARE
    )
    if nodes_failed:
        listed: list[Sequence[Value]] = [(name, times) for name, times in nodes_failed.most_common(_MOST_NAMES)]
        report.listings.append(Listing("nodes", "nodes of jobs that a failed node ended", ("nodes", "num"), listed))
    if not num:
        why = "no row says NODE_FAIL or BOOT_FAIL; time limits and cancellations are not failures of the hardware"
        report.figure("hardware_mtbf_s", "hardware's mean time between failures", None, why=why)
        return
    why = "neither Elapsed and NNodes nor --span DAYS tell how long was watched"
    if known and node_s:
        mtbf_figures(report, num, node_s, why=why, what="node failure", key="node_mtbf_s")
        report.note("The time between node failures is in node-hours that jobs held.")
    mtbf_figures(report, num, options.span_s, why=why, what="hardware failure", key="hardware_mtbf_s")


def _limits(report: OutageReport, jobs: Sequence[TableRow]) -> None:
    """Time limits as text against those as minutes."""
    both = [
        (row.cells["timelimit"], row.cells["timelimitraw"])
        for row in jobs
        if "timelimit" in row.cells and "timelimitraw" in row.cells
    ]
    if not both:
        return
    unlike = 0
    words: Counter[str] = Counter()
    for text, raw in both:
        seconds, minutes = slurm_seconds(text), integer(raw)
        if seconds is None or minutes is None or seconds != minutes * 60:
            unlike += 1
            if seconds is None:
                words[text[:40]] += 1
    report.figure("num_limits_unlike", "time limits that are no time, or unlike their minutes", unlike)
    if words:
        told = ", ".join(f"{word} ({num})" for word, num in words.most_common(3))
        report.note(f"Time limits that are no time: {told}.")


def _order_and_waiting(report: OutageReport, jobs: Sequence[TableRow], times: Times) -> None:
    partitions = {row.cells["partition"] for row in jobs if "partition" in row.cells}
    if partitions:
        report.figure("num_partitions", "partitions", len(partitions))
    submits = [when.t for row in jobs if (when := times.read(row.cells.get("submit"))) is not None]
    if submits:
        falls = sum(after < before for before, after in pairwise(submits))
        report.figure("num_out_of_order", "rows out of the order of submission", falls)
    waits = [
        start.t - submit.t
        for row in jobs
        if (submit := times.read(row.cells.get("submit"))) is not None
        and (start := times.read(row.cells.get("start"))) is not None
        and start.t >= submit.t
    ]
    waited = median(waits) if waits else None
    words = None if waited is None else f"{hours(waited)} (median of {count(len(waits), 'job')})"
    report.figure("waiting_s", "waiting in the queue", waited, words, why="Submit and Start were not both dumped")


def _attempts(report: OutageReport, jobs: Sequence[TableRow], states: Sequence[str], times: Times) -> None:
    """Jobs of one user and name that came one after another: held, and away between."""
    if column(jobs, ("start",)) is None or column(jobs, ("end",)) is None:
        report.figure("away_s", "time between a job's attempts", None, why="Start and End were not both dumped")
        return
    named: dict[tuple[str, str], list[tuple[float, float, str]]] = defaultdict(list)
    for row, state in zip(jobs, states, strict=True):
        start, end = times.read(row.cells.get("start")), times.read(row.cells.get("end"))
        if start is not None and end is not None and end.t >= start.t and "jobname" in row.cells:
            named[row.cells.get("user", ""), row.cells["jobname"]].append((start.t, end.t, state))
    again = sorted((spans for spans in named.items() if len(spans[1]) > 1), key=lambda pair: -len(pair[1]))
    listed: list[Sequence[Value]] = []
    all_away_s = 0.0
    for (user, name), spans in again:
        held_s, away_s = held_and_away([(start, end) for start, end, _ in spans])
        all_away_s += away_s
        hardware = sum(state in _HARDWARE for *_, state in spans)
        if len(listed) < _MOST_NAMES:
            shown = f"{name[:60]} ({user[:30]})" if user else name[:60]
            listed.append((shown, len(spans), hardware, held_s, away_s))
    report.figure(
        "away_s",
        "time between a job's attempts",
        all_away_s if again else None,
        hours(all_away_s) if again else None,
        why="no job's name came twice with Start and End",
    )
    if listed:
        report.listings.append(
            Listing("jobs", "jobs of one name", ("job", "num", "num_node_failures", "held_s", "away_s"), listed)
        )
        report.note("Jobs of one name and user are taken for attempts of one run; what they did in between isn't told.")


def held_and_away(spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds that any of the spans covers, and seconds between the first and the last that none does."""
    ordered = sorted(spans)
    held = away = 0.0
    until = ordered[0][0]
    for start, end in ordered:
        away += max(0.0, start - until)
        held += max(0.0, end - max(start, until))
        until = max(until, end)
    return held, away
