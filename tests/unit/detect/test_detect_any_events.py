"""Whatever the events say, the detectors judge it, save it and go on from there as if nothing had been."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from detect_streams import RUN, T0
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
    Health,
    Phase,
    PhaseStart,
    Rollback,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_collector.detect import Detectors
from tachograph_collector.detect.incident_json import incident_object

LARGEST = 2**63 - 1
ODD = (None, 0.0, 1.0, 1e-300, 1e308, 2.5, -3.0, math.nan, math.inf, -math.inf)
SECTIONS = (None, None, {"wait": 0.1}, {"wait": math.nan}, {"forward": -5.0}, {"forward": 1e308, "backward": 1e308}, {})


def odd_events(seed: int, num: int) -> list[AnyEvent]:
    """Events that are valid one by one and make little sense together."""
    dice = random.Random(seed)
    t, step, events = T0, 0, []
    for _ in range(num):
        t += dice.choice((0, 0, 0.5, 1, 2, 5, 100, 5000))
        common = {
            "t": max(0.0, t - dice.choice((0, 0, 0, 1, 50, 5000, 1.7e9))),
            "run": RUN,
            "attempt": dice.choice((0, 0, 0, 1, "x", None)),
            "rank": dice.choice((0, 0, 1, 2, 3, 4, 5, None, LARGEST)),
            "node": dice.choice((None, "a", "b")),
        }
        step = max(0, step + dice.choice((0, 1, 1, 1, 1, -5, 100)))
        events.append(odd_step(dice, common, step) if dice.random() < 0.7 else odd_other(dice, common, step))
    return events


def odd_step(dice, common, step):
    return Step(
        **common,
        step=dice.choice((step, step, step, step, step, step, step, LARGEST)),
        count=dice.choice((1, 1, 1, 10, LARGEST)),
        dur=dice.choice((None, 0.0, 1.0, 2.0, 1e-9, 366 * 86_400.0)),
        loss=dice.choice((*ODD, dice.random())),
        grad_norm=dice.choice((*ODD, dice.random())),
        busy_s=dice.choice((None, 0.0, 0.5, 1.0, 9.0, 2e11)),
        stage=dice.choice((None, 0, 1, -7, 2**70)),
        sections=dice.choice(SECTIONS),
    )


def odd_other(dice, common, step):
    sizes, tiers = (None, 0, 8, LARGEST), (None, "local", "storage", "weird")
    makers = (
        lambda: RunStart(**common, world_size=dice.choice(sizes), planned_interval_s=dice.choice((None, 0.0, 100.0))),
        lambda: RunStart(**common, price_per_gpu_hour=dice.choice((math.nan, -1.0, 2.0)), checkpoints="unseen"),
        lambda: RunEnd(**common),
        lambda: AttemptStart(**common, resume_step=dice.choice((None, 0, step))),
        lambda: AttemptEnd(**common, planned=dice.random() < 0.5),
        lambda: Failure(**common, category="odd"),
        lambda: CheckpointStart(**common, step=step),
        lambda: CheckpointSaved(**common, step=step, dur=dice.choice((None, 0.0, 3.0, 1e7)), tier=dice.choice(tiers)),
        lambda: CheckpointPersisted(**common, step=step, dur=dice.choice((None, 1.0, 1e7)), tier="storage"),
        lambda: CheckpointFailed(**common, step=step, error="x" * 1000),
        lambda: CheckpointDeleted(**common, step=step, tier=dice.choice((None, "storage"))),
        lambda: Phase(**common, name=dice.choice(("eval", "reload", "?")), dur=dice.choice((None, 5.0, 1e7))),
        lambda: PhaseStart(**common, name=dice.choice(("eval", "reload", "compile"))),
        lambda: Rollback(**common, to_step=step),
        lambda: odd_health(dice, common, step),
    )
    return dice.choice(makers)()


def odd_health(dice, common, step):
    return Health(
        **common,
        check=dice.choice(("xid", "xid", "gpu_lost", "disk", "clock", "checksum", "kernel", "")),
        gpu=dice.choice((None, 0, "0000:3b:00", [1])),
        value=dice.choice((None, 79, 31, 63, "94", -1, 10**30, {}, math.nan)),
        severity=dice.choice((None, "info", "warning", "critical", "odd")),
        detail=dice.choice((None, "fatal", "x" * 1000)),
        unknown_fields={"open": dice.choice((True, False, None)), "step": step, "xids": {"48": dice.choice((1, None))}},
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_events_are_too_odd_to_be_judged_told_and_saved(seed):
    events = odd_events(seed, 20 * (1 + seed % 10))
    detectors = Detectors()
    detectors.add(events)
    detectors.look()
    incidents = detectors.incidents()
    for one in incidents:
        assert one.opened_us <= one.found_us
        assert one.cleared_us is None or one.cleared_us >= one.opened_us
        msgspec.json.encode(incident_object(one))
    assert len({(one.detector, one.subject) for one in incidents if one.cleared_us is None}) == sum(
        one.cleared_us is None for one in incidents
    )
    saved = detectors.save()
    restored = Detectors()
    restored.restore(saved)
    assert restored.incidents() == incidents
    assert restored.save() == saved


@pytest.mark.parametrize("seed", range(40, 50))
def test_a_restart_amid_odd_events_changes_nothing(seed):
    events = odd_events(seed, 200)
    through, restarted = Detectors(), Detectors()
    for begin in range(0, 200, 20):
        now_us = round(events[begin + 19].t * 1e6)
        for each in (through, restarted):
            each.add(events[begin : begin + 20])
        assert through.look(now_us) == restarted.look(now_us)
        saved, restarted = restarted.save(), Detectors()
        restarted.restore(saved)
