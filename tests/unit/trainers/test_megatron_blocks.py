"""Megatron's output read in blocks: the same events as line by line and as by the tolerant reader alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from adapter_runs import of, read, steps
from megatron_lines_made_up import EVALUATED, LOADED, SAVED, SAVING, mark, record
from tachograph_agent.events import AnyEvent, encode
from tachograph_agent.trainers import megatron_reader
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.megatron import Megatron
from tachograph_agent.trainers.megatron_columns import Columns, columns_of
from tachograph_agent.trainers.reading import open_log

ADAPTER = Megatron()


def messy(*, has_times: bool, unit: str = "ms") -> list[str]:
    """Some hundred records with everything between and inside them that ends the common layout."""
    lines = [mark("before the start of training step", 0.0)] if has_times else []
    t = 0.0
    for i in [*range(1, 61), *range(41, 200)]:
        t += 2.0 + i / 1000 if i != 41 else 500.0
        at = t if has_times else None
        said = {"ms": 2000.0 + i, "loss": f"{2 + 1 / i:.6E}", "grad_norm": f"{i / 7:.3f}", "unit": unit}
        if i == 41:
            lines.append(LOADED.format(40))
        if i == 70:
            said["loss"] = "NaN"
        if i in (80, 81, 95):
            said["loss"] = None
        # the fields come by name, which the checker can't see
        line = record(i, at, **said, batch=128 if i < 100 else 256, skipped=i == 90, tokens=2048)  # type: ignore[arg-type]
        if i == 110:
            lines += [line[:150], line[150:]]
            continue
        if i == 120:
            line = line[:120]
        if i == 130:
            line += record(i, at, **said, batch=256, tokens=2048)  # type: ignore[arg-type]  # fields by name
        if i == 140:
            line = line.replace("learning rate: 3.000000E-04", "learning rate: 3.0\n00000E-04")
        lines += line.split("\n")
        if 150 <= i < 170:
            lines.append(line)
        if i % 20 == 0:
            lines += [SAVING.format(i), SAVED.format(i)]
            t += 7.0
        if i % 50 == 0:
            lines += ["-" * 50, EVALUATED.format(i), "", "-" * 50]
    return lines


def told(events: list[AnyEvent]) -> list[bytes]:
    return [encode(event) for event in events]


def in_blocks(texts: list[str]) -> tuple[list[AnyEvent], Context]:
    context = Context(run="r7")
    return [event for events in ADAPTER.read_texts(texts, context) for event in events], context


def blocks_of(lines: list[str], longest: int) -> list[str]:
    rng = random.Random(longest)
    texts = []
    while lines:
        number = rng.randint(1, longest)
        texts.append("\n".join(lines[:number]))
        lines = lines[number:]
    return texts


@pytest.mark.parametrize("unit", ["ms", "s"])
@pytest.mark.parametrize("has_times", [True, False])
@pytest.mark.parametrize("longest", [3, 40, 10_000])
def test_blocks_of_any_size_give_what_single_lines_give(has_times: bool, unit: str, longest: int) -> None:
    lines = messy(has_times=has_times, unit=unit)
    one_by_one, expected = read(ADAPTER, "\n".join(lines))
    events, context = in_blocks(blocks_of(lines, longest))
    assert told(events) == told(one_by_one)
    assert (context.skips, context.notes, context.counters) == (expected.skips, expected.notes, expected.counters)
    assert [skip.line_number for skip in context.skips] != []


@pytest.mark.parametrize("has_times", [True, False])
def test_blocks_give_what_the_tolerant_reader_gives(monkeypatch: pytest.MonkeyPatch, has_times: bool) -> None:
    lines = messy(has_times=has_times)
    fast, expected = in_blocks(["\n".join(lines)])
    monkeypatch.setattr(megatron_reader, "columns_of", lambda line, *, has_times: Columns())
    slow, context = in_blocks(["\n".join(lines)])
    assert len(steps(slow)) > 200
    assert told(fast) == told(slow)
    assert (context.skips, context.notes, context.counters) == (expected.skips, expected.notes, expected.counters)


def test_a_plain_log_is_read_by_whole_columns() -> None:
    """Else a log of hundreds of megabytes takes ten times as long, and nobody is told."""
    lines = [f"[rank15]:{record(i, 2.0 * i, loss=f'{2 + 1 / i:.6E}')}" for i in range(1, 40)]
    columns = columns_of(lines[5], has_times=True)
    found = columns.rows("\n".join([*lines, "another line", ""]))
    assert [row[columns.iteration] for row in found] == [*map(str, range(1, 40)), ""]
    assert columns_of(lines[30], has_times=True) is columns


@pytest.mark.parametrize(
    "line",
    [
        record(5, 10.0)[:100],
        record(5, 10.0) + record(6, 12.0),
        record(5, 10.0) + " " + "a line of another rank, which is much longer than what launchers write",
        "x" * 70 + record(5, 10.0),
        record(5, 10.0).replace("elapsed", "passed"),
        record(5, None),
        "no record",
        "",
    ],
)
def test_what_is_no_plain_record_has_no_columns(line: str) -> None:
    assert columns_of(line, has_times=True).pattern is None


def test_carriage_returns_and_files_keep_their_line_numbers(tmp_path: Path) -> None:
    plain = [record(i, 2.0 * i) for i in range(1, 30)]
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("\n".join([*plain, "loading: 1%\rloading: 100%\rdone", record(30, 60.0)[:100]]) + "\n")
    second.write_text("\n".join([record(31, 62.0), record(32, 64.0)[:100], record(33, 66.0)]) + "\n")
    reading = open_log([str(first), str(second)])
    events = [event for batch in reading.batches() for event in batch]
    assert [step.step for step in steps(events)] == [*range(1, 30), 31, 33]
    assert [(skip.file, skip.line_number) for skip in reading.skips] == [(str(first), 31), (str(second), 2)]
    assert len(of(events, "run.start")) == 1
