"""The plain loop's helper: every pass of the loop is a step, unless it was none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tachograph_agent import Recorder
from tachograph_agent.events import AnyEvent, Step, decode
from tachograph_agent.integrations.loop import timed
from tachograph_agent.integrations.needs import need
from tachograph_agent.integrations.torchtitan import log_arguments


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(run="lab/run", attempt=1, node="n1", rank=0, spool=tmp_path, start=False)


def told(recorder: Recorder, spool: Path) -> list[AnyEvent]:
    (file,) = spool.glob("u*/*/rank-*.jsonl")
    return [decode(line) for line in file.read_bytes().splitlines()]


def test_every_batch_is_a_step_with_its_loss_and_the_wait_for_data(recorder: Recorder, tmp_path: Path) -> None:
    for step, batch in timed("abc", recorder, first_step=7):
        step.loss = ord(batch)
    steps = told(recorder, tmp_path)
    assert [(step.step, step.loss) for step in steps if isinstance(step, Step)] == [(7, 97.0), (8, 98.0), (9, 99.0)]
    assert all(isinstance(step, Step) and set(step.sections or {}) == {"data"} for step in steps)


def test_the_loop_ends_after_the_last_step_and_asks_the_loader_no_further(recorder: Recorder) -> None:
    asked = []

    def loader() -> Iterator[int]:
        for number in range(100):
            asked.append(number)
            yield number

    assert [step.number for step, _ in timed(loader(), recorder, last_step=3)] == [1, 2, 3]
    assert asked == [0, 1, 2]


def test_a_pass_that_raises_is_no_step(recorder: Recorder, tmp_path: Path) -> None:
    def train() -> None:
        for step, _ in timed(range(5), recorder):
            step.loss = 1 / (2 - step.number)

    with pytest.raises(ZeroDivisionError):
        train()
    assert [event.step for event in told(recorder, tmp_path) if isinstance(event, Step)] == [1]


def test_a_step_that_is_done_before_a_save_stands_before_it_and_once(recorder: Recorder, tmp_path: Path) -> None:
    for step, _ in timed(range(1), recorder):
        step.done()
        with recorder.checkpoint(step.number):
            pass
    assert [event.kind for event in told(recorder, tmp_path)] == ["step", "checkpoint.start", "checkpoint.saved"]


def test_a_framework_that_is_missing_is_named_with_the_line_to_type() -> None:
    with pytest.raises(ImportError, match=r"needs nowhere_to_be_found.*pip install 'some-framework\[all\]'"):
        need("nowhere_to_be_found.callbacks", "some-framework[all]")


def test_torchtitans_logs_are_named_rank_by_rank(tmp_path: Path) -> None:
    logs = tmp_path / "outputs" / "structured_logs"
    logs.mkdir(parents=True)
    for rank in (1, 0):
        (logs / f"rank{rank}.jsonl").touch()
    (tmp_path / "outputs" / "other.jsonl").touch()
    named = [str(logs / f"rank{rank}.jsonl") for rank in (0, 1)]
    assert log_arguments(tmp_path) == ["--log", named[0], "--log", named[1]]
