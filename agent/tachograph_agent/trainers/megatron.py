"""Megatron-LM and Megatron-DeepSpeed: iteration records, saves, loads, evaluations, starts and ends.

A record bears the average time of the iterations since the last one, and, in newer versions, the time of day when they
were done. A log of hundreds of megabytes is mostly records of one layout: ``read_texts`` finds those of a whole block
by one regular expression and leaves everything else to the slower, tolerant ``Reader``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.megatron_columns import ELAPSED, Columns, Row
from tachograph_agent.trainers.megatron_lines import heads
from tachograph_agent.trainers.megatron_reader import Reader
from tachograph_agent.trainers.megatron_runs import steps_of

_LONGEST_RUN: Final = 4096
_NUM_LAYOUTS_A_BLOCK: Final = 8
"""How often a block is looked over again because its records have another layout; then they are read one by one."""


class Megatron:
    """The adapter for Megatron-LM's and Megatron-DeepSpeed's output."""

    name: ClassVar[str] = "megatron"
    title: ClassVar[str] = "Megatron-LM and Megatron-DeepSpeed output (ms or s, with or without time stamps)"

    def sniff(self, head: str) -> float:
        """Sure if there is an iteration record, fairly so if there is a line that only Megatron prints."""
        if ELAPSED in head and heads(head.replace("\n", " ")):
            return 0.95
        if "saving checkpoint at iteration" in head or "[before the start of training step]" in head:
            return 0.7
        return 0.3 if "validation loss at iteration" in head else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, evaluations, attempts and failures, nearly in the log's order."""
        for events in self.read_texts(lines, context):
            yield from events

    def read_texts(self, texts: Iterable[str], context: Context) -> Iterator[list[AnyEvent]]:
        """The same, from texts of one or more whole lines, without the newline at their end."""
        blocks = _Blocks(context)
        for text in texts:
            if events := blocks.read(text):
                yield events
        yield blocks.reader.close()


class _Blocks:
    """Blocks of lines, read one after the other."""

    def __init__(self, context: Context) -> None:
        self.reader = Reader(context)
        self._num_lines = 0
        self._longest_run = _LONGEST_RUN

    def read(self, text: str) -> list[AnyEvent]:
        """The events of some whole lines."""
        events: list[AnyEvent] = []
        lines = text.split("\n")
        for _ in range(_NUM_LAYOUTS_A_BLOCK):
            done = self._read(text, lines, events)
            if done == len(lines):
                return events
            lines = lines[done:]
            text = "\n".join(lines)
        for line in lines:
            self._slowly(line, events)
        return events

    def _read(self, text: str, lines: list[str], events: list[AnyEvent]) -> int:
        """Read lines until their layout proves to be another than at the beginning; gives how many were read."""
        reader, columns = self.reader, self.reader.columns
        rows = _rows(columns, text, len(lines))
        others = [place for place, row in enumerate(rows) if not row[columns.iteration]]
        others.append(len(rows))
        num_others = 0
        place = 0
        while place < len(lines):
            if rows and reader.columns is columns:
                while others[num_others] < place:
                    num_others += 1
                end = min(others[num_others], place + self._longest_run)
                if place < end:
                    steps = steps_of(rows[place:end], columns, reader)
                    # Where records rarely go on (each is there twice, say), fewer are tried at once.
                    self._longest_run = _LONGEST_RUN if place + len(steps) == end else 2 * max(len(steps), 1)
                    if steps:
                        events += steps
                        place += len(steps)
                        self._num_lines += len(steps)
                        continue
            elif reader.columns is not columns and reader.columns.pattern is not None:
                return place
            self._slowly(lines[place], events)
            place += 1
        return place

    def _slowly(self, line: str, events: list[AnyEvent]) -> None:
        self._num_lines += 1
        if ELAPSED in line:
            events += self.reader.line(line, self._num_lines)
        else:
            events += self.reader.other(line, self._num_lines)


def _rows(columns: Columns, text: str, num_lines: int) -> list[Row]:
    """One row for each line; none at all where no layout is known, or where it fits something over two lines."""
    rows = columns.rows(text + "\n") if columns.pattern is not None else []
    return rows if len(rows) == num_lines else []
