"""Megatron's lines, read one by one: iteration records (the tolerant way) and the marks between them.

``record`` reads a record wherever it stands in a line; ``mark`` says what another line of Megatron's means: a save, a
load, an evaluation, a start, an end, a timer. Both are pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tachograph_agent.events import LONGEST_DURATION_SECONDS
from tachograph_agent.trainers.text import Clock, integer, number, pairs

LONGEST_S: Final = LONGEST_DURATION_SECONDS
"""No record stands for so long; one that says so is broken."""
_HEAD: Final = re.compile(r"\biteration +(\d{1,18})/ *(\d{1,18}) *(?:\||$)")
_BARE_HEAD: Final = re.compile(r"(?:^|\]) *iteration *\d*(?:/ *\d*)?\s*$")
_ELAPSED: Final = re.compile(r"elapsed time per iteration \((m?s)\): *([\d.]+) *\|")
_STAMP: Final = re.compile(r"\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,] *\d+)?)\] *$")
_UNFINISHED: Final = re.compile(r" *(?:[a-zA-Z][\w /().]*)?(?::[ \d.E+-]*)?$")


@dataclass(slots=True)
class Record:
    """One iteration record. ``one_s`` is the time of one iteration, ``t`` None where the line has no time."""

    iteration: int
    total: int
    one_s: float
    t: float | None
    loss: float | None
    grad_norm: float | None
    samples: int | None
    tokens: int | None
    """Consumed so far, like ``samples``."""
    batch: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def heads(line: str) -> list[int]:
    """Where iteration records begin in a line; several if lines were glued."""
    return [found.start() for found in _HEAD.finditer(line)]


def begins_record(line: str) -> bool:
    """Whether a record begins in a line, if only with the word before its number, where a line was cut."""
    return _HEAD.search(line) is not None or _BARE_HEAD.search(line) is not None


def last_field(line: str) -> str:
    """The name of a record's last field, by which the end of the next one is known."""
    return line[: max(line.rfind("|"), 0)].rpartition("|")[2].partition(":")[0].strip()


def is_cut(line: str) -> bool:
    """Whether a record's line ends inside a field, so that the rest was lost or stands on the next line."""
    if "|" not in line:
        return begins_record(line)
    return _UNFINISHED.match(line, line.rfind("|") + 1) is not None and not line.rstrip().endswith("|")


def record(line: str, clock: Clock) -> Record | None:
    """The one record in ``line``; None if it lacks its number or its time. Only fields closed by ``|`` count."""
    head = _HEAD.search(line)
    elapsed = _ELAPSED.search(line, head.end() - 1) if head is not None else None
    if head is None or elapsed is None:
        return None
    one = number(elapsed.group(2))
    unit_s = 0.001 if elapsed.group(1) == "ms" else 1.0
    if one is None or not one * unit_s < LONGEST_S:
        return None
    # A field without its closing bar may be cut in the middle of its number.
    fields = pairs(line[head.start() : line.rfind("|")])
    skipped, nans = fields.get("number of skipped iterations"), fields.get("number of nan iterations")
    extra = {
        name: count
        for name, text in (("skipped", skipped), ("nan_iterations", nans))
        if text is not None and (count := integer(text))
    }
    before = line[: head.start()]
    stamp = _STAMP.search(before)
    return Record(
        iteration=int(head.group(1)),
        total=int(head.group(2)),
        one_s=one * unit_s,
        t=clock.find(stamp.group(1) if stamp else before),
        loss=_told(fields, "lm loss", "loss"),
        grad_norm=_told(fields, "grad norm"),
        samples=_whole(fields, "consumed samples"),
        tokens=_whole(fields, "consumed tokens"),
        batch=_whole(fields, "global batch size"),
        extra=extra,
    )


def _told(fields: dict[str, str], *names: str) -> float | None:
    return next((number(fields[name]) for name in names if name in fields), None)


def _whole(fields: dict[str, str], name: str) -> int | None:
    return integer(fields[name]) if name in fields else None


MarkKind = Literal[
    "saving",
    "scheduled",
    "saved",
    "saved_local",
    "loaded",
    "scratch",
    "eval",
    "start",
    "done",
    "exit",
    "save_timer",
    "eval_timer",
    "world",
    "sequence",
]


@dataclass(slots=True)
class Mark:
    """What one line between the records says. ``value`` is the iteration, the seconds of a timer, or the size told."""

    kind: MarkKind
    value: float = 0.0
    t: float | None = None

    @property
    def step(self) -> int:
        """The iteration that a mark of a save or a load names."""
        return int(self.value)


_N: Final = r"(\d{1,18})\b"
_PATTERNS: Final[tuple[tuple[MarkKind, re.Pattern[str]], ...]] = (
    ("saved_local", re.compile(rf"successfully saved local checkpoint from iteration +{_N}")),
    ("saved", re.compile(rf"successfully saved checkpoint (?:from|at) iteration +{_N}")),
    ("scheduled", re.compile(rf"scheduled an async checkpoint save at iteration +{_N}")),
    ("saving", re.compile(rf"saving checkpoint at iteration +{_N}")),
    ("loaded", re.compile(rf"successfully loaded checkpoint .*?at iteration +{_N}")),
    ("scratch", re.compile(r"will not load any checkpoints and will start from random()")),
    ("eval", re.compile(rf"(?:validation|test) loss at iteration +{_N}")),
    ("exit", re.compile(r"exiting program (?:at iteration|after|on|due to)[ :]+(\d{1,18}\b)?")),
    ("done", re.compile(r"\[after training is done\]()")),
    ("start", re.compile(r"\[(?:before the start of training step|after [^\]]*built)\] *datetime()")),
    ("save_timer", re.compile(r"\bsave-checkpoint(?: \.+)?: *\(?([\d.]{1,12})\b")),
    ("eval_timer", re.compile(r"\beval(?:uate|-time)(?: \.+)?: *\(?([\d.]{1,12})\b")),
    ("world", re.compile(r"using world size: *(\d{1,9})\b")),
    ("sequence", re.compile(r"^\s*seq_length \.+ *(\d{1,9})\s*$")),
)


def maybe_mark(line: str) -> bool:
    """The cheap test before ``mark``."""
    return (
        "checkpoint" in line
        or "datetime" in line
        or " loss at iteration" in line
        or "exiting program" in line
        or "eval" in line
        or "world size" in line
        or "seq_length" in line
    )


def mark(line: str, clock: Clock) -> list[Mark]:
    """The marks in a line (glued lines have several), each with the line's own time where it has one."""
    found: list[tuple[int, Mark]] = []
    t: float | None = None
    for kind, pattern in _PATTERNS:
        match = pattern.search(line)
        if match is None or any(other.kind == "saved_local" for _, other in found if kind == "saved"):
            continue
        if t is None and kind not in {"save_timer", "eval_timer", "sequence"}:
            t = clock.find(line)
        value = number(match.group(1) or "0") or 0.0
        found.append((match.start(), Mark(kind, value / 1000 if kind.endswith("timer") else value, t)))
    found.sort(key=lambda pair: pair[0])
    return [mark for _, mark in found]
