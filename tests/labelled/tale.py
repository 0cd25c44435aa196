"""A run told from its beginning: steps, saves, pauses, failures and new attempts, one after the other."""

from __future__ import annotations

import numpy as np
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Phase,
    PhaseStart,
    RunEnd,
    RunStart,
)
from tachograph_collector.detect.columns import StepColumns
from tachograph_collector.detect.scoring import Expected

from labelled.columns import step_columns, work
from labelled.scenario import RUN, SECOND_US, T0, Told


class Tale:
    """``t`` is now, ``step`` the last one done. Whatever happens moves ``t`` on."""

    def __init__(
        self,
        seed: int,
        *,
        step_s: float = 10.0,
        noise: float = 0.02,
        family: str = "dense",
        num_ranks: int = 8,
        planned_interval_s: float | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.step_s, self.noise, self.family, self.num_ranks = step_s, noise, family, num_ranks
        self.t, self.step, self.attempt = T0, 0, 0
        self.events: list[AnyEvent] = [
            RunStart(t=T0, run=RUN, world_size=num_ranks, planned_interval_s=planned_interval_s),
            AttemptStart(t=T0, run=RUN, attempt=0, resume_step=0),
        ]
        self.columns: list[StepColumns] = []
        self.labels: list[Expected] = []

    def told(self) -> Told:
        """All of it."""
        return Told(self.labels, self.columns, self.events)

    def expect(self, detector: str, *, also: tuple[str, ...] = (), subjects: tuple[str, ...] = ()) -> None:
        """From now on this is wrong."""
        since_us = round(self.t * SECOND_US)
        self.labels.append(Expected(detectors=(detector,), subjects=subjects, since_us=since_us, also=also))

    def steps(self, num: int, *, factor: float | np.ndarray = 1.0, absent: tuple[int, ...] = ()) -> None:
        """``num`` steps, ``factor`` times as long as usual; ``absent`` ranks tell none of them."""
        busy = 0.8 * self.step_s * work(self.rng, self.family, num, self.num_ranks, noise=self.noise)
        busy *= np.broadcast_to(factor, num)[:, None]
        dur_s = busy.max(axis=1) + 0.2 * self.step_s
        ends_s = self.t + np.cumsum(dur_s)
        columns = step_columns(
            ends_s, dur_s, work_s=busy, first_step=self.step + 1, attempt=str(self.attempt), stages=0
        )
        if absent:
            columns = columns.take(~np.isin(columns.rank, absent))
        self.columns.append(columns)
        self.t, self.step = float(ends_s[-1]), self.step + num

    def idle(self, seconds: float) -> None:
        """Nothing happens."""
        self.t += seconds

    def sync(self, dur_s: float = 5.0, *, step: int | None = None) -> None:
        """A save that holds training up and has landed then."""
        step = self.step if step is None else step
        common = {"run": RUN, "attempt": self.attempt, "rank": 0, "step": step}
        self.events.append(CheckpointStart(t=self.t + 0.1, **common))
        self.t += 0.1 + dur_s
        self.events.append(CheckpointSaved(t=self.t, dur=dur_s, **common))

    def deferred(self, lands_after_s: float | None, *, blocks_s: float = 0.8) -> None:
        """An asynchronous save that lands so long after it began, or never."""
        common = {"run": RUN, "attempt": self.attempt, "rank": 0, "step": self.step}
        begin = self.t + 0.1
        self.events.append(CheckpointStart(t=begin, mode="async", **common))
        self.t = begin + blocks_s
        self.events.append(CheckpointSaved(t=self.t, dur=blocks_s, mode="async", **common))
        if lands_after_s is not None:
            self.events.append(CheckpointPersisted(t=begin + lands_after_s, dur=lands_after_s, **common))

    def save_fails(self) -> None:
        """It begins and fails."""
        common = {"run": RUN, "attempt": self.attempt, "rank": 0, "step": self.step}
        self.events.append(CheckpointStart(t=self.t + 0.1, **common))
        self.t += 3.0
        self.events.append(CheckpointFailed(t=self.t, error="no space left", **common))

    def delete(self, step: int) -> None:
        """A checkpoint goes."""
        self.events.append(CheckpointDeleted(t=self.t, run=RUN, attempt=self.attempt, step=step, tier="storage"))

    def evaluate(self, dur_s: float, *, is_begun: bool = True) -> None:
        """An evaluation; without ``is_begun`` it is told at its end only."""
        if is_begun:
            self.events.append(PhaseStart(t=self.t + 0.1, run=RUN, attempt=self.attempt, name="eval"))
        self.t += dur_s
        self.events.append(Phase(t=self.t, run=RUN, attempt=self.attempt, name="eval", dur=dur_s))

    def fail(self, *, category: str = "gpu", node: str | None = None) -> None:
        """The attempt dies."""
        self.expect("failure", subjects=("run",))
        self.events.append(Failure(t=self.t, run=RUN, attempt=self.attempt, category=category, node=node))

    def stop(self) -> None:
        """The attempt is stopped, as planned."""
        self.events.append(AttemptEnd(t=self.t, run=RUN, attempt=self.attempt, planned=True, reason="maintenance"))

    def resume(self, step: int, *, after_s: float = 120.0) -> None:
        """The next attempt, from a step."""
        self.t += after_s
        self.attempt, self.step = self.attempt + 1, step
        self.events.append(AttemptStart(t=self.t, run=RUN, attempt=self.attempt, resume_step=step))
        self.t += 20.0

    def end(self) -> None:
        """It is done."""
        self.t += 1.0
        self.events.append(RunEnd(t=self.t, run=RUN, status="completed"))
