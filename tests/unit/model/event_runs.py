"""Made-up runs as event logs, booked by the ledger: what the judge sees of a run, from end to end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tachograph_agent.events import (
    AttemptEnd,
    AttemptStart,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    KnownEvent,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_collector.ledger import Books, Details, Ledger

START = 1_772_323_200.0
DAY = 86_400.0
RUN = "made-up"


@dataclass(kw_only=True)
class Design:
    """How the run goes; seconds."""

    days: float = 7.0
    tau: float = 2_240.0
    cost: float = 60.0
    restart: float = 900.0
    mtbf: float = 43_200.0
    persist: float | None = None
    """Saves are asynchronous and land so long after their blocking part."""
    stall_a_day: float = 0.0
    """Seconds a day that steps stand still, in lumps of ten minutes."""
    failing_saves: float = 0.0
    """The share of saves that don't land."""
    failures: list[float] | None = None
    """When failures strike, from the start; by chance if not given."""
    planned: dict[float, float] = field(default_factory=dict)
    """Planned stops, after a save of their own: when, and how long the machines are away."""
    records: int = 4
    """Step records an interval."""
    start: RunStart = field(default_factory=lambda: RunStart(t=START, run=RUN))


def events(design: Design, seed: int = 0) -> list[KnownEvent]:
    """The log of one run."""
    rng = np.random.default_rng(seed)
    end = design.days * DAY
    if design.failures is None:
        gaps = rng.exponential(design.mtbf, int(end / design.mtbf * 3 + 30))
        strikes = [float(at) for at in np.cumsum(gaps) if at < end]
    else:
        strikes = list(design.failures)
    writer = _Writer(design, rng, [*strikes, float("inf")], end)
    writer.run()
    return writer.log


def booked(design: Design, seed: int = 0) -> tuple[Books, Details]:
    """The run as the ledger books it."""
    ledger = Ledger()
    ledger.add(events(design, seed))
    return ledger.books(RUN), ledger.details(RUN)


class _Writer:
    def __init__(self, design: Design, rng: np.random.Generator, strikes: list[float], end: float) -> None:
        self.design, self.rng, self.strikes, self.end = design, rng, strikes, end
        self.log: list[KnownEvent] = [design.start]
        self.step = self.landed = self.attempt = 0
        self.planned = sorted(design.planned)

    def add(self, kind: type, at: float, **fields: object) -> None:
        self.log.append(kind(t=START + at, run=RUN, **fields))

    def run(self) -> None:
        begin, away = 0.0, 1.0
        while begin < self.end:
            self.step = self.landed
            # The processes are up when the machines are there; the rest of the restart is theirs.
            self.add(AttemptStart, begin + away, attempt=self.attempt, resume_step=self.landed)
            begin, away = self.work(begin, begin + away - 1.0 + self.design.restart)
            self.attempt += 1
        self.add(RunEnd, self.end, status="completed")

    def work(self, begin: float, resume: float) -> tuple[float, float]:
        """One attempt; gives when the next begins and how long the machines are away."""
        while self.strikes[0] <= begin:
            self.strikes.pop(0)
        strike = self.strikes[0]
        at = resume
        while True:
            for _ in range(self.design.records):
                length = self.design.tau / self.design.records
                stop = min(strike, self.end)
                if at + length > stop:
                    return self.cut(at, length, stop)
                expected_stalls = self.design.stall_a_day / 600.0 * length / DAY
                at += length + (600.0 if self.rng.random() < expected_stalls else 0.0)
                self.step += 10
                if at > stop:
                    return self.fail_or_end(stop)
                self.add(Step, at, attempt=self.attempt, rank=0, step=self.step, count=10, dur=length)
            if at + self.design.cost > min(strike, self.end):
                self.add(CheckpointStart, at, attempt=self.attempt, step=self.step, mode=self.mode)
                return self.fail_or_end(min(strike, self.end))
            at = self.save(at, strike)
            if self.planned and at > self.planned[0]:
                away = self.design.planned[self.planned.pop(0)]
                self.add(AttemptEnd, at, attempt=self.attempt, planned=True)
                return at, away

    @property
    def mode(self) -> str:
        return "sync" if self.design.persist is None else "async"

    def save(self, at: float, strike: float) -> float:
        self.add(CheckpointStart, at, attempt=self.attempt, step=self.step, mode=self.mode)
        at += self.design.cost
        if self.rng.random() < self.design.failing_saves:
            self.add(CheckpointFailed, at, attempt=self.attempt, step=self.step)
            return at
        self.add(CheckpointSaved, at, attempt=self.attempt, step=self.step, mode=self.mode, dur=self.design.cost)
        if self.design.persist is None:
            self.landed = self.step
        elif at + self.design.persist < min(strike, self.end):
            self.add(CheckpointPersisted, at + self.design.persist, attempt=self.attempt, step=self.step)
            self.landed = self.step
        return at

    def cut(self, at: float, length: float, stop: float) -> tuple[float, float]:
        """The steps that were done before it ended."""
        num = int((stop - at) / length * 10)
        if num > 0:
            self.step += num
            at += num * length / 10
            self.add(Step, at, attempt=self.attempt, rank=0, step=self.step, count=num, dur=num * length / 10)
        return self.fail_or_end(stop)

    def fail_or_end(self, stop: float) -> tuple[float, float]:
        if stop < self.end:
            self.add(Failure, stop, attempt=self.attempt, category="gpu")
        return stop, 1.0
