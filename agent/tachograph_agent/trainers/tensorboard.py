"""TensorBoard's event files: which tag tells of training, and what its steps at their times become.

Every value has a wall time, so order of files and of values in them means nothing: all are taken by time, and nothing
is purged. One tag's step that falls while time goes on is a restart, and so is a file that begins after all before it
have ended. Tags of evaluations, and tags whose steps count something else (epochs), are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tachograph_agent.events import LARGEST_STEP, LATEST_UNIX_SECONDS, AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed

NAME: Final = "tensorboard"
_EVALUATED: Final = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test|dev)(?:[^a-z]|$)")
_LOSSES: Final = frozenset(
    {"loss", "train/loss", "loss/train", "train_loss", "training_loss", "total_loss", "lm loss", "losses/total_loss"}
)


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one tag: ``t`` in Unix seconds."""

    t: float
    step: int
    tag: str
    value: float | None


@dataclass(slots=True)
class EventFile:
    """What one file holds: its points, its first and last time, and the steps at which its writer said it restarts."""

    points: list[Point] = field(default_factory=list)
    first_t: float | None = None
    last_t: float = 0.0

    def saw(self, t: float) -> bool:
        """Take the time of an event; False if it can't be one."""
        if not 0.0 < t < LATEST_UNIX_SECONDS:
            return False
        self.first_t = t if self.first_t is None else min(self.first_t, t)
        self.last_t = max(self.last_t, t)
        return True


class TensorBoard:
    """TensorBoard's event files; ``tensorboard_files`` reads their bytes."""

    name: ClassVar[str] = NAME
    title: ClassVar[str] = "TensorBoard event files (needs tachograph[tensorboard])"

    def sniff(self, head: str) -> float:  # noqa: ARG002 - every adapter has it
        """Never sure of text: these files are binary, and recognised before text is looked at."""
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Nothing: lines of text are no event file."""
        for _ in lines:
            context.note("This is no TensorBoard event file.")
        yield from ()


def story(files: Sequence[EventFile], context: Context) -> Iterator[AnyEvent]:
    """The events of some files of one run."""
    return framed(_events(files, context), context)


def _events(files: Sequence[EventFile], context: Context) -> Iterator[AnyEvent]:
    chosen = _training_tags([point for file in files for point in file.points])
    if not chosen:
        return
    loss, norm = chosen[0], next((tag for tag in chosen if "grad" in tag.lower() and "norm" in tag.lower()), None)
    context.note(f"Steps are those of the tag {loss!r}, as its writer numbered them; saves can't be seen.")
    rows = Rows(context, timed=True)
    line_number = 0
    for starts_t, points in _attempts(files, frozenset(chosen)):
        yield from rows.start(starts_t, None)
        for row in _rows(points, loss, norm):
            line_number += 2  # never neighbours: each step is one row already
            yield from rows.row(row, line_number)
    yield from rows.close()


def _attempts(files: Sequence[EventFile], tags: frozenset[str]) -> Iterator[tuple[float, list[Point]]]:
    """When each attempt began, and its points in the order of time."""
    dated = sorted((file for file in files if file.first_t is not None), key=lambda file: file.first_t or 0.0)
    groups: list[list[EventFile]] = []
    until = -1.0
    for file in dated:
        if groups and (file.first_t or 0.0) <= until:
            groups[-1].append(file)
        else:
            groups.append([file])
        until = max(until, file.last_t)
    for group in groups:
        points = sorted(
            (point for file in group for point in file.points if point.tag in tags),
            key=lambda point: (point.t, point.tag, point.step),
        )
        began = min(file.first_t or 0.0 for file in group)
        last: dict[str, Point] = {}
        attempt: list[Point] = []
        for point in points:
            before = last.get(point.tag)
            if before is not None and (before.step, before.t) == (point.step, point.t):
                continue  # the same value in two files
            if before is not None and point.step <= before.step and point.t > before.t:
                yield began, attempt
                began, attempt = point.t, []
                last.clear()
            last[point.tag] = point
            attempt.append(point)
        if attempt:
            yield began, attempt


def _rows(points: Iterable[Point], loss: str, norm: str | None) -> list[Row]:
    """One row a step: at the first time that any tag has there."""
    rows: dict[int, Row] = {}
    for point in points:
        row = rows.setdefault(point.step, Row(point.step, point.t, values=point.step))
        if point.tag == loss:
            row.loss = point.value
        elif point.tag == norm:
            row.grad_norm = point.value
    return [rows[step] for step in sorted(rows)]


def _training_tags(points: Iterable[Point]) -> list[str]:
    """The tag that tells of training best, and those that are written at the same steps."""
    steps: dict[str, set[int]] = defaultdict(set)
    for point in points:
        if 0 <= point.step <= LARGEST_STEP and not _EVALUATED.search(point.tag.lower()):
            steps[point.tag].add(point.step)
    if not steps:
        return []
    best = min(steps, key=lambda tag: (-_likeness(tag), -len(steps[tag]), tag))
    also = [tag for tag in sorted(steps) if tag != best and 2 * len(steps[tag] & steps[best]) >= len(steps[tag])]
    return [best, *also]


def _likeness(tag: str) -> int:
    name = tag.lower()
    return 2 if name in _LOSSES else 1 if "loss" in name else 0
