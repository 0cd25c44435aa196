"""Several logs as one: merged by time, read again from anywhere, recognised or refused with the list."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from log_lines import T0, all_events, lines, step, steps_of, write
from tachograph_agent.events import AnyEvent, Step, microseconds
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.reading import ReadingError, open_log


class Toy:
    """A made-up format: ``toy SECONDS STEP``; ``toy ?`` is a line that should have been a record."""

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "A made-up format"

    def sniff(self, head: str) -> float:
        return 0.9 if head.startswith("toy ") else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        context.has_clock = False
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words[:2] == ["toy", "?"]:
                context.skip(number, "no number")
            elif words[:1] == ["toy"]:
                context.note("Toys have no clock.")
                yield Step(t=float(words[1]), step=int(words[2]))


@pytest.fixture(autouse=True)
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy format beside the real ones."""
    real = registry.adapters()
    monkeypatch.setattr(registry, "adapters", lambda: {**real, "toy": Toy()})


def test_event_logs_of_several_ranks_are_merged_by_time(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"rank{rank}.jsonl", [step(n, rank=rank, t=T0 + n + rank / 10) for n in range(1, 2000)])
        for rank in range(3)
    ]
    times = [event.t for event in all_events(open_log(paths))]
    assert len(times) == 3 * 1999
    assert times == sorted(times)


