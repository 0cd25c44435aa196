"""A log that grows is read once, as it comes, over rotation and truncation, and ends as a replay of it would."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent.events import AnyEvent, AttemptStart, Step, encode
from tachograph_agent.trainers.files import ReadingError
from tachograph_agent.trainers.growing import GrowingLog
from tachograph_agent.trainers.reading import open_log


def line(step: int, loss: float = 9.0) -> str:
    minute, second = divmod(step * 10, 60)
    return (
        f"[rank0]:[titan] 2030-01-02 03:{minute:02d}:{second:02d},000 - root - INFO - step: {step}  loss:  {loss}  "
        "grad_norm:  1.0  tps: 8,123\n"
    )


def write(path: Path, *lines: str, mode: str = "a") -> None:
    with path.open(mode) as file:
        file.writelines(lines)


def followed(path: Path, *happens: Callable[[], object], **told: Any) -> tuple[list[list[AnyEvent]], GrowingLog]:
    """What each look handed on, while one thing after the other happens to the log."""
    log = GrowingLog(path, **{"tz": UTC, **told})
    looks: list[list[AnyEvent]] = [[]]
    rest = list(happens)

    def wait() -> bool:
        looks.append([])
        if not rest:
            return True
        rest.pop(0)()
        return False

    log.follow(lambda events: looks[-1].extend(events), wait)
    return looks, log


def steps(looks: list[list[AnyEvent]]) -> list[int]:
    return [event.step for look in looks for event in look if isinstance(event, Step)]


def test_each_look_hands_on_what_is_new_and_the_end_what_a_replay_tells(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, *(line(step) for step in range(1, 4)))
    looks, log = followed(path, lambda: write(path, line(4)), lambda: None, lambda: write(path, line(5), line(6)))
    assert [steps([look]) for look in looks] == [[1, 2, 3], [4], [], [5, 6], []]
    events = [event for look in looks for event in look]
    reading = open_log([path], tz=UTC)
    assert sorted(map(encode, events)) == sorted(encode(event) for batch in reading.batches() for event in batch)
    assert (log.format, log.has_clock, log.skipped_lines) == ("torchtitan", True, 0)
    assert {event.run for event in events} == {"train"}


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    looks, _ = followed(path, lambda: None, lambda: write(path, line(1)), lambda: write(path, line(2)))
    assert steps(looks) == [1, 2]


def test_a_line_is_taken_when_it_is_whole_or_the_end_has_come(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    whole, half = line(2), line(3).rstrip("\n")
    write(path, line(1), whole[:60])
    looks, _ = followed(path, lambda: write(path, whole[60:]), lambda: write(path, half))
    assert steps(looks) == [1, 2, 3]
    assert steps(looks[-1:]) == [3]


def test_a_log_that_is_rotated_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, line(1), line(2))

    def rotate() -> None:
        write(path, line(3))
        path.rename(tmp_path / "train.log.1")
        write(path, line(4))

    looks, _ = followed(path, rotate, lambda: write(path, line(5)))
    assert steps(looks) == [1, 2, 3, 4, 5]


def test_a_log_that_was_cut_is_read_from_its_start_as_the_same_stream(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, *(line(step) for step in range(1, 5)))
    looks, _ = followed(path, lambda: write(path, line(3, 8.5), mode="w"), lambda: write(path, line(4, 8.4)))
    assert steps(looks) == [1, 2, 3, 4, 3, 4]
    assert [event.attempt for look in looks for event in look if isinstance(event, AttemptStart)] == [1]


def test_an_event_log_is_followed_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path, '{"kind": "step", "t": 1900000000, "step": 1, "run": "r"}\n')
    more = '{"kind": "step", "t": 1900000010, "step": 2}\nnot an event\n'
    looks, log = followed(path, lambda: write(path, more))
    assert [(event.run, event.t) for look in looks for event in look] == [("r", 1.9e9), ("run", 1_900_000_010.0)]
    assert [skip.line_number for skip in log.skips] == [3]


def test_this_machines_zone_is_taken_and_said_where_nobody_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    path = tmp_path / "train.log"
    write(path, line(6))
    looks, log = followed(path, tz=None)
    (step,) = (event for look in looks for event in look if isinstance(event, Step))
    assert step.t == 1_893_553_260.0 - 9 * 3600
    assert sum("this machine's was taken" in note for note in log.notes) == 1


def test_a_pattern_file_says_what_a_growing_log_means(tmp_path: Path) -> None:
    path = tmp_path / "ours.out"
    (tmp_path / "ours.toml").write_text("[lines]\nstep = 'upd (?P<step>[0-9]+) in (?P<dur>[0-9.]+)'\n")
    write(path, "upd 1 in 2.0\n")
    looks, log = followed(path, lambda: write(path, "upd 2 in 2.0\n"), pattern=tmp_path / "ours.toml")
    assert steps(looks) == [1, 2]
    assert not log.has_clock


@pytest.mark.parametrize(
    ("content", "told", "sentence"),
    [
        (gzip.compress(line(1).encode() * 9, mtime=0), {}, "compressed"),
        (b"\0" * 2000, {}, "a binary file"),
        (b"Dear diary\n" * 8000, {}, "not a format I know.*--pattern"),
        (b'{"log_history": [], "global_step": 0}', {"format": "hf-state"}, "written anew as a whole"),
    ],
)
def test_what_can_not_be_followed_is_refused_in_one_sentence(
    content: bytes, told: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(content)
    with pytest.raises(ReadingError, match=sentence) as raised:
        followed(path, **told)
    assert "\n" not in str(raised.value)


def test_a_directory_or_a_format_nobody_knows_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match="only a single file"):
        GrowingLog(tmp_path)
    with pytest.raises(ReadingError, match="'nope' is not known"):
        GrowingLog(tmp_path / "a.log", format="nope")
    with pytest.raises(ReadingError, match="needs a pattern file"):
        GrowingLog(tmp_path / "a.log", format="pattern")
