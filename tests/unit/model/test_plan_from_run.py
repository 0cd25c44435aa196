"""A plan's numbers from a run's own books: what it measured, with its samples, and what stays a guess."""

from __future__ import annotations

import pytest
from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Phase,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.estimate import measure
from tachograph_collector.model.plan.inputs import layered
from tachograph_collector.model.plan.measured import FromRun, from_run

T0 = 1_800_000_000.0
NUM_ATTEMPTS = 4


def a_run(*, mode: str = "async", phases: bool = True, failures: int = 3) -> list[AnyEvent]:
    """Attempts of 100 steps of 60 s with a save of 4 s (and 30 s more to land) every ten.

    A failure is noticed 100 s after the last step, 60 of which a step was in flight; the way back takes 940 s.
    """
    events: list[AnyEvent] = [RunStart(t=T0, run="r", world_size=64, price_per_gpu_hour=2.0)]
    now, step = T0, 0
    for attempt in range(failures + 1):
        common = {"run": "r", "attempt": attempt, "rank": 0}
        events.append(AttemptStart(t=now, run="r", attempt=attempt, resume_step=step))
        for _ in range(100):
            now, step = now + 60, step + 1
            events.append(Step(t=now, step=step, dur=60.0, **common))  # type: ignore[arg-type]  # fields by name
            if step % 10 == 0:
                # the fields come by name, which the checker can't see
                events.append(CheckpointStart(t=now, step=step, mode=mode, **common))  # type: ignore[arg-type]
                now += 4
                events.append(
                    # the fields come by name, which the checker can't see
                    CheckpointSaved(t=now, step=step, mode=mode, bytes=10**12, **common)  # type: ignore[arg-type]
                )
                if mode == "async":
                    events.append(CheckpointPersisted(t=now + 30, run="r", attempt=attempt, step=step))
        if attempt < failures:
            now += 100
            events.append(Failure(t=now, run="r", attempt=attempt, category="gpu"))
            if phases:
                for name, dur in (("detect", 200.0), ("replace", 500.0), ("reload", 180.0), ("warmup", 20.0)):
                    now += dur
                    events.append(Phase(t=now, run="r", attempt=attempt + 1, name=name, dur=dur))
            else:
                now += 900
    events.append(RunEnd(t=now, run="r"))
    return events


def told(events: list[AnyEvent], *, nodes: float | None = None, gpus_per_node: float | None = None) -> FromRun:
    ledger = Ledger()
    ledger.add(events)
    books, details = ledger.books("r"), ledger.details("r")
    measured = measure(books, details)
    assert measured is not None
    return from_run(measured, books, details, nodes=nodes, gpus_per_node=gpus_per_node, price=2.0)


def test_what_the_run_measured_is_marked_so_with_its_samples() -> None:
    run = told(a_run())
    numbers = run.numbers
    assert (run.name, run.saves) == ("r", "asynchronous")
    assert (numbers["snapshot"].value, numbers["snapshot"].samples) == (pytest.approx(4), 40)
    assert numbers["persist"].value == pytest.approx(30)
    assert numbers["interval_now"].value == pytest.approx(600)
    assert numbers["checkpoint_size"].value == 1e12
    assert numbers["step_time"].value == pytest.approx(60)
    assert numbers["job_mtbf"].samples == 3
    assert {numbers[name].mark for name in ("snapshot", "persist", "interval_now", "job_mtbf")} == {"measured"}
    assert {given.source for given in numbers.values()} == {"run"}


def test_the_mtbf_comes_with_its_exact_interval() -> None:
    given = told(a_run()).numbers["job_mtbf"]
    assert given.low is not None
    assert given.high is not None
    assert given.low / given.value == pytest.approx(0.342, abs=1e-3)  # 3 failures: 2T/chi2(0.975; 8) over T/3
    assert given.high / given.value == pytest.approx(4.849, abs=1e-3)


def test_the_parts_of_the_way_back_are_taken() -> None:
    numbers = told(a_run()).numbers
    assert numbers["replace"].value == pytest.approx(500, abs=1)
    assert numbers["reload"].value == pytest.approx(180, abs=1)
    assert numbers["replace"].samples == 3
    total = sum(numbers[name].value for name in ("detect", "replace", "reload", "warmup"))
    assert total == pytest.approx(940)


def test_a_way_back_whose_parts_are_not_told_keeps_its_whole() -> None:
    numbers = told(a_run(phases=False)).numbers
    parts = [numbers[name] for name in ("detect", "replace", "reload", "warmup")]
    assert sum(part.value for part in parts) == pytest.approx(940)


def test_blocking_saves_tell_the_blocking_cost() -> None:
    run = told(a_run(mode="sync"))
    assert run.saves == "blocking"
    assert run.numbers["blocking_save"].value == pytest.approx(4)
    assert "snapshot" not in run.numbers


def test_nodes_follow_from_the_ranks() -> None:
    numbers = told(a_run()).numbers
    assert (numbers["nodes"].value, numbers["gpus_per_node"].value) == (8, 8)
    assert told(a_run(), gpus_per_node=4).numbers["nodes"].value == 16


def test_a_plan_for_other_nodes_takes_the_nodes_mtbf_not_the_jobs() -> None:
    here, there = told(a_run()), told(a_run(), nodes=16, gpus_per_node=8)
    assert "job_mtbf" not in there.numbers
    assert there.numbers["node_mtbf"].value == pytest.approx(8 * here.numbers["job_mtbf"].value)
    assert any("8 nodes and the plan has 16" in note for note in there.notes)


def test_a_run_without_failures_keeps_the_mtbf_a_guess_and_says_so() -> None:
    run = told(a_run(failures=0))
    assert "job_mtbf" not in run.numbers
    assert any("No failure in" in note and "above" in note for note in run.notes)
    assert layered(run.numbers).numbers["job_mtbf"].mark == "guess"


def test_few_failures_are_said_to_be_few() -> None:
    assert any("Only 3 failures" in note for note in told(a_run()).notes)
