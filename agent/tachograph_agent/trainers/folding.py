"""Logs with a time of day and no date: ``22:02:31:WU00:FS00:0x21:Completed 400000 out of 5000000 steps (8%)``.

Folding@home's client writes so, and ``Detected clock skew (1 mins 22 secs)`` where its process did not run for so long:
the clock is right then, and nothing is shifted by it. Without a date the timeline starts at the first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, AttemptStart, Health, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import clean

_LINE: Final = re.compile(r"(\d\d):(\d\d):(\d\d):(?:(?:WARNING|ERROR):)?WU\d+:FS\d+:(.*)")
_DONE: Final = re.compile(r"Completed (\d{1,15}) out of (\d{1,15}) steps")
_SKEW: Final = re.compile(r"Detected clock skew \((?:(\d{1,6}) hours? ?)?(?:(\d{1,6}) mins? ?)?(?:(\d{1,6}) secs?)?\)")
_DAY_S: Final = 86_400
_BACK_S: Final = 43_200
"""A time that is earlier by more than this is past midnight; by less, a line that came late."""


class Folding:
    """The log of Folding@home's client."""

    name: ClassVar[str] = "folding"
    title: ClassVar[str] = "Folding@home log (hh:mm:ss:WU..:FS..: Completed N out of M steps; no date)"

    def sniff(self, head: str) -> float:
        """Sure of its progress behind its time."""
        found = [text for *_, text in _LINE.findall(head)]
        return 0.9 if any(_DONE.search(text) or _SKEW.search(text) for text in found) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, less the time in which the process was stopped, and each such stop as a finding."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    base = context.start_unix_seconds or 0.0
    first: int | None = None
    last_s = days = attempt = 0
    last: tuple[int, float] | None = None
    stopped_s = 0.0
    for line in lines:
        found = _LINE.search(clean(line))
        if found is None:
            continue
        at_s = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
        if first is None:
            first = last_s = at_s
            context.has_clock = False
            context.note(
                "Times in this log have no date: the timeline starts with its first line, at 0 (--start places it)."
            )
        if last_s - at_s > _BACK_S:
            days += 1
        last_s = at_s
        t = base + max(0.0, float(days * _DAY_S + at_s - first))
        if skew := _SKEW.search(found[4]):
            hours, minutes, seconds = (int(part or 0) for part in skew.groups())
            skew_s = float((hours * 60 + minutes) * 60 + seconds)
            stopped_s += skew_s
            context.note(
                "A clock skew in this log is time in which the process did not run; nothing was shifted by it."
            )
            yield Health(t=t, check="stopped", value=skew_s, severity="warning", detail="the process did not run")
        elif done := _DONE.search(found[4]):
            step = int(done[1])
            if last is None or step < last[0]:
                attempt += last is not None
                yield AttemptStart(t=t, attempt=attempt)
                record = Step(t=t, attempt=attempt, step=step)
            elif step == last[0]:
                continue
            else:
                took_s = t - last[1]
                record = Step(t=t, attempt=attempt, step=step, count=step - last[0])
                record.dur = max(0.0, took_s - min(stopped_s, took_s))
            last, stopped_s = (step, t), 0.0
            yield record
