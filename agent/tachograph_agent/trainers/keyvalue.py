"""Any console with a step and a loss in each line: ``step: 10 loss: 2.5 took 1.2``, ``Iter 20/500 | train_loss=2.1``.

The format of last resort: names that nobody documented are guessed at, and the note says which. A line counts if it
has a step and, beside it, a loss or a duration; lines of an evaluation don't. Lines that MPI glued are parted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows, bare
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import integer, leading_number, seconds, tagged

_STEP: Final = re.compile(
    r"(?<![\w/.-])(?P<name>(?:global|train|training)?[ _-]?(?:steps?|iter(?:ation)?s?|updates?|num_updates|batch))"
    r"[\"']?(?:\s*[:=#]\s*|\s+\[?\s*|\s*\[\s*)(?P<step>\d[\d,]{0,18})(?![\d.]*\.\d)(?:\s*/\s*\d[\d,]*)?(?![\w%])",
    re.IGNORECASE,
)
_VALUE: Final = r"[\"']?\s*[:= ]\s*([-+]?(?:[\d.]+(?:e[-+]?\d+)?|nan|inf)\b)"
_LOSS: Final = re.compile(
    r"(?<![\w/-])(?:(?:train(?:ing)?|total|lm|avg)[ _/.-]?)?loss" + _VALUE,
    re.IGNORECASE,
)
_NORM: Final = re.compile(r"(?<![\w/-])(?:grad(?:ient)?[ _-]?norm|gnorm)" + _VALUE, re.IGNORECASE)
_TOOK: Final = re.compile(
    r"(?<![\w/-])(?:took|dt|(?:step|iter(?:ation)?|batch)[ _-]?time|time[ _/](?:per[ _])?(?:step|iter(?:ation)?)"
    r"|s(?:ec)?/(?:it|iter|step))[\"']?\s*(?:\((?P<unit>ms|s)\))?\s*[:= ]\s*"
    r"(?P<took>\d[\d.]{0,20}) ?(?P<after>ms|s|sec)?\b",
    re.IGNORECASE,
)
_NO_TRAINING: Final = re.compile(
    r"\b(?:val(?:id(?:ation)?)?|eval(?:uation|uating)?|test(?:ing)?)\b|\bval_", re.IGNORECASE
)
LOOK_AHEAD: Final = 2000
NUM_SURE: Final = 3


class KeyValue:
    """A console nobody wrote a reader for."""

    name: ClassVar[str] = "key-value"
    title: ClassVar[str] = "any console with a step and a loss in each line (guessed names; the last resort)"

    def sniff(self, head: str) -> float:
        """Sure of nothing: enough where no other is, and three lines in a row make sense."""
        rows = [row for line in head.split("\n", 2000)[:2000] for _, text in pieces(line) if (row := parsed(text))]
        rising = sum(later.step > row.step for row, later in pairwise(rows))
        return 0.45 if len(rows) >= NUM_SURE and rising >= min(NUM_SURE - 1, len(rows) // 2) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and failures; neither saves nor evaluations are known."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    rows = Rows(context)
    for line_number, line in enumerate(lines, start=1):
        for origin, text in pieces(line):
            row = parsed(text)
            if row is None:
                yield from rows.other(text)
                continue
            context.note(
                "Read as lines of key and value, in no format that is documented: what looked like a step, its loss "
                "and its time was taken as that. Saves and evaluations can't be seen."
            )
            row.t = rows.clock.find(text)
            yield from rows.row(row, line_number, origin)
    yield from rows.close()


def pieces(line: str) -> list[tuple[str, str]]:
    """Whose and what: the line without its prefix, or the messages that ranks glued into it."""
    if "]<std" in line:
        return [(str(rank), message) for rank, message in tagged(line)]
    text, origin = bare(line)
    return [(origin, text)]


def parsed(text: str) -> Row | None:
    """The record that a line is, without its time of day; None if it is none."""
    text = text[:LOOK_AHEAD]
    found = _STEP.search(text)
    if found is None:
        return None
    loss, took = _LOSS.search(text), _TOOK.search(text)
    step = integer(found["step"])
    if step is None or (loss is None and took is None) or _NO_TRAINING.search(text):
        return None
    row = Row(step, values=text)
    row.loss = None if loss is None else leading_number(loss[1])
    if norm := _NORM.search(text):
        row.grad_norm = leading_number(norm[1])
    if took is not None:
        row.one_s = seconds(took["took"] + (took["unit"] or took["after"] or "s").lower())
    return row
