"""The event log of a simulated run, as an honest trainer and agent would have written it, beside its own accounts.

The log is told step by step and save by save from the run's course, never from its accounts: that the ledger's books of
it equal them says that both are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tachograph_agent.events import (
    AllocationStart,
    AttemptEnd,
    AttemptStart,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    KnownEvent,
    Mode,
    Phase,
    Rollback,
    RunEnd,
    RunStart,
    Step,
)

from tachograph_collector.model.check import ModelError
from tachograph_collector.model.simulate.course import Leg, course
from tachograph_collector.model.simulate.design import Design, Failures
from tachograph_collector.model.simulate.draws import Draws
from tachograph_collector.model.simulate.restarts import Rules
from tachograph_collector.model.simulate.run import checked, simulated
from tachograph_collector.model.simulate.schedule import Schedule

START_UNIX_SECONDS = 1_760_000_000
LONGEST_RECORD_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Accounts:
    """One run's accounts in whole microseconds; the first four sum to ``wall_us``."""

    kept_us: int
    checkpoint_us: int
    lost_us: int
    restart_us: int
    wall_us: int


def simulate_log(
    design: Design,
    failures: Failures,
    *,
    duration_s: float,
    seed: int,
    run: str = "simulated",
    index: int = 0,
    start_unix_seconds: int = START_UNIX_SECONDS,
    record_steps: int | None = None,
) -> tuple[list[KnownEvent], Accounts]:
    """The events of run ``index`` of ``simulate``, in order of time, and the simulator's own accounts of it.

    A step record covers at most ``record_steps`` steps, by default all that are done without a stop (and a day's at
    most). A run that ends while it is down has ``failed``, any other is ``completed``. Raises ``ModelError``.
    """
    duration_us = checked(design, failures, duration_s, 1, seed)
    for name, value, least in (("index", index, 0), ("record_steps", record_steps, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ModelError(f"{name} is {value!r}; expected a whole number of at least {least}")
    outcome = simulated(Rules.of(design), failures, Draws(failures, duration_us, seed, index), duration_us, 1)
    own = Accounts(
        int(outcome.kept_us[0]),
        int(outcome.checkpoint_us[0]),
        int(outcome.lost_us[0]),
        int(outcome.restart_us[0]),
        duration_us,
    )
    writer = _Writer(design, run, start_unix_seconds * 1_000_000, record_steps)
    events = list(writer.events(course(design, failures, duration_us, seed, index), duration_us))
    events.sort(key=lambda event: event.t)
    return events, own


class _Writer:
    """Writes the log of one run leg by leg."""

    def __init__(self, design: Design, run: str, start_us: int, record_steps: int | None) -> None:
        self._design = design
        self._schedule = Schedule.of(design)
        self._run = run
        self._start_us = start_us
        most = max(1, LONGEST_RECORD_US // self._schedule.one_us)
        self._record_steps = min(most, record_steps or most)
        self._attempt = -1
        self._has_landed = 0

    def _t(self, us: int) -> float:
        return (self._start_us + us) / 1e6

    def events(self, legs: list[Leg], duration_us: int) -> Iterator[KnownEvent]:
        replicas = self._design.elastic.replicas if self._design.elastic is not None else None
        yield RunStart(t=self._t(0), run=self._run, gpus=replicas, origin="rehearsal")
        if replicas is not None:
            yield AllocationStart(t=self._t(0), run=self._run, gpus=replicas)
        is_down = False
        for place, leg in enumerate(legs):
            is_up, stepped = False, False
            for event in self._leg(leg):
                is_up = is_up or isinstance(event, AttemptStart)
                stepped = stepped or isinstance(event, Step)
                yield event
            is_down = is_down and not stepped
            if leg.end in ("failure", "corruption"):
                is_down = True
                yield from self._stop(leg, legs[place + 1 :])
            elif leg.end == "rejoin":
                yield AttemptEnd(t=self._t(leg.end_us), run=self._run, attempt=self._attempt, reason="replicas rejoin")
        yield RunEnd(t=self._t(duration_us), run=self._run, status="failed" if is_down else "completed")

    def _stop(self, leg: Leg, rest: list[Leg]) -> Iterator[KnownEvent]:
        """What is told at a failure, or when corruption is noticed."""
        t = self._t(leg.end_us)
        resume_step = rest[0].resume_step
        if leg.is_by_peer and resume_step > self._has_landed:
            # Only now is it known that the copy outlived the failure.
            yield CheckpointPersisted(t=t, run=self._run, attempt=self._attempt, rank=0, step=resume_step, tier="peer")
        category = "host"
        if leg.end == "corruption":
            category = "sdc"
            if not any(_is_up(later) for later in rest):
                # The run ends before anyone resumes, which would show how far back it must go.
                yield Rollback(t=t, run=self._run, attempt=self._attempt, to_step=resume_step, reason="sdc")
        self._has_landed = resume_step
        yield Failure(t=t, run=self._run, attempt=self._attempt, category=category)

    def _leg(self, leg: Leg) -> Iterator[KnownEvent]:
        restart, at_us = leg.restart, leg.begin_us
        for name, length_us in (("detect", restart.detect_us), ("replace", restart.replace_us)):
            yield from self._phase(name, at_us, length_us, leg.end_us)
            at_us += length_us
        at_us += restart.wait_us
        if not _is_up(leg):
            return
        self._attempt += 1
        world_size = self._design.elastic.replicas - leg.missing if self._design.elastic is not None else None
        yield AttemptStart(
            t=self._t(at_us), run=self._run, attempt=self._attempt, resume_step=leg.resume_step, world_size=world_size
        )
        for name, length_us in (("reload", restart.reload_us), ("warmup", restart.warmup_us)):
            yield from self._phase(name, at_us, length_us, leg.end_us)
            at_us += length_us
        if at_us <= leg.end_us:
            yield from self._training(leg, at_us)

    def _phase(self, name: str, begin_us: int, length_us: int, end_us: int) -> Iterator[KnownEvent]:
        """A phase of the restart, cut short where the next failure strikes."""
        length_us = min(length_us, end_us - begin_us)
        if length_us > 0:
            yield Phase(t=self._t(begin_us + length_us), run=self._run, name=name, dur=length_us / 1e6)

    def _training(self, leg: Leg, at_us: int) -> Iterator[KnownEvent]:
        """Rounds of steps and a save each, until the leg ends."""
        schedule, end_us = self._schedule, leg.end_us
        step = leg.resume_step
        steps, blocking_us = schedule.first_steps, schedule.first_blocking_us
        while True:
            whole = min(steps, (end_us - at_us) // schedule.one_us)
            yield from self._steps(step, whole, at_us)
            step += whole
            at_us += whole * schedule.one_us
            # A save that nothing is left for was not begun.
            if whole < steps or (at_us + blocking_us > end_us and at_us == end_us):
                return
            yield from self._save(step, at_us, blocking_us, leg)
            at_us += blocking_us
            if at_us >= end_us:
                return
            steps, blocking_us = schedule.steps, schedule.blocking_us

    def _steps(self, step: int, num: int, at_us: int) -> Iterator[KnownEvent]:
        one_us = self._schedule.one_us
        for done in range(0, num, self._record_steps):
            count = min(self._record_steps, num - done)
            t = self._t(at_us + (done + count) * one_us)
            dur = count * one_us / 1e6
            yield Step(
                t=t, run=self._run, attempt=self._attempt, rank=0, step=step + done + count, dur=dur, count=count
            )

    def _save(self, step: int, at_us: int, blocking_us: int, leg: Leg) -> Iterator[KnownEvent]:
        mode: Mode = "async" if self._design.is_asynchronous else "sync"
        saved = CheckpointSaved(
            t=self._t(at_us + blocking_us),
            run=self._run,
            attempt=self._attempt,
            rank=0,
            step=step,
            mode=mode,
            dur=blocking_us / 1e6,
        )
        if blocking_us:
            # What blocks no time is told by its end alone: at one time an end comes before a start.
            yield CheckpointStart(t=self._t(at_us), run=self._run, attempt=self._attempt, rank=0, step=step, mode=mode)
        if at_us + blocking_us > leg.end_us:
            return
        yield saved
        lands_us = at_us + blocking_us + self._schedule.persist_us
        if mode == "async" and lands_us <= leg.failed_us:
            yield CheckpointPersisted(
                t=self._t(lands_us),
                run=self._run,
                attempt=self._attempt,
                rank=0,
                step=step,
                dur=self._schedule.persist_us / 1e6,
            )
        if lands_us <= leg.failed_us:
            self._has_landed = step


def _is_up(leg: Leg) -> bool:
    """Whether the leg came so far that its processes ran."""
    restart = leg.restart
    return leg.begin_us + restart.detect_us + restart.replace_us + restart.wait_us < leg.end_us
