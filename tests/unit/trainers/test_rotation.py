"""Rotated parts are known by their names beside their log, and come oldest first."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from tachograph_agent.trainers import encodings, rotation
from tachograph_agent.trainers.reading import open_log

LINE = "iter {n}: loss 3.2100, time 250.00ms, mfu 31.20%\n"


def write(folder: Path, **parts: range) -> None:
    for name, numbers in parts.items():
        (folder / name.replace("_", ".")).write_text("".join(LINE.format(n=n) for n in numbers))


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (
            ["a/x.log", "a/x.log.1", "a/x.log.2.gz", "a/x.log.10"],
            ["a/x.log.10", "a/x.log.2.gz", "a/x.log.1", "a/x.log"],
        ),
        (["x.log-20300102", "x.log", "x.log-20300101.xz"], ["x.log-20300101.xz", "x.log-20300102", "x.log"]),
        (["x.log.2030-01-02", "x.log.2030-01-01", "x.log"], ["x.log.2030-01-01", "x.log.2030-01-02", "x.log"]),
        (["x.log-1893553200", "x.log-1893549600", "x.log"], ["x.log-1893549600", "x.log-1893553200", "x.log"]),
        # Ranks, attempts and parts of another kind keep the order in which they are given.
        (["x.log.0", "x.log.1", "x.log.2"], ["x.log.0", "x.log.1", "x.log.2"]),
        (["b/x.log.1", "a/x.log"], ["b/x.log.1", "a/x.log"]),
        (["x.log", "y.log.1"], ["x.log", "y.log.1"]),
        (["job-11.out", "job-12.out"], ["job-11.out", "job-12.out"]),
    ],
)
def test_parts_come_before_their_log_the_oldest_first(given: list[str], ordered: list[str]) -> None:
    assert rotation.oldest_first(given) == ordered


@pytest.mark.parametrize("as_directory", [True, False])
def test_parts_are_one_run_named_by_their_log_in_whatever_order_they_are_given(
    as_directory: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    write(folder, train_log_2=range(3), train_log_1=range(3, 6), train_log=range(6, 9))
    given = [folder] if as_directory else sorted(folder.iterdir())
    reading = open_log(given)
    events = [event for batch in reading.batches() for event in batch]
    # its kind is known, which the checker can't see
    assert [event.step for event in events if event.kind == "step"] == list(range(1, 10))  # type: ignore[union-attr]
    assert {event.run for event in events} == {"runs" if as_directory else "train"}
    assert sum("the oldest first" in note for note in reading.notes) == 1


def test_a_log_that_is_read_without_the_parts_beside_it_says_so(tmp_path: Path) -> None:
    write(tmp_path, train_log_1=range(3), train_log=range(3, 6))
    reading = open_log([tmp_path / "train.log"])
    assert [note for note in reading.notes if "train.log.1" in note] == [
        "train.log.1: may be earlier parts of train.log, and were not read; name them too to read all."
    ]


@pytest.mark.parametrize(("pack", "kind"), [(bz2.compress, "bzip2"), (lzma.compress, "xz")])
def test_of_a_packed_log_that_is_cut_off_or_damaged_counts_what_comes_before(
    pack: Callable[[bytes], bytes], kind: str, tmp_path: Path
) -> None:
    text = "".join(LINE.format(n=n) for n in range(60_000)).encode()
    packed = pack(text[:1_000_000]) + pack(text[1_000_000:])
    first = len(pack(text[:1_000_000]))
    damaged = packed[: first + 500] + bytes(200) + packed[first + 700 :]
    for content, word in ((packed[:-100], "cut off"), (damaged, "damaged")):
        path = tmp_path / "train.log"
        path.write_bytes(content)
        reading = open_log([path])
        num = sum(len(batch) for batch in reading.batches())
        assert 15_000 < num < 60_001
        assert any(f"{word} {kind}" in note or f"{kind} file is {word}" in note for note in reading.notes)


def test_a_line_in_latin_1_keeps_its_letters() -> None:
    assert encodings.decoded(b"n\xf6ude 3\nn\xc3\xb6ude 4\n\x81") == "nöude 3\nnöude 4\n\x81"


@pytest.mark.parametrize(
    "head", [b"\0" * 64, b"a\0" * 4, b"plain text without any", b"\0a" * 3, b"\x01\0\0\0" * 16, b""]
)
def test_zeros_alone_make_no_utf16(head: bytes) -> None:
    assert encodings.utf16_of(head) is None
