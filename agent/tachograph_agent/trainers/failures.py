"""Failure lines in any log: what stopped an attempt, as one incident however many lines it made.

``FailureWatch`` is fed by every adapter with the lines that are no records of its own; it keeps the attempt's number,
collects what belongs to one failure and gives the events when the attempt is over. ``FailureLines`` is the adapter for
logs that hold nothing else: a launcher's output, a kernel log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tachograph_agent.events import AnyEvent, AttemptEnd, AttemptStart, Failure
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.kernel import KernelWatch
from tachograph_agent.trainers.signs import Sign, exited, recognise, suspicious
from tachograph_agent.trainers.text import Clock, split_prefix, tagged

NEW_INCIDENT_SECONDS: Final = 1800.0
"""Without a step or a restart between, lines further apart than this tell of two failures."""
ROOT_CAUSE_LINES: Final = 9
MAX_RANKS: Final = 1024

_ROOT_CAUSE: Final = re.compile(r"^\s*(time|host|rank|exitcode)\s*: (.+)")
_RESTART: Final = re.compile(r"restart_count=(\d{1,6})\b")
_WORLD: Final = re.compile(r"global_world_sizes=\[(\d{1,8})")


@dataclass(slots=True)
class _Incident:
    """What is known so far of one failure."""

    best: Sign
    t: float | None
    last_t: float | None
    hang_s: float | None = None
    rank: int | None = None
    node: str | None = None
    hard: bool = False
    only_kernel: bool = True
    num_lines: int = 0
    ranks: dict[int, None] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    def add(self, sign: Sign, t: float | None) -> None:
        """Take one more line: the best explanation leads, ranks and numbers add up."""
        if sign.weight > self.best.weight:
            self.best = sign
        if self.t is None:
            self.t = t
        self.last_t = t if t is not None else self.last_t
        self.hang_s = sign.hang_s if self.hang_s is None else self.hang_s
        self.rank = sign.rank if self.rank is None else self.rank
        self.node = sign.node if self.node is None else self.node
        self.hard = self.hard or not sign.soft
        self.only_kernel = self.only_kernel and "kernel" in sign.fields
        self.num_lines += 1
        if sign.victim_rank is not None and len(self.ranks) < MAX_RANKS:
            self.ranks[sign.victim_rank] = None
        for name, value in sign.fields.items():
            self.fields.setdefault(name, value)


class FailureWatch:
    """The failures and restarts of one stream, beside whatever its adapter reads.

    ``attempt`` numbers the incarnations from 0. Feed lines that are no records with ``feed``, tell steps with
    ``stepped``, a new start with ``new_attempt``, and take the rest with ``close``. Events come in any order. Where a
    line has no time, the last time that the adapter knew is taken; before any is known, events wait for the first.
    Memory is bounded: one open incident, and at most 1,024 ranks in it.
    """

    def __init__(self, context: Context, clock: Clock, *, has_times: bool = True) -> None:
        self.context = context
        self.clock = clock
        self.has_times = has_times
        """False for a log on a clock of durations: times in failure lines don't fit it and are left alone."""
        self.attempt = 0
        self.has_stepped = False
        self.restarts_seen = 0
        self._incident: _Incident | None = None
        self._stop: tuple[Sign, float | None] | None = None
        self._stop_t: float | None = None
        self._root_lines = 0
        self._restart_count: int | None = None
        self._last_restart_count = 0
        self._kernel = KernelWatch(context, clock)
        self._waiting: list[AnyEvent] = []
        self._t: float | None = None

    def feed(self, line: str, t: float | None) -> list[AnyEvent]:
        """Take a line that is no record; ``t`` is the last time known. Mostly returns the empty list at once."""
        if not (self._root_lines or self._kernel.reading_trace or suspicious(line)):
            return _NOTHING
        if self.has_times:
            own = self.clock.find(line)
            if own is not None:
                t = own
        events = self._arrived(t)
        if self._root_lines and self._root(line):
            return events
        category = self._kernel.feed(line, t)
        if category is not None:
            fault = Sign(category, "GPU fault in the kernel log", 3, soft=True, fields={"kernel": True})
            self._add(fault, t)
        if "restart_count=" in line or "world_sizes=" in line or "Starting worker group" in line:
            return [*events, *self._rendezvous(line, t)]
        if "Root Cause" in line:
            self._root_lines = ROOT_CAUSE_LINES
        incident = self._incident
        sign = recognise(line, in_traceback=incident is not None and "traceback" in incident.fields)
        if sign is not None:
            events += self._take(sign, t)
        return events

    def tell(self, sign: Sign, t: float | None) -> list[AnyEvent]:
        """A failure that an adapter has recognised itself, at ``t``."""
        return [*self._arrived(t), *self._take(sign, t)]

    def _take(self, sign: Sign, t: float | None) -> list[AnyEvent]:
        if sign.planned:
            if self._stop is None or sign.weight > self._stop[0].weight:
                self._stop = (sign, t if self._stop is None else self._stop[1])
            return []
        if sign.weight == 0 and self._incident is None:
            return []
        if not self.has_times and sign.hang_s is not None and t is not None:
            # A clock of durations stood still while the collective hung.
            t += sign.hang_s
        events: list[AnyEvent] = []
        incident = self._incident
        if incident is not None and t is not None and incident.last_t is not None:
            same = "seq" in sign.fields and sign.fields["seq"] == incident.fields.get("seq")
            if not same and t - incident.last_t > NEW_INCIDENT_SECONDS:
                events = self._close_incident()
        self._add(sign, t)
        return events

    def _add(self, sign: Sign, t: float | None) -> None:
        if self._incident is None:
            self._incident = _Incident(sign, t, t)
        self._incident.add(sign, t)

    def _root(self, line: str) -> bool:
        """A line of torchelastic's ``Root Cause`` table; whether it was one."""
        self._root_lines -= 1
        found = _ROOT_CAUSE.match(split_prefix(line)[0])
        if found is None or self._incident is None:
            return False
        name, value = found.group(1), found.group(2).strip()
        word = value.split()[0]
        incident = self._incident
        if name == "host":
            incident.node = value
        elif name == "rank" and word.isdigit() and len(word) < 10:
            incident.rank = int(word)
        elif name == "exitcode":
            if word.lstrip("-").isdigit() and len(word) < 7:
                incident.add(exited(int(word), {}), None)
            self._root_lines = 0
        return True

    def _rendezvous(self, line: str, t: float | None) -> list[AnyEvent]:
        """The block that torchelastic prints when its workers (re)start: every node's agent prints it."""
        if (found := _RESTART.search(line)) is not None:
            self._restart_count = int(found.group(1))
        world = _WORLD.search(line)
        if (world is None and "Starting worker group" not in line) or self._restart_count is None:
            return []
        count, self._restart_count = self._restart_count, None
        again = count > self._last_restart_count or (count == 0 and self.has_stepped)
        self._last_restart_count = count
        if not again:
            return []
        if self._incident is None and self._stop is None and count:
            self._add(Sign("unknown", "torchelastic restarted the workers; the cause is not in this log", 1), t)
        return self.new_attempt(t, world_size=int(world.group(1)) if world else None)

    def stepped(self) -> list[AnyEvent]:
        """A step was completed: what training survived is no failure of this attempt. Cheap when nothing is open."""
        self.has_stepped = True
        if self._stop is not None and self._stop[0].weight < 3:
            self._stop = None
        if self._incident is None:
            return _NOTHING
        if not self._incident.hard:
            self.context.counters["errors that training survived"] += 1
            self._incident = None
            return _NOTHING
        return self._close_incident()

    @property
    def is_open(self) -> bool:
        """Whether a failure or an order to stop waits to be told."""
        return self._incident is not None or self._stop is not None

    def next_attempt(self) -> list[AnyEvent]:
        """The workers start again: the end of the attempt before. The caller tells the start, once it knows when."""
        events = self._close_attempt()
        self.attempt += 1
        self.has_stepped = False
        return events

    def new_attempt(
        self, t: float | None, resume_step: int | None = None, world_size: int | None = None
    ) -> list[AnyEvent]:
        """The workers start again: the end of the attempt before, and the start of the next."""
        events = self.next_attempt()
        start = AttemptStart(
            t=0.0, run=self.context.run, attempt=self.attempt, resume_step=resume_step, world_size=world_size
        )
        return events + self._placed(start, t)

    def close(self) -> list[AnyEvent]:
        """The end of the log: everything that is still open."""
        events = self._close_attempt()
        fallback = self.context.start_unix_seconds or 0.0 if self._t is None else self._t
        if self._waiting:
            self.context.note("Failure lines in this log have no time: when they happened is unknown.")
            self.context.has_clock = False
            for event in self._waiting:
                # The timeline begins with the hang, which is the first thing known.
                event.t = fallback + (event.dur or 0.0)
            events = [*self._waiting, *events]
            self._waiting = []
        return events + self._kernel.close(fallback)

    def _close_attempt(self) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        incident, stop = self._incident, self._stop
        if stop is not None:
            sign, t = stop
            ordered = sign.weight >= 2
            if ordered and incident is not None and _after(incident.t, t):
                # What died of the order to stop is no failure of its own.
                self._incident = incident = None
            if incident is None or ordered:
                end = AttemptEnd(t=0.0, run=self.context.run, attempt=self.attempt, planned=True, reason=sign.detail)
                events += self._placed(end, t)
        self._stop = None
        return [*events, *self._close_incident()]

    def _close_incident(self) -> list[AnyEvent]:
        incident, self._incident = self._incident, None
        if incident is None or (incident.fields.pop("kernel", False) and not self.has_stepped and incident.only_kernel):
            # A kernel log says what a node found, not that training died of it: its Health event tells that.
            return []
        extra: dict[str, Any] = {"lines": incident.num_lines}
        if incident.ranks:
            extra["ranks"] = sorted(incident.ranks)
        if incident.hang_s is not None:
            extra["hang_s"] = incident.hang_s
        extra.update(incident.fields)
        extra.pop("traceback", None)
        event = Failure(
            t=0.0,
            run=self.context.run,
            attempt=self.attempt,
            node=incident.node,
            rank=incident.rank,
            dur=incident.hang_s,
            category=incident.best.category,
            detail=incident.best.detail,
            unknown_fields=extra,
        )
        return self._placed(event, incident.t)

    def _placed(self, event: AnyEvent, t: float | None) -> list[AnyEvent]:
        """The event at ``t``, or kept back until a time is known."""
        if t is None:
            t = self._t
        if t is None:
            self._waiting.append(event)
            return []
        event.t = t
        return [event]

    def _arrived(self, t: float | None) -> list[AnyEvent]:
        """A time is known: what waited for one gets it."""
        if t is None:
            return []
        self._t = t
        if not self._waiting:
            return []
        self.context.note("The first failure lines have no time; they stand at the first time told after them.")
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.t = t
        return waiting

    def time_known(self, t: float) -> list[AnyEvent]:
        """Tell the watch a time that stood in a line of another kind."""
        return self._arrived(t)


