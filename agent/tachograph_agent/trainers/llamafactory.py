"""LLaMA-Factory's ``trainer_log.jsonl``: steps and a stopwatch that starts anew at each start of the process.

``{"current_steps": 10, "total_steps": 99, "loss": 1.2, "elapsed_time": "0:00:10", "throughput": ...}``. After a resume
the stopwatch is at 0 while steps go on, so the trainer's own throughput and remaining time are wrong: rates are taken
from differences. The stopwatch shows whole seconds. The table ``step  810/2400  elapsed 0:00:00`` is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.hf_timeline import real
from tachograph_agent.trainers.jsonlines import records
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import integer

_ELAPSED: Final = re.compile(r"(?:(\d{1,5}) days?, )?(\d{1,4}):(\d\d):(\d\d)")
_TABLE: Final = re.compile(r"\bstep +(\d{1,15})/(\d{1,15}) +elapsed +((?:\d+ days?, )?\d+:\d\d:\d\d)\b")


@dataclass(frozen=True, slots=True)
class _Record:
    step: int
    total: int | None
    elapsed_s: float
    loss: float | None
    is_eval: bool
    tokens: float | None


class LLaMAFactory:
    """LLaMA-Factory's trainer_log.jsonl."""

    name: ClassVar[str] = "llamafactory"
    title: ClassVar[str] = "LLaMA-Factory trainer_log.jsonl (steps and a stopwatch, no clock)"

    def sniff(self, head: str) -> float:
        """Sure of ``current_steps`` beside ``elapsed_time``, or of two lines of the table."""
        for line in head.split("\n", 50)[:50]:
            if '"current_steps"' in line and '"elapsed_time"' in line:
                return 0.96
        return 0.8 if len(_TABLE.findall(head)) >= 2 else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and evaluations on a timeline of what the stopwatch shows."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=False)
        self.last: _Record | None = None
        self.first: tuple[_Record, int] | None = None
        self.interval: int | None = None
        self.tokens: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, raw, line in records(lines, self.context):
            record = _from_table(line) if raw is None else _from_json(raw)
            if record is not None:
                yield from self._record(record, line_number)
            elif raw is not None and "current_steps" in raw:
                self.context.skip(line_number, "a record without step or elapsed_time")
            else:
                yield from self.rows.other(line)
        yield from self._first_told(None)
        yield from self.rows.close()

    def _record(self, record: _Record, line_number: int) -> Iterator[AnyEvent]:
        last = self.last
        if last is not None and (record.elapsed_s < last.elapsed_s or record.step < last.step):
            yield from self._first_told(None)
            self.context.note(
                "The stopwatch went back: the process was started again. How long that took is not in the log, and the "
                "throughput that it printed since is too high; rates here are from differences."
            )
            self.last = last = None
            yield from self.rows.start(None, None)
        if record.is_eval:
            yield from self._first_told(None)
            if last is not None:
                yield from self.rows.evaluated(None, record.elapsed_s - last.elapsed_s)
            self.last = record
        elif last is None:
            self.first, self.last = (record, line_number), record
        elif record.step > last.step:
            yield from self._first_told(record)
            count = record.step - last.step
            self.interval = count if self.interval is None else min(count, self.interval)
            one_s = (record.elapsed_s - last.elapsed_s) / count
            self.last = record
            yield from self._told(record, line_number, one_s, None)
        elif not last.is_eval and last.loss is None and record.loss is not None:
            self.last = record
        if record.total is not None and record.step >= record.total > 0 and not record.is_eval:
            self.rows.finished(None)

    def _first_told(self, after: _Record | None) -> Iterator[AnyEvent]:
        """An attempt's first record stands for as many steps as its stopwatch leaves room for at the pace after it."""
        if self.first is None:
            return
        (record, line_number), self.first = self.first, None
        fresh = self.rows.attempts.number == 0 and not self.rows.attempts.begun
        one_s = None
        if after is not None and after.step > record.step:
            one_s = (after.elapsed_s - record.elapsed_s) / (after.step - record.step)
        count = self.interval or 1
        if one_s is not None and one_s > 0.0:
            room = (record.elapsed_s + 1.0) / one_s
            if fresh and record.step <= 2.0 * room:
                count = record.step
            elif self.interval is None:
                self.context.note("The log begins after a resume: how many steps its first record holds is unknown.")
        elif fresh and self.interval is None:
            count = record.step
        count = max(1, min(count, record.step))
        yield from self._told(record, line_number, record.elapsed_s / count, count)

    def _told(self, record: _Record, line_number: int, one_s: float, count: int | None) -> Iterator[AnyEvent]:
        tokens, before = None, self.tokens
        if record.tokens is not None:
            tokens = record.tokens - before if before is not None and record.tokens >= before else None
            self.tokens = record.tokens
        row = Row(record.step, None, one_s, record.loss, tokens=tokens, count=count, values=record)
        yield from self.rows.row(row, line_number)


def _from_json(raw: dict[str, object]) -> _Record | None:
    step, elapsed_s = raw.get("current_steps"), _seconds(str(raw.get("elapsed_time"))[:40])
    if not isinstance(step, int) or isinstance(step, bool) or step < 0 or elapsed_s is None:
        return None
    total = raw.get("total_steps")
    is_eval = "loss" not in raw and any(name.startswith(("eval", "predict")) for name in raw)
    total = total if isinstance(total, int) and not isinstance(total, bool) else None
    return _Record(step, total, elapsed_s, real(raw.get("loss")), is_eval, real(raw.get("total_tokens")))


def _from_table(line: str) -> _Record | None:
    found = _TABLE.search(line)
    elapsed_s = None if found is None else _seconds(found[3])
    if found is None or elapsed_s is None:
        return None
    return _Record(int(found[1]), integer(found[2]), elapsed_s, None, False, None)


def _seconds(text: str) -> float | None:
    found = _ELAPSED.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
