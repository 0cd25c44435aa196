"""mmengine's and mmcv's text log: ``10/30 22:18:02 - mmengine - INFO - Epoch(train) [1][200/735]  ... time: 2.89``.

Old builds have neither year nor zone. ``[epoch][iteration/iterations]`` counts from 1; ``time`` is the mean of one
iteration over the last ten or so. A save is told when it begins; that it is over shows in the next line of training.
A gradient norm of NaN beside a falling loss is what a scaler skips: it is the gradient's value, not the loss's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows, numbered
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import number

_HEAD: Final = re.compile(
    r"(?:(?:\d{4}/)?\d\d/\d\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - [\w.]{2,40} - [A-Z]{4,8} - ?"
)
_PROGRESS: Final = re.compile(
    r"\b(?P<unit>Epoch|Iter)(?:\((?P<phase>\w+)\))? *(?:\[ *(?P<epoch>\d{1,9})\] ?)?"
    r"\[ *(?P<done>\d{1,15})/ *(?P<total>\d{1,15})\](?P<rest>.*)"
)
_FIELD: Final = re.compile(r"([A-Za-z][\w./-]*): *([^\s,]+)")
_SAVE: Final = re.compile(r"Saving checkpoint at (\d{1,15}) (epochs?|iterations?)")
_RESUMED: Final = re.compile(r"resumed (?:from )?epoch:? *\d+, *iter:? *(\d{1,15})")
_SHAPED: Final = re.compile(r"\b(?:Epoch|Iter)(?:\((?:train)\))? *\[ *\d*\]?[^\]]*$")


class MMEngine:
    """The text log of mmengine and of mmcv before it."""

    name: ClassVar[str] = "mmengine"
    title: ClassVar[str] = "mmengine and mmcv text log (... - mmengine - INFO - Epoch(train) [1][50/99] ... time: ...)"

    def sniff(self, head: str) -> float:
        """Sure of a progress behind its line head."""
        head = head[:65_536]
        for found in _HEAD.finditer(head):
            if _PROGRESS.match(head, found.end(), found.end() + 400):
                return 0.96
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, evaluations, saves, and the starts of each training in the file."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.rows = Rows(context, timed=True)
        self.context = context
        self.total = 0
        self.up_at: float | None = None
        self.resumed: int | None = None
        self.mark_t: float | None = None
        """Until when what came before the line of an evaluation lasted."""

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line, origin in numbered(lines):
            head = _HEAD.search(line)
            t = None if head is None else self.rows.clock.find(line[head.start() :])
            if head is None or t is None:
                yield from self.rows.other(line)
                continue
            yield from self._line(line[head.end() :], t, line_number, origin)
        yield from self.rows.close()

    def _line(self, text: str, t: float, line_number: int, origin: str) -> Iterator[AnyEvent]:
        if found := _PROGRESS.match(text):
            phase = found["phase"] or "train"
            fields = dict(_FIELD.findall(found["rest"]))
            if phase == "train":
                yield from self._step(found, fields, t, line_number, origin)
            elif found["done"] == found["total"]:
                one_s = number(fields.get("time", ""))
                took = None if self.mark_t is None else max(0.0, t - self.mark_t)
                if one_s is not None and 0.0 < one_s * int(found["total"]) < (took or 0.0):
                    took = one_s * int(found["total"])
                yield from self.rows.evaluated(t, took)
                self.mark_t = t
        elif found := _SAVE.search(text):
            done = int(found[1])
            step = done if found[2].startswith("iter") else done * self.total if self.total else None
            yield from self.rows.save_begun(t, step)
            self.mark_t = t
        elif found := _RESUMED.search(text):
            self.resumed = int(found[1])
        elif text.startswith("Checkpoints will be saved to"):
            yield from self.rows.start(t, self.resumed or 0, up_at=self.up_at)
            self.up_at, self.resumed = None, None
        elif _SHAPED.match(text):
            self.context.skip(line_number, "a progress line that is cut off")
        else:
            if self.up_at is None and (not text.strip() or text.startswith(("Environment info", "Env info"))):
                self.up_at = t
            yield from self.rows.other(text)

    def _step(
        self, found: re.Match[str], fields: dict[str, str], t: float, line_number: int, origin: str
    ) -> Iterator[AnyEvent]:
        done, total = int(found["done"]), int(found["total"])
        loss = number(fields.get("loss", ""))
        if loss is None and "time" not in fields:
            self.context.skip(line_number, "a progress line without time and loss")
            return
        if found["epoch"] is not None:
            self.total = total
            done += max(0, int(found["epoch"]) - 1) * total
        row = Row(done, t, number(fields.get("time", "")), loss, number(fields.get("grad_norm", "")), values=found[0])
        yield from self.rows.row(row, line_number, origin)
        self.mark_t = t
