"""The collector's log: one line an event, whatever it holds, and what repeats is said once."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from tachograph_collector.service import logs


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    kept = {name: logging.getLogger(name) for name in ("tachograph", "uvicorn")}
    before = {name: (each.handlers[:], each.level, each.propagate) for name, each in kept.items()}
    yield logging.getLogger("tachograph.service")
    for name, (handlers, level, propagate) in before.items():
        kept[name].handlers[:] = handlers
        kept[name].setLevel(level)
        kept[name].propagate = propagate


def test_a_line_is_one_line_whatever_is_in_it(log: logging.Logger) -> None:
    stream = io.StringIO()
    logs.set_up("text", "info", stream)
    log.info('a "run"\nand more', extra={"run": "x y"})
    log.debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert 'message="a \\"run\\"\\nand more"' in line
    assert 'run="x y"' in line
    assert line.startswith("time=")


def test_json_lines_are_json_and_a_traceback_is_a_field(log: logging.Logger) -> None:
    stream = io.StringIO()
    logs.set_up("json", "info", stream)
    try:
        int("no number")
    except ValueError:
        log.exception("failed")
    told = json.loads(stream.getvalue())
    assert (told["level"], told["message"]) == ("error", "failed")
    assert "ValueError" in told["error"]


def test_a_warning_that_repeats_is_said_once_and_then_with_how_often() -> None:
    now_s = 0.0
    once = logs.Once(clock=lambda: now_s)

    def record() -> logging.LogRecord:
        return logging.LogRecord("x", logging.WARNING, "", 0, "again", None, None)

    assert [once.filter(record()) for _ in range(5)] == [True] + [False] * 4
    now_s = logs.QUIET_S
    last = record()
    assert once.filter(last)
    assert last.repeated == 4  # type: ignore[attr-defined]  # put there by its maker
