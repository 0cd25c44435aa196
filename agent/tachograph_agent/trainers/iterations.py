"""Logs that tell how long each iteration took and not which it was: ``DATE TIME: Iteration took 32.709 s.``

Iterations are counted from the log's beginning. A time of day is that of an iteration's end. Where the next line's own
duration leaves hours of nothing before it, the log says nothing about them: they are in none of the accounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, Gap, RunEnd
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows, numbered
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import seconds

_TOOK: Final = re.compile(
    r"\b(?:iteration|step|batch|iter)s? took:? ([\d.]{1,20}) ?(ms|s|secs?|seconds)\b", re.IGNORECASE
)
HOLE_SECONDS: Final = 3600.0
HOLE_ITERATIONS: Final = 20.0
"""A hole is longer than both an hour and twenty iterations as long as the longer of its neighbours."""


class Iterations:
    """Durations of iterations without their numbers."""

    name: ClassVar[str] = "iterations"
    title: ClassVar[str] = "durations without step numbers (Iteration took 1.5 s)"

    def sniff(self, head: str) -> float:
        """Fairly sure of three of them."""
        return 0.5 if len(_TOOK.findall(head)) >= 3 else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """A step for each line."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    rows = Rows(context)
    step = 0
    last_t: float | None = None
    last_s = 0.0
    for line_number, line, origin in numbered(lines):
        found = _TOOK.search(line)
        one_s = None if found is None else seconds(found[1] + ("ms" if found[2].lower() == "ms" else "s"))
        if one_s is None:
            yield from rows.other(line)
            continue
        context.note("Iterations have no numbers in this log: they are counted from its beginning.")
        t = rows.clock.find(line)
        if t is not None and last_t is not None:
            hole_s = t - last_t - one_s
            if hole_s > max(HOLE_SECONDS, HOLE_ITERATIONS * max(one_s, last_s)):
                context.note(
                    f"The log is silent for {hole_s / 3600.0:.1f} hours, which no iteration accounts for: what "
                    "happened then is unknown, and in none of the accounts."
                )
                yield from _left_out(rows, last_t, t - one_s, step)
        step += 1
        row = Row(step, t, one_s, count=1, values=line_number)
        yield from rows.row(row, line_number, origin)
        last_t, last_s = t, one_s
    yield from rows.close()


def _left_out(rows: Rows, from_t: float, until_t: float, step: int) -> Iterator[AnyEvent]:
    """An end of the run at the hole's beginning, and a start at its end, where the same work goes on."""
    yield from rows.pause()
    yield Gap(t=until_t, since=from_t)
    yield RunEnd(t=from_t)
    yield from rows.start(until_t, step)
