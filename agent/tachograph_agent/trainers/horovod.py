"""Output of ``horovodrun``: what ranks printed, glued together by MPI's pipe, with Horovod's own trace among it.

Each message belongs to the tag nearest before it; of one that only got as far as its bracket nothing is left. Steps
are read like those of any console. Horovod's trace says that a rank was alive then, and nothing of progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, Heartbeat
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.keyvalue import parsed, pieces
from tachograph_agent.trainers.rows import Rows
from tachograph_agent.trainers.story import framed

_TRACE: Final = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^:]{0,12}: [A-Z] horovod/")


class Horovod:
    """What horovodrun prints."""

    name: ClassVar[str] = "horovod"
    title: ClassVar[str] = "Horovod's output (ranks glued by MPI, horovod/common trace)"

    def sniff(self, head: str) -> float:
        """Sure of its trace, behind MPI's tags."""
        if not _TRACE.search(head):
            return 0.0
        return 0.9 if "]<std" in head else 0.7

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps where ranks print any, signs of life where not."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    rows = Rows(context)
    alive: dict[str, int] = {}
    for line_number, line in enumerate(lines, start=1):
        for origin, text in pieces(line):
            row = parsed(text)
            if row is not None:
                row.t = rows.clock.find(text)
                yield from rows.row(row, line_number, origin)
                continue
            t = rows.clock.find(text) if _TRACE.search(text) else None
            if t is not None and alive.get(origin) != int(t):  # a trace has thousands of lines a second
                alive[origin] = int(t)
                yield Heartbeat(t=t, rank=int(origin) if origin.isdigit() and len(origin) < 10 else None)
            yield from rows.other(text)
    yield from rows.close()
