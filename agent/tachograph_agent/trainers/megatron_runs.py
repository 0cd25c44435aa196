"""Uninterrupted runs of Megatron's records into steps, by whole columns: numbers, times, durations, losses.

A log of hundreds of megabytes is nearly all of this kind. What doesn't simply go on from the record before ends a run
and is the ``Reader``'s to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise, repeat
from operator import le
from typing import Final

import msgspec

from tachograph_agent.events import Step
from tachograph_agent.trainers.megatron_columns import Columns, Row
from tachograph_agent.trainers.megatron_lines import LONGEST_S
from tachograph_agent.trainers.megatron_reader import Reader
from tachograph_agent.trainers.zones import LATE_S

_FLOATS: Final = msgspec.json.Decoder(list[float])

_END_OF_MINUTE_S: Final = 61.0
"""A minute has 61 seconds when a leap second is put in."""


def steps_of(rows: Sequence[Row], columns: Columns, reader: Reader) -> list[Step]:
    """The steps of as many rows, from the first, as go on from the reader's last record; none if the first doesn't.

    The reader is brought up to the last of them.
    """
    place = reader.clock.place()
    while rows:
        try:
            steps = _whole_run(rows, columns, reader)
        except ValueError:  # a number or a time that is none
            steps = None
        if steps is not None:
            return steps
        reader.clock.back_to(place)  # in an hour that exists twice it matters what was read before
        rows = rows[: len(rows) // 2]
    return []


def _whole_run(rows: Sequence[Row], columns: Columns, reader: Reader) -> list[Step] | None:
    """The steps of all rows; None if one of them doesn't simply go on from the one before."""
    interval, attempt, run = reader.interval, reader.attempt, reader.context.run
    found = list(zip(*rows, strict=True))
    iterations = list(map(int, found[columns.iteration]))
    first = reader.last + interval
    if interval <= 0 or iterations != list(range(first, first + interval * len(rows), interval)):
        return None
    ones_s = [one * columns.unit_s for one in _floats(found[columns.value])]
    durations = [one_s * interval for one_s in ones_s]
    if not (min(durations) >= 0.0 and sum(durations) < LONGEST_S):  # not so either if one is NaN
        return None
    if columns.minute is None or columns.second is None:
        times = list(accumulate(durations, initial=reader.t))[1:]
    else:
        minutes = found[columns.minute]
        begins = {minute: reader.start_of(minute) for minute in dict.fromkeys(minutes)}
        seconds = _floats(found[columns.second])
        times = [begins[minute] + second for minute, second in zip(minutes, seconds, strict=True)]
        if max(seconds) >= _END_OF_MINUTE_S:  # no second of a clock: another one's to judge
            return None
        if times[0] < reader.t or not all(map(le, times, times[1:])):
            return None
        if reader.set_back_s and any(later - t > LATE_S for t, later in pairwise((reader.t, *times))):
            return None  # perhaps the clock was set right again
    losses = repeat(None) if columns.loss is None else _floats(found[columns.loss])
    norms = repeat(None) if columns.norm is None else _floats(found[columns.norm])
    if columns.minute is None:
        for iteration, one_s, loss in zip(iterations, ones_s, losses, strict=False):
            reader.remember(iteration, one_s, loss)
    reader.last, reader.t = iterations[-1], times[-1]
    tokens = None if reader.tokens_a_step is None else reader.tokens_a_step * interval
    return [
        Step(
            t=t, run=run, attempt=attempt, dur=dur, step=iteration, count=interval, loss=loss, grad_norm=norm,
            tokens=tokens,
        )
        for t, dur, iteration, loss, norm in zip(times, durations, iterations, losses, norms, strict=False)
    ]  # fmt: skip


def _floats(texts: Sequence[str]) -> list[float]:
    """The numbers that ``texts`` are; ``ValueError`` if one is none.

    A JSON decoder reads a whole column in a fraction of the time that ``float`` takes for one after the other.
    """
    try:
        numbers = _FLOATS.decode(f"[{','.join(texts)}]")
    except msgspec.MsgspecError:  # a NaN, for instance
        return list(map(float, texts))
    return numbers if len(numbers) == len(texts) else list(map(float, texts))
