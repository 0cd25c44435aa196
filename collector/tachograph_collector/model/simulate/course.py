"""The course of one simulated run: its stretches in order, with what each began with and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tachograph_collector.model.simulate.corrupted import corrupted
from tachograph_collector.model.simulate.crashes import crashed
from tachograph_collector.model.simulate.design import Corruption, Design, Failures
from tachograph_collector.model.simulate.draws import Draws
from tachograph_collector.model.simulate.restarts import Parts, Rules
from tachograph_collector.model.simulate.stretches import landed_saves, training_us

End = Literal["failure", "corruption", "rejoin", "over"]


@dataclass(frozen=True, slots=True)
class Restart:
    """What precedes training, in order, whole microseconds; a failure may cut it short anywhere."""

    detect_us: int = 0
    replace_us: int = 0
    wait_us: int = 0
    """A planned stop waits until its save has landed."""
    reload_us: int = 0
    warmup_us: int = 0

    @property
    def total_us(self) -> int:
        """Until training begins."""
        return self.detect_us + self.replace_us + self.wait_us + self.reload_us + self.warmup_us


@dataclass(frozen=True, slots=True)
class Leg:
    """One stretch of one run; times in microseconds from the run's start."""

    begin_us: int
    end_us: int
    restart: Restart
    resume_step: int
    end: End
    failed_us: int
    """Until when its saves may land: ``end_us``, or the next failure after a planned stop."""
    is_by_peer: bool
    """The failure that ends it is made good from the newest snapshot, in a peer's memory."""
    missing: int


def course(design: Design, failures: Failures, duration_us: int, seed: int, index: int) -> list[Leg]:
    """The stretches of run ``index`` among those that ``simulate`` would simulate with these arguments."""
    if failures.corruption is not None:
        return _corrupted(design, failures, failures.corruption, duration_us, seed, index)
    rules = Rules.of(design)
    schedule, parts = rules.schedule, rules.parts
    stretches, after, _ = crashed(rules, Draws(failures, duration_us, seed, index), duration_us, 1)
    trained_us = training_us(stretches, schedule)
    saves = schedule.saves(trained_us)
    landed = landed_saves(stretches, schedule, trained_us, saves, peer_holds_newest=design.peer_holds_newest)
    steps, survives = schedule.steps_at(saves)[0], schedule.steps_at(landed)[0]
    shape = stretches.length_us.shape
    restarts_us = np.broadcast_to(stretches.restart_us, shape)[0]
    by_peer = np.broadcast_to(np.asarray(stretches.is_by_peer), shape)[0]
    halves = 2 if design.elastic is not None else 1
    reloads_us = np.broadcast_to(after.reload_us(parts), (1, shape[1] // halves))[0]
    legs: list[Leg] = []
    begin_us = surviving = resume = 0
    rejoined = False
    for k in range(int(stretches.last[0]) + 1):
        length_us = int(stretches.length_us[0, k])
        if not length_us:
            continue
        later_us = int(stretches.later_us[0, k]) if stretches.later_us is not None else 0
        rejoins = later_us > 0
        restart = Restart()
        if rejoined:
            restart = Restart(wait_us=schedule.persist_us, reload_us=parts.reload_us, warmup_us=parts.warmup_us)
        elif legs:
            restart = _restart(parts, int(restarts_us[k]), int(reloads_us[k // halves - 1]))
        end_us = begin_us + length_us
        end: End = "rejoin" if rejoins else "over" if end_us == duration_us else "failure"
        missing = int(stretches.missing[0, k]) if stretches.missing is not None else 0
        newest = design.peer_holds_newest and bool(by_peer[k])
        legs.append(Leg(begin_us, end_us, restart, resume, end, end_us + later_us, newest, missing))
        begin_us, rejoined = end_us, rejoins
        # A planned stop takes everything along; a failure soon after it can take back what hasn't landed by then.
        resume = surviving + int(steps[k])
        surviving += int(survives[k])
        resume = resume if rejoins else surviving
    return legs


def _restart(parts: Parts, total_us: int, reload_us: int) -> Restart:
    replace_us = total_us - parts.detect_us - reload_us - parts.warmup_us
    return Restart(parts.detect_us, replace_us, 0, reload_us, parts.warmup_us)


def _corrupted(
    design: Design, failures: Failures, corruption: Corruption, duration_us: int, seed: int, index: int
) -> list[Leg]:
    draws = Draws(failures, duration_us, seed, index)
    rules = Rules.of(design)
    booked = corrupted(rules, draws, corruption, duration_us, 1, remember=True)
    parts = rules.parts
    legs: list[Leg] = []
    resume, reload_us = 0, parts.reload_us
    for stop in booked.stops:
        by_peer = bool(stop.is_by_peer[0])
        end: End = "corruption" if stop.is_noticed[0] else "over" if stop.is_end[0] else "failure"
        restart = _restart(parts, int(stop.restart_us[0]), reload_us) if legs else Restart()
        newest = design.peer_holds_newest and by_peer
        end_us = int(stop.end_us[0])
        legs.append(Leg(int(stop.begin_us[0]), end_us, restart, resume, end, end_us, newest, 0))
        resume = int(stop.resume_steps[0])
        reload_us = parts.peer_reload_us if by_peer else parts.reload_us
    return legs
