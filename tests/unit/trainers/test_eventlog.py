"""The event log: what is no event is counted with its place and reason, and what stands beside it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_lines import T0, all_events, lines, step, steps_of, write
from tachograph_agent.events import UnknownEvent
from tachograph_agent.trainers import eventlog
from tachograph_agent.trainers.reading import open_log


def opened(tmp_path: Path, content: bytes):
    log = tmp_path / "run.jsonl"
    log.write_bytes(content)
    return open_log([log])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"not json at all", "not JSON"),
        (b"[1, 2]", "not an object"),
        (b'{"t": 1800000000}', "'kind' is None"),
        (b'{"kind": "step", "t": 1800000000}', "step"),
        (b'{"kind": "step", "t": NaN, "step": 1}', "'t' is nan"),
        (b'{"kind": "step", "t": Infinity, "step": 1}', "'t' is inf"),
        (b'{"kind": "step", "t": 1800000000, "step": 1, "dur": -3}', "'dur' is -3"),
        (b'{"kind": "step", "t": 1800000000, "step": 9223372036854775808}', "'step' is 9223372036854775808"),
        (b'{"kind": "step", "t": 1800000000, "step": -1}', "'step' is -1"),
        (b'{"kind": "step", "t": -1, "step": 1}', "'t' is -1"),
        (b'{"kind": "step", "t": 1e300, "step": 1}', "'t' is 1e+300"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"kind": "step", "t": 1800000000, "step": 1, "x": ' + b"[" * 100_000, "nested too deeply"),
        (b'\xff\xfe{"kind": "step"', "not JSON"),
        (b"\0\0\0\0", "not JSON"),
        (b'{"kind": "step", "t": 1800000000, "st', "not JSON"),
    ],
    ids=lambda value: value[:50] if isinstance(value, bytes) else "",
)
def test_a_bad_line_is_counted_with_its_number_and_reason_and_the_lines_beside_it_are_kept(
    bad: bytes, reason: str, tmp_path: Path
) -> None:
    reading = opened(tmp_path, lines([step(1), step(2)]) + bad + b"\n" + lines([step(3)]))
    assert steps_of(reading) == [1, 2, 3]
    assert reading.skipped_lines == 1
    assert reading.skips[0].line_number == 3
    assert reason in reading.skips[0].reason


def test_line_numbers_stay_right_far_into_the_log_and_only_the_first_few_are_reported(tmp_path: Path) -> None:
    content = lines(step(number) for number in range(1, 2001))
    reading = opened(tmp_path, content + b"bad\n" * 50 + content)
    assert len(all_events(reading)) == 4000
    assert reading.skipped_lines == 50
    assert [skip.line_number for skip in reading.skips] == [2001, 2002, 2003, 2004, 2005]


def test_a_bare_nan_loss_is_taken(tmp_path: Path) -> None:
    reading = opened(tmp_path, b'{"kind": "step", "t": 1800000000, "step": 1, "loss": NaN}\n')
    assert steps_of(reading) == [1]
    assert reading.skipped_lines == 0


def test_unknown_kinds_and_fields_blank_lines_and_windows_line_ends_are_no_bad_lines(tmp_path: Path) -> None:
    content = lines([step(1, shiny=True), {"kind": "sparkle", "t": T0, "hue": 3}, step(2)])
    reading = opened(tmp_path, b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n\r\n"))
    events = all_events(reading)
    assert (len(events), reading.skipped_lines) == (3, 0)
    unknown = [event for event in events if isinstance(event, UnknownEvent)]
    assert [event.data["hue"] for event in unknown] == [3]


def test_a_last_line_without_a_newline_counts(tmp_path: Path) -> None:
    assert steps_of(opened(tmp_path, lines([step(1), step(2)]).removesuffix(b"\n"))) == [1, 2]


def test_years_from_1970_to_2262_are_read_as_they_stand(tmp_path: Path) -> None:
    reading = opened(tmp_path, lines([step(1, t=0.5), step(2, t=9_223_372_036.0)]))
    assert [event.t for event in all_events(reading)] == [0.5, 9_223_372_036.0]


def test_events_without_a_run_get_the_files_name_or_the_one_given(tmp_path: Path) -> None:
    log = write(tmp_path / "llama.jsonl", [{"kind": "heartbeat", "t": T0}, step(1)])
    assert [event.run for event in all_events(open_log([log]))] == ["llama", "r"]
    assert [event.run for event in all_events(open_log([log], run="mine"))] == ["mine", "r"]


@pytest.mark.parametrize(
    "head",
    [
        lines([step(1)]),
        b'{"kind": "step", "t": -1}\n',
        b"noise\n" + lines([step(1)]),
        b'{"kind":"step","x":"' + b"y" * 65_000,
    ],
)
def test_what_looks_like_events_is_recognised_even_if_they_are_bad(head: bytes) -> None:
    assert eventlog.sniff(head) >= 0.3


@pytest.mark.parametrize("head", [b"", b'{"step": 3}\n', b"kind of a log\n", b"iter 3: loss 2.1\n"])
def test_other_text_is_not_taken_for_events(head: bytes) -> None:
    assert eventlog.sniff(head) == 0