_NOTHING: Final[list[AnyEvent]] = []


def _pieces(line: str) -> list[str]:
    """The line, or the messages that ranks sharing an MPI pipe glued into it."""
    if "]<std" not in line:
        return [line]
    return [f"[rank{rank}]:{message}" for rank, message in tagged(line)] or [line]


def _with_first_starts(events: Iterator[AnyEvent], context: Context) -> Iterator[AnyEvent]:
    """The events, and before a restart the start of the attempt that it replaced, if the log doesn't show that."""
    started: set[object] = set()
    failed_at: dict[object, float] = {}
    for event in events:
        if isinstance(event, Failure):
            failed_at[event.attempt] = event.t
        elif isinstance(event, AttemptStart) and isinstance(event.attempt, int):
            replaced = event.attempt - 1
            if replaced in failed_at and replaced not in started:
                context.note("When an attempt began that failed is not in this log: it stands at its failure.")
                yield AttemptStart(t=failed_at[replaced], run=event.run, attempt=replaced)
                started.add(replaced)
            started.add(event.attempt)
        yield event


def _after(t: float | None, other: float | None) -> bool:
    return t is None or other is None or t >= other


class FailureLines:
    """The adapter for a log of failure lines alone: no steps come from it, and none are made up."""

    name: ClassVar[str] = "failures"
    title: ClassVar[str] = (
        "Failure lines: NCCL watchdog, torchelastic, Slurm, CUDA errors, kernel log (Xid, hung tasks)"
    )

    _STRONG: ClassVar[re.Pattern[str]] = re.compile(
        r"NVRM: |collective operation timeout|blocked for more than \d+ seconds|Worker group FAILED"
        r"|\*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED AT|srun: error: |Root Cause \(first observed failure\)"
    )

    def sniff(self, head: str) -> float:
        """Sure, but less so than an adapter that finds steps: failure lines stand in any log."""
        if self._STRONG.search(head):
            return 0.4
        return 0.15 if any(recognise(line) for line in head.splitlines() if suspicious(line)) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Failures, restarts and health findings, one event an incident."""
        return _with_first_starts(self._read(lines, context), context)

    def _read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        clock = Clock(context)
        watch = FailureWatch(context, clock)
        t: float | None = None
        last, last_number = "", 0
        for number, line in enumerate(lines, start=1):
            if line:
                last, last_number = line, number
            for piece in _pieces(line):
                told = clock.find(piece)
                if told is not None:
                    t = told
                    yield from watch.time_known(t)
                yield from watch.feed(piece, t)
        if "ProcessGroupNCCL" in last and not last.rstrip().endswith((".", "]", ")")):
            context.skip(last_number, "the last line is cut")
        yield from watch.close()
