"""What is said of incidents: numbers in a unit that fits, and something to do about each."""

from __future__ import annotations

import pytest
from detect_streams import RUN, T0, Slow, found, ranks
from msgspec.structs import replace
from tachograph_agent.events import AttemptStart, CheckpointSaved, Health, RunStart, Step
from tachograph_collector.detect import Incident


def moving() -> list[Slow]:
    """Another rank is slow every three windows."""
    return [Slow(rank=place % 8, factor=1.3, begin=40 + 20 * place, end=60 + 20 * place) for place in range(16)]


SLOW = {
    "a rank": [Slow(5, 1.3, 60)],
    "a rank for a moment": [Slow(5, 2.0, 60, 66)],
    "many ranks": [Slow(rank, 1.3, 60) for rank in range(3)],
    "one after the other": moving(),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("with_nodes", [True, False])
def test_whoever_is_slow_there_is_something_to_do(slow: list[Slow], with_nodes: bool) -> None:
    told = ranks(8, 400, slow=slow)
    if not with_nodes:
        told = [replace(one, node=None) if isinstance(one, Step) else one for one in told]
    said = [one for one in found(told) if one.detector.startswith("straggler")]
    assert said
    for one in said:
        assert one.advice


def test_a_brief_straggler_is_told_with_its_node() -> None:
    (one,) = [one for one in found(ranks(8, 200, slow=SLOW["a rank for a moment"])) if one.detector.endswith("episode")]
    assert one.summary.startswith("rank 5 on n1 held the others up for 6 steps: ")


def overdue(interval_s: float) -> Incident:
    """Saves come at an interval, and then none does."""
    steps = [Step(t=T0 + 10 * place, run=RUN, attempt=0, rank=0, step=place, dur=10.0) for place in range(1, 3000)]
    saves = [
        CheckpointSaved(t=T0 + place * interval_s + 1, run=RUN, attempt=0, rank=0, step=place, dur=1.0)
        for place in range(1, 7)
    ]
    start = [RunStart(t=T0, run=RUN), AttemptStart(t=T0, run=RUN, attempt=0)]
    (one,) = [one for one in found([*start, *steps, *saves]) if one.detector == "checkpoint_overdue"]
    return one


@pytest.mark.parametrize(("interval_s", "words"), [(10, "every 10 s"), (90, "every 1.5 min"), (1800, "every 30 min")])
def test_an_interval_of_seconds_is_none_of_0_minutes(interval_s: float, words: str) -> None:
    assert f"usually one does {words}" in overdue(interval_s).summary


CHECKS = ("clock", "disk", "ecc", "gpu_missing", "hung_task", "ib", "link", "machine_check", "memory", "nvlink", "nvml",
          "oom", "row_remap", "stuck", "throttle", "one that nobody knows")  # fmt: skip


def test_what_to_do_about_a_sick_node_depends_on_what_is_wrong() -> None:
    advice = {}
    for check in CHECKS:
        sick = Health(t=T0 + 100, run=RUN, node="n1", check=check, severity="critical", value=40.0, detail="wrong")
        (one,) = [one for one in found([*ranks(8, 60), sick]) if one.detector == "node_health"]
        advice[check] = one.advice
        assert one.evidence.unit == ("s" if check == "clock" else "")
    assert all(advice.values())
    assert "chrony" in (advice["clock"] or "")
    assert len(set(advice.values())) >= len(CHECKS) - 3
