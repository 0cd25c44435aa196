"""torchtitan's structured trace: what its spans become."""

from __future__ import annotations

import json

import adapter_runs
import pytest
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.events import decode, encode
from tachograph_agent.trainers.torchtitan_trace import TorchtitanTrace


def test_a_step_has_its_sections_and_ends_where_its_save_begins() -> None:
    events, _ = read(TorchtitanTrace(), samples_b.trace())
    first, second = steps(events)
    assert (first.step, first.rank, first.node) == (41, 0, "node-0")
    assert first.dur == pytest.approx(1.0001)
    assert second.dur == pytest.approx(1.0)
    assert second.sections == pytest.approx({"data": 0.2, "forward_backward": 0.6, "optimizer": 0.2})
    assert second.busy_s == pytest.approx(0.8)
    assert second.loss == 2.5
    (save,) = of(events, "checkpoint.saved")
    assert second.t == pytest.approx(save.t - save.dur)


def test_only_a_tagged_save_is_a_save_and_none_is_said_to_have_landed() -> None:
    events, context = read(TorchtitanTrace(), samples_b.trace())
    (save,) = of(events, "checkpoint.saved")
    assert (save.step, save.mode) == (42, "async")
    assert save.dur == pytest.approx(3.0)
    assert any("landed" in note for note in context.notes)


def test_start_reload_and_evaluation_are_told() -> None:
    events, _ = read(TorchtitanTrace(), samples_b.trace())
    (start,) = of(events, "attempt.start")
    assert (start.resume_step, start.t) == (40, 1_900_000_000.0)
    assert [(phase.name, round(phase.dur, 6)) for phase in of(events, "phase")] == [("reload", 10.0), ("eval", 2.0)]


def test_ranks_that_follow_one_another_are_kept_apart() -> None:
    events, _ = read(TorchtitanTrace(), samples_b.trace(0) + samples_b.trace(3))
    assert [(step.rank, step.step) for step in steps(events)] == [(0, 41), (0, 42), (3, 41), (3, 42)]
    assert [start.rank for start in of(events, "attempt.start")] == [0, 3]


def test_values_that_are_no_milliseconds_give_way_to_the_times() -> None:
    events, context = read(TorchtitanTrace(), samples_b.trace(unit=1.0))
    assert [round(step.dur or 0.0, 3) for step in steps(events)] == [1.0, 1.0]
    assert any("time_us" in note for note in context.notes)


def test_a_section_longer_than_anything_lasts_is_unknown_and_its_step_can_be_stored() -> None:
    trace = samples_b.trace().replace('"value": 100.0', '"value": 1.1e20')
    assert trace != samples_b.trace()
    trace = "\n".join(line for line in trace.split("\n") if '"fetching_batch_start"' not in line)
    events, _ = read(TorchtitanTrace(), trace)
    assert [step.step for step in steps(events)] == [41, 42]
    for event in events:
        assert decode(encode(event)).kind == event.kind
    assert [step.sections and step.sections.get("data") for step in steps(events)] == [None, None]


def test_an_exception_is_one_failure_and_its_step_was_not_completed() -> None:
    base = {"rank": 2, "host_name": "node-2", "step": 7, "relative_step": 7}
    names = [
        ("step_start", ""),
        ("fwd_bwd_start", ""),
        ("fwd_bwd_error", "[step 7] fwd_bwd_error: OutOfMemoryError: CUDA out of memory."),
        ("fwd_bwd_end", ""),
        ("step_error", "[step 7] step_error: OutOfMemoryError: CUDA out of memory."),
        ("step_end", ""),
    ]
    records = [
        base | {"log_type_name": name, "time_us": (1_900_000_000 + second) * 1_000_000, "message": message}
        for second, (name, message) in enumerate(names)
    ]
    events, _ = read(TorchtitanTrace(), "".join(json.dumps(record) + "\n" for record in records))
    (failure,) = of(events, "failure")
    assert (failure.rank, failure.node) == (2, "node-2")
    assert "out of memory" in failure.detail
    assert failure.category != "unknown"
    assert steps(events) == []


def test_damaged_traces_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(TorchtitanTrace(), samples_b.trace())
    assert TorchtitanTrace().sniff("") == 0.0
    assert read(TorchtitanTrace(), "")[0] == []
    events, context = read(TorchtitanTrace(), "prose\n[1, 2]\n{}\n")
    assert events == []
    assert context.skipped_lines == 3


@pytest.mark.parametrize(
    "odd",
    [
        '{"log_type_name": "step_end", "time_us": 1e400, "step": 5}',
        '{"log_type_name": "step_end", "time_us": -5, "step": 5}',
        '{"log_type_name": "step_end", "time_us": 1900000000000000, "step": 99999999999999999999}',
        '{"log_type_name": "step_end", "time_us": 1900000000000000, "step": true, "value": NaN}',
        '{"log_type_name": 5, "time_us": 1900000000000000}',
        "[" * 100_000,
    ],
)
def test_odd_records_give_no_step_and_no_exception(odd: str) -> None:
    events, _ = read(TorchtitanTrace(), odd)
    assert steps(events) == []
