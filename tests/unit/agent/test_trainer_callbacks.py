"""The Trainer's callback: what is in the log when a Trainer calls it as Hugging Face's does.

The framework is not installed where these run, so a stand-in gives the one class that the callback derives from; the
calls and their order are those of a real Trainer (step, evaluation, save).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tachograph_agent import Recorder
from tachograph_agent.events import AnyEvent, AttemptStart, RunEnd, Step, decode

MODULE = "tachograph_agent.integrations.huggingface"


class Loss(float):
    """A number that looks like a tensor of one."""

    def numel(self) -> int:
        return 1

    def detach(self) -> Loss:
        return self


class Model:
    """Keeps the hook that is put on it."""

    training = True

    def register_forward_hook(self, hook: Any, *, with_kwargs: bool) -> Any:
        assert with_kwargs
        self.hook = hook
        return SimpleNamespace(remove=lambda: None)

    def forward(self, loss: float, **named: Any) -> None:
        self.hook(self, (), named, {"loss": Loss(loss)})


@pytest.fixture
def callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    stand_in = ModuleType("transformers")
    stand_in.TrainerCallback = object  # type: ignore[attr-defined] # a module of our making
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    recorder = Recorder(run="lab/run", attempt=1, node="n1", rank=0, spool=tmp_path, start=False)
    yield importlib.import_module(MODULE).TachographCallback(recorder)
    sys.modules.pop(MODULE, None)


def told(spool: Path) -> list[AnyEvent]:
    (file,) = spool.glob("u*/*/rank-*.jsonl")
    return [decode(line) for line in file.read_bytes().splitlines()]


def state(step: int) -> SimpleNamespace:
    return SimpleNamespace(global_step=step, is_world_process_zero=True)


def control(*, evaluates: bool = False, saves: bool = False) -> SimpleNamespace:
    return SimpleNamespace(should_evaluate=evaluates, should_save=saves)


def step(callback: Any, model: Model, number: int, losses: list[float], then: SimpleNamespace, **named: Any) -> None:
    callback.on_step_begin(None, state(number - 1), then)
    for loss in losses:
        model.forward(loss, **named)
    callback.on_step_end(None, state(number), then)


def test_a_restored_trainer_goes_on_from_its_step_and_ends_the_run(callback: Any, tmp_path: Path) -> None:
    model = Model()
    callback.on_train_begin(None, state(8), control(), model=model)
    step(callback, model, 9, [2.0], control())
    callback.on_train_end(None, state(9), control())
    start, done, end = told(tmp_path)
    assert isinstance(start, AttemptStart)
    assert start.resume_step == 8
    assert isinstance(done, Step)
    assert (done.step, done.loss) == (9, 2.0)
    assert isinstance(end, RunEnd)


def test_an_evaluation_and_the_save_after_it_are_told_as_they_begin_and_end(callback: Any, tmp_path: Path) -> None:
    model, both = Model(), control(evaluates=True, saves=True)
    callback.on_train_begin(None, state(0), control(), model=model)
    step(callback, model, 1, [2.0], both)
    assert told(tmp_path)[-1].kind == "phase.start"
    callback.on_evaluate(None, state(1), both)
    assert [event.kind for event in told(tmp_path)[-2:]] == ["phase", "checkpoint.start"]
    callback.on_save(None, state(1), both)
    assert told(tmp_path)[-1].kind == "checkpoint.saved"


def test_a_loss_that_is_not_a_number_is_told_as_it_was(callback: Any, tmp_path: Path) -> None:
    model = Model()
    callback.on_train_begin(None, state(0), control(), model=model)
    step(callback, model, 1, [float("nan")], control())
    assert b'"loss":NaN' in next(tmp_path.glob("u*/*/rank-*.jsonl")).read_bytes()


@pytest.mark.parametrize(("named", "loss"), [({}, 3.0), ({"num_items_in_batch": 64}, 6.0)])
def test_micro_batches_give_their_mean_or_the_sum_of_their_shares(
    callback: Any, tmp_path: Path, named: dict[str, Any], loss: float
) -> None:
    model = Model()
    callback.on_train_begin(None, state(0), control(), model=model)
    step(callback, model, 1, [2.0, 4.0], control(), **named)
    done = told(tmp_path)[-1]
    assert isinstance(done, Step)
    assert done.loss == loss


def test_the_loss_of_an_evaluation_is_none_of_a_step(callback: Any, tmp_path: Path) -> None:
    model = Model()
    callback.on_train_begin(None, state(0), control(), model=model)
    model.training = False
    model.forward(9.0)
    model.training = True
    step(callback, model, 1, [2.0], control())
    done = told(tmp_path)[-1]
    assert isinstance(done, Step)
    assert done.loss == 2.0
