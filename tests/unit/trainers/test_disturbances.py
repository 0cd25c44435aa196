"""The layer under all adapters: however a log is encoded, packed, cut into parts or decorated, its books are the same.

Each adapter's made-up log goes through each disturbance. A new adapter must be added to the samples.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path

import pytest
import samples_consoles
import test_damaged_tables
import test_damaged_trainers
import zstandard
from tachograph_agent.events import AnyEvent, encode
from tachograph_agent.trainers import registry, tensorboard
from tachograph_agent.trainers.growing import GrowingLog
from tachograph_agent.trainers.reading import open_log
from tachograph_collector.ledger import Ledger
from tachograph_collector.ledger.books import Books

SAMPLES: dict[str, str] = {**test_damaged_trainers.SAMPLES, **test_damaged_tables.SAMPLES, **samples_consoles.SAMPLES}
WHOLE = frozenset({"hf-state"})
"""Formats whose file is one value, not lines."""
STRICT = frozenset(
    {
        "hf-state", "lightning-csv", "keras-csv", "worker-csv", "torchtitan-trace", "one-logger", "mmengine-scalars",
        "llamafactory", "torchelastic-events", "nvrx-cycles", "megatron-progress", "tensorboard-viewer",
    }
)  # fmt: skip
"""Files that a logger writes for itself alone: no terminal, launcher or progress bar gets between their lines."""
CONSOLES = sorted(set(SAMPLES) - STRICT)
BAR = "Loading:  37%|####      | 3/8 [00:04<00:07,  1.4s/it]"

Pack = Callable[[bytes], bytes]


def events_of(paths: Sequence[Path], name: str) -> list[AnyEvent]:
    reading = open_log(paths, run="r7", tz=UTC)
    assert reading.format == name
    return [event for batch in reading.batches() for event in batch]


def told(events: Sequence[AnyEvent]) -> list[bytes]:
    return sorted(encode(event) for event in events)


def plain(tmp_path: Path, name: str) -> list[AnyEvent]:
    path = tmp_path / "plain" / "train.log"
    path.parent.mkdir()
    path.write_text(SAMPLES[name])
    return events_of([path], name)


def books(events: Sequence[AnyEvent]) -> list[Books]:
    ledger = Ledger()
    ledger.add(events)
    return [ledger.books(run) for run in ledger.runs()]


def test_every_adapter_has_a_sample_here() -> None:
    assert set(SAMPLES) == set(registry.adapters()) - {tensorboard.NAME, registry.PATTERN}


ENCODINGS: dict[str, Pack] = {
    "a mark": lambda data: codecs.BOM_UTF8 + data,
    "UTF-16 from Windows": lambda data: codecs.BOM_UTF16_LE + data.decode().encode("utf-16-le"),
    "UTF-16 big-endian": lambda data: codecs.BOM_UTF16_BE + data.decode().encode("utf-16-be"),
    "UTF-16 without a mark": lambda data: data.decode().encode("utf-16-le"),
    "Windows' line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "no end of the last line": lambda data: data.rstrip(b"\n"),
    "empty lines at its end": lambda data: data.rstrip(b"\n") + b"\n\n\n",
}
PACKINGS: dict[str, Pack] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_however_a_log_is_encoded_its_events_are_the_same(name: str, tmp_path: Path) -> None:
    expected = told(plain(tmp_path, name))
    for number, (what, change) in enumerate(ENCODINGS.items()):
        path = tmp_path / str(number) / "train.log"
        path.parent.mkdir()
        path.write_bytes(change(SAMPLES[name].encode()))
        assert (what, told(events_of([path], name))) == (what, expected)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_however_a_log_is_packed_its_events_are_the_same(name: str, tmp_path: Path) -> None:
    expected = told(plain(tmp_path, name))
    for suffix, pack in PACKINGS.items():
        path = tmp_path / suffix / f"train.log.{suffix}"
        path.parent.mkdir()
        path.write_bytes(pack(SAMPLES[name].encode()))
        assert (suffix, told(events_of([path], name))) == (suffix, expected)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - WHOLE))
def test_a_log_that_was_rotated_and_packed_is_read_from_its_oldest_part_on(name: str, tmp_path: Path) -> None:
    expected = told(plain(tmp_path, name))
    lines = SAMPLES[name].splitlines(keepends=True)
    folder = tmp_path / "rotated"
    folder.mkdir()
    paths = [folder / "train.log", folder / "train.log.1", folder / "train.log.2.gz"]
    # The oldest part must be enough to tell the format.
    oldest, middle, newest = lines[:-2], lines[-2:-1], lines[-1:]
    if len(lines) < 4:
        oldest, middle, newest = lines[:-1], [], lines[-1:]
    paths[2].write_bytes(gzip.compress("".join(oldest).encode()))
    paths[1].write_text("".join(middle))
    paths[0].write_text("".join(newest))
    reading = open_log(paths, format=name, run="r7", tz=UTC)
    assert told([event for batch in reading.batches() for event in batch]) == expected
    if oldest:
        assert any("earlier parts of a rotated log" in note for note in reading.notes)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - set(registry.NOT_FOLLOWED)))
def test_a_log_that_is_followed_as_it_grows_gives_the_same_events(name: str, tmp_path: Path) -> None:
    expected = told(plain(tmp_path, name))
    data = SAMPLES[name].encode()
    path = tmp_path / "train.log"
    path.write_bytes(data[: len(data) // 5])
    rest = [data[len(data) * part // 5 : len(data) * (part + 1) // 5] for part in range(1, 5)]
    found: list[AnyEvent] = []

    def wait() -> bool:
        if not rest:
            return True
        with path.open("ab") as file:
            file.write(rest.pop(0))
        return False

    GrowingLog(path, format=name, run="r7", tz=UTC).follow(found.extend, wait)
    assert told(found) == expected


def coloured(line: str) -> str:
    return f"\x1b[2K\x1b[1;32m{line}\x1b[0m"


GLUED = "another's words glued before it"
BLOCKS = frozenset({"composer"})
"""Formats whose record is a name and a value a line: with other words before it there is no name."""
DECORATIONS: dict[str, Callable[[str], str]] = {
    "colours": coloured,
    "torchrun's tag": lambda line: f"[default0]:{line}",
    "srun's label": lambda line: f" 0: {line}",
    "compose's column": lambda line: f"worker-0 | {line}",
    "a progress bar before it": lambda line: f"\r{BAR}\r{line}",
    GLUED: lambda line: f"slow loader! {line}" if line.strip() else line,
    "blanks at its end": lambda line: f"{line}   ",
}


@pytest.mark.parametrize("name", CONSOLES)
def test_whatever_terminal_or_launcher_decorates_a_console_its_books_are_the_same(name: str, tmp_path: Path) -> None:
    expected = books(plain(tmp_path, name))
    for number, (what, decorate) in enumerate(DECORATIONS.items()):
        if what == GLUED and name in BLOCKS:
            continue
        path = tmp_path / str(number) / "train.log"
        path.parent.mkdir()
        lines = SAMPLES[name].removesuffix("\n").split("\n")
        path.write_text("".join(f"{decorate(line)}\n" for line in lines))
        assert (what, books(events_of([path], name))) == (what, expected)


@pytest.mark.parametrize("name", CONSOLES)
def test_a_line_that_is_no_utf8_costs_nothing_beside_itself(name: str, tmp_path: Path) -> None:
    expected = books(plain(tmp_path, name))
    path = tmp_path / "train.log"
    path.write_bytes(SAMPLES[name].encode() + b"\nd\xe9j\xe0 vu \x80 \x81\n")
    assert books(events_of([path], name)) == expected


@pytest.mark.parametrize("name", CONSOLES)
def test_lines_of_a_second_rank_between_those_of_the_first_change_nothing(name: str, tmp_path: Path) -> None:
    if re.search(r"^\[(rank|\d+,)\d", SAMPLES[name], re.MULTILINE):
        return  # it tells its ranks itself
    expected = books(plain(tmp_path, name))
    path = tmp_path / "train.log"
    lines = SAMPLES[name].removesuffix("\n").split("\n")
    path.write_text("".join(f"[rank0]:{line}\n[rank1]:{line}\n" for line in lines))
    assert books(events_of([path], name)) == expected
