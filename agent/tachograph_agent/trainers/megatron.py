"""Megatron-LM and Megatron-DeepSpeed: iteration records, saves, loads, evaluations, starts and ends.

A record bears the average time of the iterations since the last one, and, in newer versions, the time of day when they
were done. A log of hundreds of megabytes is mostly records of one layout: ``read`` reads those without a regular
expression and leaves everything else to the slower, tolerant ``Reader``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from tachograph_agent.events import AnyEvent, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.megatron_columns import ELAPSED
from tachograph_agent.trainers.megatron_lines import LONGEST_S, heads
from tachograph_agent.trainers.megatron_reader import Reader


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
        reader = Reader(context)
        run = context.run
        line_number = 0
        last, before = reader.last, reader.t
        columns = reader.columns
        interval, tokens, attempt = 0, None, 0
        for line in lines:
            line_number += 1
            at = line.find(ELAPSED)
            if at == columns.elapsed:
                # The common case, a whole record that continues the last one in the same columns, is read by hand: one
                # regular expression with these groups takes longer. What differs is left to the slow path.
                try:
                    iteration = int(line[columns.number : columns.slash])
                    end = line.index(" |", columns.value)
                    dur = float(line[columns.value : end]) * columns.unit_s * interval
                    if columns.second:
                        minute = line[columns.minute : columns.second - 1]
                        start = columns.minute_t if minute == columns.minute_text else reader.start_of(minute)
                        t = start + float(line[columns.second : columns.stamp_end])
                    else:
                        t = before + dur
                    begin = end + columns.to_loss
                    if not line.startswith("| lm loss: ", begin):
                        begin = line.index("| lm loss: ", end)
                        columns.to_loss = begin - end
                    end = line.index(" |", begin + 11)
                    loss = float(line[begin + 11 : end])
                    norm = None
                    if columns.has_norm:
                        begin = end + columns.to_norm
                        if not line.startswith("| grad norm: ", begin):
                            begin = line.index("| grad norm: ", end)
                            columns.to_norm = begin - end
                        end = line.index(" |", begin + 13)
                        norm = float(line[begin + 13 : end])
                except ValueError:
                    iteration = -1
                if (
                    iteration - last == interval
                    and t >= before
                    and 0.0 <= dur < LONGEST_S
                    and len(line) <= columns.longest
                    and line.find(columns.no_trouble, end) > 0
                    and line[columns.slash] == "/"
                    and (tokens is None or columns.batch_text in line)
                ):
                    last, before = iteration, t
                    if not columns.second:
                        reader.remember(iteration, dur / interval, loss)
                    yield Step(
                        t=t, run=run, attempt=attempt, dur=dur, step=iteration, count=interval, loss=loss,
                        grad_norm=norm, tokens=tokens,
                    )  # fmt: skip
                    continue
            reader.last, reader.t = last, before
            events = reader.other(line, line_number) if at < 0 else reader.line(line, line_number)
            last, before, columns, interval = reader.last, reader.t, reader.columns, reader.interval
            attempt = reader.attempt
            tokens = None if reader.tokens_a_step is None else reader.tokens_a_step * interval
            if events:
                yield from events
        yield from reader.close()
