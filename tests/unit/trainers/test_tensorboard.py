"""TensorBoard's event files, written by TensorBoard's own writer: restarts, order of files, damage."""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path

import damaged_logs
import pytest
from adapter_runs import START, of, steps
from tachograph_agent.events import AnyEvent, decode, encode
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.reading import Reading, open_log
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT
from tensorboard.summary.writer.record_writer import RecordWriter

Value = tuple[float, int, str, float]


def write(path: Path, values: list[Value], *, as_tensor: bool = False, began: float | None = None) -> Path:
    """An event file with these (seconds after START, step, tag, value)."""
    first = START + (min((value[0] for value in values), default=0.0) if began is None else began)
    with path.open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=first, file_version="brain.Event:2").SerializeToString())
        for after_s, step, tag, number in values:
            if as_tensor:
                value = Summary.Value(tag=tag, tensor=TensorProto(dtype=DT_FLOAT, float_val=[number]))
            else:
                value = Summary.Value(tag=tag, simple_value=number)
            event = Event(wall_time=START + after_s, step=step, summary=Summary(value=[value]))
            writer.write(event.SerializeToString())
    return path


def losses(first: int, last: int, begin_s: float, every: int = 10, tag: str = "train/loss") -> list[Value]:
    """A loss every ``every`` steps of 2 s each, the first of them at ``begin_s``."""
    return [(begin_s + 2.0 * (step - first), step, tag, 5.0 - step / 100) for step in range(first, last + 1, every)]


def events_of(reading: Reading) -> list[AnyEvent]:
    return [event for batch in reading.batches() for event in batch]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_values_become_steps_at_their_wall_times(as_tensor: bool, tmp_path: Path) -> None:
    norms = [(after_s, step, "train/grad_norm", 0.5) for after_s, step, _, _ in losses(10, 40, 20.0)]
    path = write(tmp_path / "e.tfevents", [*losses(10, 40, 20.0), *norms], as_tensor=as_tensor, began=0.0)
    reading = open_log([path])
    events = events_of(reading)
    assert reading.format == "tensorboard"
    assert [(step.step, step.count, step.t - START, step.dur, step.grad_norm) for step in steps(events)] == [
        (10, 10, 20.0, 20.0, 0.5),
        (20, 10, 40.0, 20.0, 0.5),
        (30, 10, 60.0, 20.0, 0.5),
        (40, 10, 80.0, 20.0, 0.5),
    ]
    assert steps(events)[0].loss == pytest.approx(4.9)
    assert of(events, "attempt.start")[0].t == START


def test_evaluations_and_what_counts_epochs_are_no_steps(tmp_path: Path) -> None:
    others = [(50.0, 1, "epoch_loss", 3.0), (51.0, 20, "val/loss", 3.0), (90.0, 2, "epoch_loss", 2.5)]
    path = write(tmp_path / "e.tfevents", [*losses(10, 40, 20.0), *others])
    assert [(step.attempt, step.step) for step in steps(events_of(open_log([path])))] == [
        (0, 10),
        (0, 20),
        (0, 30),
        (0, 40),
    ]


def test_a_step_that_falls_while_time_goes_on_is_a_restart(tmp_path: Path) -> None:
    path = write(tmp_path / "e.tfevents", [*losses(10, 40, 20.0), *losses(30, 50, 200.0)])
    events = events_of(open_log([path]))
    assert [(step.attempt, step.step) for step in steps(events)] == [
        (0, 10), (0, 20), (0, 30), (0, 40), (1, 30), (1, 40), (1, 50),
    ]  # fmt: skip


def test_files_in_the_wrong_order_purge_nothing(tmp_path: Path) -> None:
    write(tmp_path / "events.out.tfevents.2", losses(10, 40, 20.0))
    write(tmp_path / "events.out.tfevents.1", losses(50, 80, 300.0), began=200.0)
    events = events_of(open_log([tmp_path]))
    assert [(step.attempt, step.step) for step in steps(events)] == [
        (0, 10), (0, 20), (0, 30), (0, 40), (1, 50), (1, 60), (1, 70), (1, 80),
    ]  # fmt: skip
    assert [start.t - START for start in of(events, "attempt.start")] == [20.0, 200.0]


def test_files_written_side_by_side_are_one_attempt(tmp_path: Path) -> None:
    write(tmp_path / "a.tfevents", losses(10, 40, 20.0))
    write(tmp_path / "b.tfevents", losses(10, 40, 20.5, tag="lr"))
    events = events_of(open_log([tmp_path]))
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 10), (0, 20), (0, 30), (0, 40)]


def test_a_file_that_is_cut_off_is_read_up_to_there_and_a_packed_one_like_any(tmp_path: Path) -> None:
    content = write(tmp_path / "e.tfevents", losses(10, 40, 20.0)).read_bytes()
    cut = tmp_path / "cut.tfevents"
    cut.write_bytes(content[:-5])
    reading = open_log([cut])
    assert [step.step for step in steps(events_of(reading))] == [10, 20, 30]
    assert reading.skipped_lines <= 1
    packed = tmp_path / "e.tfevents.gz"
    packed.write_bytes(gzip.compress(content))
    assert [step.step for step in steps(events_of(open_log([packed])))] == [10, 20, 30, 40]


def test_without_the_extra_it_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "e.tfevents", losses(10, 40, 20.0))
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tachograph\[tensorboard\]'"):
        events_of(open_log([path]))


def test_damaged_bytes_give_what_can_be_kept_or_one_sentence(tmp_path: Path) -> None:
    content = write(tmp_path / "e.tfevents", [*losses(10, 40, 20.0), *losses(30, 50, 200.0)]).read_bytes()
    choose = random.Random(7)
    path = tmp_path / "damaged.tfevents"
    for _ in range(min(damaged_logs.NUM_DAMAGED, 100_000)):
        damaged = bytearray(content)
        for _ in range(choose.choice((1, 2, 5))):
            at = choose.randrange(1, max(2, len(damaged)))
            kind = choose.randrange(3)
            if kind == 0 and at < len(damaged):
                damaged[at] = choose.randrange(256)
            elif kind == 1:
                del damaged[at : at + choose.choice((1, 7, 50))]
            else:
                damaged = damaged[: max(2, at)]
        path.write_bytes(damaged)
        try:
            events = events_of(open_log([path], format="tensorboard"))
        except ReadingError:
            continue
        assert len(steps(events)) <= 7
        for event in events:
            assert decode(encode(event)).kind == event.kind