def test_no_event_is_lost_or_doubled_where_files_are_unordered_inside_or_hold_nothing_but_bad_lines(
    tmp_path: Path,
) -> None:
    numbers = list(range(1, 3000))
    random.Random(3).shuffle(numbers)
    first = write(tmp_path / "a.jsonl", [step(n) for n in numbers[:1400]])
    second = write(tmp_path / "b.jsonl", [step(n) for n in numbers[1400:]])
    (tmp_path / "c.jsonl").write_bytes(b'{"kind": 7}\n' * 9000)
    reading = open_log([first, second, tmp_path / "c.jsonl"])
    assert sorted(steps_of(reading)) == sorted(numbers)
    assert reading.skipped_lines == 9000


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("num_files", [1, 3])
def test_again_gives_exactly_what_was_given_so_far_from_an_instant_on(pack, num_files: int, tmp_path: Path) -> None:
    paths = []
    for index in range(num_files):
        events = [step(n, rank=index, t=T0 + n + (n * 7 + index) % 5) for n in range(1, 2500)]
        path = tmp_path / f"{index}.jsonl"
        path.write_bytes(pack(b"bad\n" + lines(events)))
        paths.append(path)
    reading = open_log(paths)
    fed: list[AnyEvent] = []
    for count, batch in enumerate(reading.batches()):
        fed += batch
        if count % 3 == 1:
            for since in (0, microseconds(fed[len(fed) // 2].t), microseconds(batch[-1].t) + 10**9):
                expected = sorted((e.t, e.rank) for e in fed if microseconds(e.t) >= since)
                assert sorted((e.t, e.rank) for part in reading.again(since) for e in part) == expected
    assert len(fed) == num_files * 2499
    assert reading.skipped_lines == num_files


def test_again_works_for_a_trainers_log_and_says_nothing_twice(tmp_path: Path) -> None:
    log = tmp_path / "toy.log"
    log.write_text("toy ?\n" + "".join(f"toy {n} {n}\n" for n in range(1, 2000)))
    reading = open_log([log])
    batches = reading.batches()
    fed = next(batches) + next(batches)
    again = [event for batch in reading.again(microseconds(100)) for event in batch]
    assert [event.t for event in again] == [event.t for event in fed if event.t >= 100]
    assert 100 < len(again) < 1999
    assert (reading.skipped_lines, reading.notes) == (1, ["Toys have no clock."])


def test_parts_of_a_trainers_log_are_read_in_the_order_given_with_each_its_own_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text("toy 1 1\ntoy ?\ntoy 2 2")
    (tmp_path / "a.log").write_text("toy 3 3\r\nhalf\rbar\rtoy 4 4\n\ntoy ?\n")
    reading = open_log([tmp_path / "b.log", tmp_path / "a.log"])
    assert steps_of(reading) == [1, 2, 3, 4]
    assert [(Path(skip.file).name, skip.line_number) for skip in reading.skips] == [("b.log", 2), ("a.log", 4)]
    assert not reading.has_clock
    assert {event.run for event in all_events(reading)} == {"b"}


def test_reading_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("toy 3 3\ntoy ?\n")
    write(tmp_path / "b.jsonl", [step(1), {"kind": 3}])
    for name, skipped in (("a.log", 1), ("b.jsonl", 1)):
        reading = open_log([tmp_path / name])
        assert len(all_events(reading)) == len(all_events(reading)) == 1
        assert reading.skipped_lines == skipped


def test_a_directory_reads_what_it_recognises_and_says_what_it_does_not(tmp_path: Path) -> None:
    write(tmp_path / "r7" / "node1" / "events.jsonl", [step(1), {"kind": "heartbeat", "t": T0}])
    (tmp_path / "r7" / "toy.log").write_text("toy 3 3\n")
    (tmp_path / "r7" / "model.bin").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "r7" / "README").write_text("hello\n")
    (tmp_path / "r7" / ".hidden.jsonl").write_bytes(lines([step(99)]))
    reading = open_log([tmp_path / "r7"])
    assert [e.step for e in all_events(reading) if isinstance(e, Step)] == [3, 1]
    assert sorted(reading.formats) == ["events", "toy"]
    assert {event.run for event in all_events(reading)} == {"r", "r7"}
    assert "2 files there are no log in a format I know: README, model.bin." in reading.notes[0]


def test_more_event_logs_than_may_be_open_at_once_are_read(tmp_path: Path) -> None:
    for rank in range(150):
        write(tmp_path / f"{rank}.jsonl", [step(n, rank=rank) for n in (1, 2)])
    times = [event.t for event in all_events(open_log([tmp_path]))]
    assert (len(times), times) == (300, sorted(times))


def test_a_format_that_is_given_is_believed(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("noise\ntoy 3 3\n")
    assert steps_of(open_log([tmp_path / "x.log"], format="toy")) == [3]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "x.log: the file is empty"),
        (b"\n \r\n\n", "x.log: the file is empty"),
        (b"Dear diary,\ntoday I trained.\n", "x.log: not a format I know; known are events, .*--format.*--pattern"),
        (bytes(range(256)) * 300, "x.log: a binary file, not a format I know; known are events, "),
    ],
)
def test_what_is_no_log_is_refused_in_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(content)
    with pytest.raises(ReadingError, match=sentence) as caught:
        open_log([tmp_path / "x.log"])
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_log_is_refused_and_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match=r"a directory without a log in a format I know .it holds no files"):
        open_log([tmp_path])
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(ReadingError, match=r"notes\.txt"):
        open_log([tmp_path])


def test_names_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match=r"gone\.log: no such file or directory"):
        open_log([tmp_path / "gone.log"])
    with pytest.raises(ReadingError, match="format 'klingon' is not known; known are events"):
        open_log([tmp_path], format="klingon")
    with pytest.raises(ReadingError, match="format 'megatro' is not known; did you mean megatron"):
        open_log([tmp_path], format="megatro")
    with pytest.raises(ReadingError, match="no log was named"):
        open_log([])


def test_an_empty_file_among_others_is_noted(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [step(1)])
    (tmp_path / "b.jsonl").touch()
    reading = open_log([log, tmp_path / "b.jsonl"])
    assert steps_of(reading) == [1]
    assert "b.jsonl: the file is empty" in reading.notes[0]


def test_a_directorys_logs_without_times_are_left_out_beside_those_with_times_and_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,train_loss\n0,9,5.5\n0,19,5.1\n")
    write(tmp_path / "events.jsonl", [step(1), step(2)])
    reading = open_log([tmp_path])
    assert reading.format == "events"
    assert any("lightning-csv" in note and "metrics.csv" in note for note in reading.notes)
    (tmp_path / "events.jsonl").write_text("[rank0]: RuntimeError: CUDA error: out of memory\n")
    assert "lightning-csv" in open_log([tmp_path]).formats
