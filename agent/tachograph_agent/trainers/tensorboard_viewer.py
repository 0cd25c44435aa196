"""TensorBoard's own warning that steps are out of order, which names two steps and their times.

The viewer takes a step that falls for a restart and purges what it has. The times in the line tell whether it was one:
if the smaller step is the earlier one, files were read in the wrong order, and nothing was lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import LATEST_UNIX_SECONDS, AnyEvent, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import number

_PURGE: Final = re.compile(
    r"out of order event\.step.{0,400}?previous step: (\d{1,15}) \(timestamp: ([\d.]{1,25})\) and current step: "
    r"(\d{1,15}) \(timestamp: ([\d.]{1,25})\)"
)


class TensorBoardViewer:
    """What TensorBoard's viewer prints."""

    name: ClassVar[str] = "tensorboard-viewer"
    title: ClassVar[str] = "TensorBoard's warnings of steps out of order (two steps and their times)"

    def sniff(self, head: str) -> float:
        """Sure of that warning."""
        return 0.9 if _PURGE.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """The steps that are named, in the order of their times."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    known: set[tuple[float, int]] = set()
    for line_number, line in enumerate(lines, start=1):
        for found in _PURGE.finditer(line):
            before_t, after_t = number(found[2]), number(found[4])
            times = [t for t in (before_t, after_t) if t is not None and 0.0 < t < LATEST_UNIX_SECONDS]
            if len(times) < 2 or len(known) > 10_000:
                context.skip(line_number, "a warning whose times can't be read")
                continue
            known |= {(times[0], int(found[1])), (times[1], int(found[3]))}
            if times[1] < times[0] and int(found[3]) < int(found[1]):
                context.note(
                    f"Line {line_number}: step {found[3]} is EARLIER than step {found[1]}: files were read in the "
                    "wrong order. There was no restart, and nothing is lost."
                )
    if not known:
        return
    context.note("Only the steps that the warnings name are known; what happened between them is not.")
    rows = Rows(context, timed=True)
    for index, (t, step) in enumerate(sorted(known)):
        yield from map(_without_duration, rows.row(Row(step, t, values=t), 2 * index))
    yield from map(_without_duration, rows.close())


def _without_duration(event: AnyEvent) -> AnyEvent:
    """A step of which nothing is known but that it was done."""
    if isinstance(event, Step):
        event.dur, event.count = None, 1
    return event
