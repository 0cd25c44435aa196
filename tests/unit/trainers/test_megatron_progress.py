"""Megatron's progress.txt: attempts, durable saves, and the steps that they prove."""

from __future__ import annotations

from adapter_runs import assert_silent_on_nothing, assert_survives_damage, of, read, steps
from megatron_lines_made_up import BEGIN_S
from tachograph_agent.trainers.megatron_progress import MegatronProgress

ADAPTER = MegatronProgress()


def line(at: str, job: int, what: str) -> str:
    return f"2030-01-02 {at}\tJob ID: {job}\t# GPUs: 64\t{what}"


def saved(step: int, word: str = "Saved") -> str:
    return f"{word} checkpoint\tIteration: {step}\tJob throughput: 400.0 TFLOP/s/GPU\tTokens (in billions): 1.00"


TEXT = "\n".join(
    [
        line("03:00:00", 11, "Starting job"),
        line("03:33:20", 11, saved(100)),
        line("03:50:00", 11, saved(200)),
        line("04:20:00", 12, "Starting job"),
        line("04:50:00", 12, saved(300)),
    ]
)


def test_every_start_is_an_attempt_with_its_gpus() -> None:
    events, context = read(ADAPTER, TEXT)
    starts = of(events, "attempt.start")
    assert [(s.attempt, s.world_size, s.resume_step, s.t - BEGIN_S) for s in starts] == [
        (0, 64, None, 0.0),
        (1, 64, None, 4800.0),
    ]
    assert of(events, "run.start")[0].gpus == 64
    assert context.skipped_lines == 0


def test_a_save_lands_and_proves_its_steps_at_the_pace_between_saves() -> None:
    events, context = read(ADAPTER, TEXT)
    assert [(s.step, s.attempt, s.t - BEGIN_S) for s in of(events, "checkpoint.saved")] == [
        (100, 0, 2000.0),
        (200, 0, 3000.0),
        (300, 1, 6600.0),
    ]
    assert [(s.step, s.count, s.dur) for s in steps(events)] == [
        (100, 100, 1000.0),
        (200, 100, 1000.0),
        (300, 100, 1000.0),
    ]
    assert any("reckoned" in note for note in context.notes)


def test_without_a_second_save_the_pace_is_unknown() -> None:
    (step,) = steps(read(ADAPTER, "\n".join(TEXT.splitlines()[:2]))[0])
    assert (step.step, step.count, step.dur) == (100, 100, None)


def test_after_a_rollback_the_next_save_counts_from_the_newest_below_it() -> None:
    text = "\n".join([*TEXT.splitlines()[:4], line("05:00:00", 12, saved(150)), line("05:20:00", 12, saved(250))])
    assert [(s.step, s.count, s.attempt) for s in steps(read(ADAPTER, text)[0])][2:] == [(150, 50, 1), (250, 100, 1)]


def test_an_asynchronous_save_is_persisted_by_its_second_line() -> None:
    lines = [line("03:00:00", 11, "Starting job"), line("03:10:00", 11, saved(100, "Saving async"))]
    events, _ = read(ADAPTER, "\n".join([*lines, line("03:11:00", 11, saved(100, "Saved async"))]))
    assert [(e.mode, e.t - BEGIN_S) for e in of(events, "checkpoint.saved")] == [("async", 600.0)]
    assert [(e.step, e.t - BEGIN_S) for e in of(events, "checkpoint.persisted")] == [(100, 660.0)]
    assert len(steps(events)) == 1


def test_damage_never_raises_and_lines_of_another_kind_are_counted() -> None:
    assert_survives_damage(ADAPTER, TEXT)
    assert ADAPTER.sniff(TEXT) > 0.9
    events, context = read(ADAPTER, "what is this\n" + TEXT)
    assert context.skips[0].line_number == 1
    assert len(steps(events)) == 3


def test_prose_is_not_recognised() -> None:
    assert ADAPTER.sniff("Dear diary,\n") == 0.0
    assert_silent_on_nothing(ADAPTER)
