"""What a log can lie in: plain, compressed, cut off, growing, standard input; and how little of it is held at once."""

from __future__ import annotations

import gzip
import io
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from log_lines import all_events, lines, step, steps_of, write
from tachograph_agent.trainers import files
from tachograph_agent.trainers.files import MissingExtraError, ReadingError, WholeLines
from tachograph_agent.trainers.reading import open_log

NUMBERS = list(range(1, 3001))
CONTENT = lines(step(number) for number in NUMBERS)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_a_log_reads_the_same_however_it_is_packed_and_whatever_it_is_called(pack, tmp_path: Path) -> None:
    log = tmp_path / "anything.log"
    log.write_bytes(pack(CONTENT))
    reading = open_log([log])
    assert steps_of(reading) == NUMBERS
    assert (reading.format, reading.notes, reading.skipped_lines) == ("events", [], 0)
    assert reading.bytes_read == reading.size_bytes == log.stat().st_size


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_logs_laid_end_to_end_are_read_to_the_end(pack, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(pack(CONTENT[:100_000]) + pack(CONTENT[100_000:]))
    assert steps_of(open_log([log])) == NUMBERS


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_of_a_compressed_log_that_is_cut_off_counts_what_could_be_read_and_the_rest_is_reported(
    pack, tmp_path: Path
) -> None:
    packed = pack(CONTENT)
    log = tmp_path / "run.log"
    log.write_bytes(pack(CONTENT) + packed[: len(packed) // 2])
    reading = open_log([log])
    assert steps_of(reading)[:3000] == NUMBERS
    assert [note for note in reading.notes if "cut off" in note and str(log) in note]


def test_of_a_damaged_gzip_counts_what_came_before_the_damage(tmp_path: Path) -> None:
    log = tmp_path / "run.log.gz"
    log.write_bytes(gzip.compress(CONTENT) + b"\x1f\x8b" + b"\xff" * 100)
    reading = open_log([log])
    assert steps_of(reading) == NUMBERS
    assert "damaged gzip" in reading.notes[0]


def test_a_gzip_padded_with_zeros_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "run.log.gz"
    log.write_bytes(gzip.compress(CONTENT) + b"\0" * 1000)
    reading = open_log([log])
    assert (steps_of(reading), reading.notes) == (NUMBERS, [])


def test_zstd_without_its_extra_names_the_line_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    log = tmp_path / "run.zst"
    log.write_bytes(zstandard.compress(CONTENT))
    with pytest.raises(MissingExtraError, match=r"run.zst: .*pip install 'tachograph\[zstd\]'"):
        open_log([log])


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input_can_be_read_again(pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(CONTENT))))
    reading = open_log(["-"])
    assert steps_of(reading) == NUMBERS
    assert steps_of(reading) == NUMBERS
    assert reading.files[0].name == "standard input"


def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CONTENT,))
    writer.start()
    reading = open_log([pipe])
    writer.join()
    assert steps_of(reading) == NUMBERS


def test_a_log_that_grows_is_read_up_to_where_it_was_when_it_was_opened(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [step(number) for number in NUMBERS])
    reading = open_log([log])
    batches = reading.batches()
    num_read = len(next(batches))
    with log.open("ab") as file:
        file.write(lines([step(9999)]))
    num_read += sum(map(len, batches))
    assert (num_read, reading.notes) == (len(NUMBERS), [])


def test_a_log_that_is_truncated_while_it_is_read_keeps_what_was_read_and_says_so(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [step(number) for number in NUMBERS])
    reading = open_log([log])
    batches = reading.batches()
    num_read = len(next(batches))
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(1000)
    assert num_read + sum(map(len, batches)) == num_read > 100
    assert "became shorter while it was read" in reading.notes[0]
    assert f"of {size} bytes" in reading.notes[0]


def test_a_log_that_vanishes_after_it_was_opened_is_one_sentence(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [step(1)])
    reading = open_log([log])
    log.unlink()
    with pytest.raises(ReadingError, match=r"run\.jsonl: no such file"):
        all_events(reading)


def test_an_endless_line_is_skipped_and_never_held_whole(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    num_bytes = 100_000_000
    with log.open("wb") as file:
        file.write(lines([step(1)]) + b'{"kind":"step","x":"')
        file.seek(num_bytes, io.SEEK_CUR)  # a hole: nothing lies on disk
        file.write(b'"}\n' + lines([step(2), {"kind": "step", "t": "noon", "step": 3}]))
    reading = open_log([log])
    tracemalloc.start()
    try:
        assert steps_of(reading) == [1, 2]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * files.MAX_LINE_BYTES
    assert [skip.line_number for skip in reading.skips] == [2, 4]
    assert f"a line of {num_bytes + 23} bytes" in reading.skips[0].reason


def test_a_log_whose_first_line_is_endless_is_recognised_by_what_follows(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(b"x" * 9_000_000 + b"\n" + CONTENT)
    reading = open_log([log])
    assert steps_of(reading) == NUMBERS
    assert [skip.line_number for skip in reading.skips] == [1]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12])
def test_lines_come_out_whole_wherever_the_blocks_are_cut(size: int) -> None:
    content = b"\none\n\ntwo two\nan overlong line here\nthree\nunfinished"
    blocks = (content[start : start + size] for start in range(0, len(content), size))
    found = list(WholeLines(blocks, max_line_bytes=12))
    assert b"".join(chunk for chunk, _ in found) == b"\none\n\ntwo two\nthree\nunfinished"
    assert [too_long for _, too_long in found if too_long] == [len(b"an overlong line here\n")]


def test_directories_come_in_the_order_of_their_numbers_and_without_hidden_files(tmp_path: Path) -> None:
    for name in ("checkpoint-1000/a.json", "checkpoint-200/a.json", ".git/a.json", "checkpoint-200/.a.json.swp"):
        write(tmp_path / name, [step(1)])
    found = [Path(path).relative_to(tmp_path).as_posix() for path in files.in_directory(str(tmp_path))]
    assert found == ["checkpoint-200/a.json", "checkpoint-1000/a.json"]
