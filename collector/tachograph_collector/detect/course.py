"""Where a run is: its attempt, what warm-up and replaying make of a step, and which saves can be gone back to."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    Failure,
    Rollback,
    RunEnd,
    RunStart,
    microseconds,
)

from tachograph_collector.detect.columns import StepColumns
from tachograph_collector.detect.settings import Common
from tachograph_collector.detect.verdict import Cost

SECOND_US: Final = 1_000_000
MAX_PAST: Final = 1_000
"""Names of attempts that are over, so that what comes late of them is told from a new one."""
MAX_SAVES: Final = 10_000
LEEWAY_US: Final = 5 * SECOND_US
"""Ranks tell their last steps so long after the one that failed, clocks and all."""


class Point(Struct, gc=False):
    """One record of the rank that an attempt is judged by. NaN where it doesn't say, but for ``has_*``."""

    t_us: int
    step: int
    count: int
    one_s: float
    dur_s: float
    loss: float
    has_loss: bool
    norm: float
    has_norm: bool
    is_eligible: bool
    """Not in warm-up."""


class Landed(Struct):
    """A save that can be gone back to, by the tiers that hold it."""

    step: int
    landed_us: int
    tiers: list[str]


class Course(Struct):
    """What all detectors of a run know in common. All of it is saved."""

    attempt: str | None = None
    attempt_start_us: int = 0
    past: list[str] = field(default_factory=list)
    first_us: int | None = None
    """When the attempt's first record began."""
    base_step: int = 0
    """The step that its first record began after."""
    eligible_step: int | None = None
    """Steps from this one on are compared; None in warm-up."""
    eligible_one_s: float | None = None
    """The time of one step at the end of warm-up."""
    lead: int | None = None
    loss_lead: int | None = None
    last_step: int | None = None
    last_us: int | None = None
    one_s: float | None = None
    """The time of one step, smoothed."""
    max_told: int = 0
    """The greatest step of the attempt that any rank told."""
    top_step: int = 0
    """The greatest step of the attempts before; what is not above it is replayed."""
    max_step: int = 0
    world_size: int | None = None
    price_per_gpu_hour: float | None = None
    landed: list[Landed] = field(default_factory=list)
    nodes: dict[int, str | None] = field(default_factory=dict)
    stages: dict[int, int | None] = field(default_factory=dict)
    ended_us: int | None = None
    """When the attempt failed or was stopped; None while it runs."""
    ended_step: int = 0
    """The greatest step that any rank had told by then."""
    attempt_of_start: str | None = None
    """The attempt that was told to be up, before it has stepped."""

    @property
    def is_replayed(self) -> bool:
        """Whether the run does now what an earlier attempt had done."""
        return self.last_step is not None and self.last_step <= self.top_step

    def begin(self, attempt: str, at_us: int) -> None:
        """A new attempt, or the same name anew: everything that is compared starts afresh."""
        if self.attempt is not None and self.attempt != attempt:
            self.past.append(self.attempt)
            del self.past[:-MAX_PAST]
        if attempt in self.past:
            self.past.remove(attempt)
        self.attempt, self.attempt_start_us = attempt, at_us
        self.top_step = max(self.top_step, self.max_step)
        self.first_us = self.last_us = self.last_step = self.eligible_step = self.one_s = None
        self.lead = self.loss_lead = self.ended_us = None
        self.nodes, self.stages, self.max_told = {}, {}, 0

    def note(self, t_us: int, step: int, count: int, dur_s: float, settings: Common) -> bool:
        """Take a record of the lead; says whether it is past warm-up."""
        has_dur = dur_s == dur_s
        if self.first_us is None:
            self.first_us = t_us - (round(dur_s * SECOND_US) if has_dur else 0)
            self.base_step = step - count
        if has_dur:
            one_s = dur_s / count
            self.one_s = one_s if self.one_s is None else 0.9 * self.one_s + 0.1 * one_s
        self.last_step, self.last_us = step, t_us
        self.max_step = max(self.max_step, step)
        if self.eligible_step is None and (
            step - self.base_step > settings.warmup_steps and t_us - self.first_us >= settings.warmup_s * SECOND_US
        ):
            self.eligible_step, self.eligible_one_s = step, self.one_s
        return self.eligible_step is not None

    def goes_on(self, columns: StepColumns) -> int | None:
        """Whether these steps are of an attempt that runs: since when, where they show that its end was none.

        Ranks end their last step one after the other, by clocks that differ: what they still tell of it after one has
        failed is no sign of life. None if all of it is of that kind; 0 if the attempt had not ended.
        """
        if self.ended_us is None:
            return 0
        alive = (columns.step > self.ended_step) & (columns.t_us > self.ended_us + LEEWAY_US)
        if not alive.any():
            return None
        self.ended_us = None
        return int(columns.t_us[alive].min())

    def hear(self, event: AnyEvent) -> None:
        """Take what is said of the run and its saves."""
        match event:
            case Failure() | AttemptEnd() if event.attempt is not None and str(event.attempt) != self.attempt:
                return
            case Failure() | AttemptEnd() | RunEnd():
                if self.ended_us is None:
                    self.ended_us, self.ended_step = microseconds(event.t), self.max_told
            case Rollback():
                self.ended_us = None
            case _:
                pass
        match event:
            case RunStart() | AttemptStart():
                if isinstance(event, AttemptStart):
                    self.ended_us = None
                self.world_size = event.world_size or self.world_size
                if isinstance(event, RunStart):
                    self.world_size = self.world_size or event.gpus
                    price = event.price_per_gpu_hour
                    self.price_per_gpu_hour = price if price is not None and price >= 0 else self.price_per_gpu_hour
            case CheckpointSaved(mode="sync"):
                self._land(event.step, event.tier or "storage", microseconds(event.t))
            case CheckpointPersisted():
                self._land(event.step, event.tier, microseconds(event.t))
            case CheckpointFailed():
                self.landed = [one for one in self.landed if one.step != event.step]
            case CheckpointDeleted():
                for one in self.landed:
                    if one.step == event.step:
                        one.tiers = [tier for tier in one.tiers if event.tier is not None and tier != event.tier]
                self.landed = [one for one in self.landed if one.tiers]
            case _:
                pass

    def _land(self, step: int, tier: str, at_us: int) -> None:
        if tier not in ("storage", "peer"):
            return
        for one in reversed(self.landed):
            if one.step == step:
                if tier not in one.tiers:
                    one.tiers.append(tier)
                return
        self.landed.append(Landed(step, at_us, [tier]))
        del self.landed[:-MAX_SAVES]

    def went_back(self, to_step: int) -> None:
        """The run goes on from ``to_step``: saves beyond it belong to no run any more."""
        self.landed = [one for one in self.landed if one.step <= to_step]

    def newest_before(self, step: int) -> Landed | None:
        """The newest landed save of a step at or before ``step``."""
        return max((one for one in self.landed if one.step <= step), key=lambda one: one.step, default=None)

    def gpu_hours(self, seconds: float) -> float | None:
        """What so many seconds of the whole run cost; None where nobody says how many GPUs."""
        return None if self.world_size is None else seconds * self.world_size / 3600

    def cost(self, wall_s: float | None, basis: str) -> Cost | None:
        """So many seconds of the whole job in GPU-hours and money; None where the seconds aren't known.

        GPU-hours are ``wall_s * world_size / 3600``, money is that times the price of a GPU-hour. Each is None where
        nobody told the factor. Example: 90 s of 64 GPUs at 2.5 are 1.6 GPU-hours and 4.0 in money.
        """
        if wall_s is None or not math.isfinite(wall_s):
            return None
        hours, price = self.gpu_hours(wall_s), self.price_per_gpu_hour
        money = None if hours is None or price is None else hours * price
        return Cost(wall_s=wall_s, gpu_hours=hours, money=money, basis=basis)
