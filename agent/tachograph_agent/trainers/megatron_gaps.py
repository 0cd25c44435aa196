"""Saves and evaluations between two iteration records: when they were, from lines that mostly bear no time.

Megatron stops its interval timer around evaluation and saving, so the time between one record and the beginning of the
next record's iterations is exactly what they took. ``place`` deals that gap out in the order of the lines; timers, if
they were printed, and times in the lines themselves come first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tachograph_agent.events import (
    LONGEST_DURATION_SECONDS,
    AnyEvent,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Mode,
    Phase,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.megatron_lines import Mark


@dataclass(slots=True)
class _Item:
    """One save or one evaluation."""

    kind: str
    step: int = 0
    start_t: float | None = None
    end_t: float | None = None
    dur_s: float | None = None
    is_async: bool = False
    is_closed: bool = False


@dataclass(slots=True)
class Gaps:
    """What is remembered from gap to gap of one attempt."""

    context: Context
    unfinished_async: set[int] = field(default_factory=set)
    eval_s: float | None = None
    """How long the last evaluation took that had a gap of its own, or a timer."""

    def place(
        self, marks: list[Mark], attempt: int, begin_t: float, end_t: float | None, first_step_t: dict[int, float]
    ) -> tuple[list[AnyEvent], float]:
        """The events of ``marks``, which stand between ``begin_t`` and ``end_t``, and when the last of them ended.

        ``end_t`` None: nobody knows when training went on, or whether it did. ``first_step_t`` has a later beginning
        for saves of a step in the midst of the next record's interval.
        """
        items, landed = self._items(marks)
        self._deal(items, None if end_t is None else max(end_t - begin_t, 0.0))
        events: list[AnyEvent] = []
        cursor = begin_t
        run = self.context.run
        for item in items:
            start = item.start_t if item.start_t is not None else max(cursor, first_step_t.get(item.step, cursor))
            end = item.end_t if item.end_t is not None else start + (item.dur_s or 0.0)
            end = max(start, end)
            if item.kind == "eval":
                if 0.0 < end - start <= LONGEST_DURATION_SECONDS:  # a clock that jumps makes no evaluation of years
                    events.append(Phase(t=end, dur=end - start, name="eval", run=run, attempt=attempt))
            else:
                mode: Mode = "async" if item.is_async else "sync"
                if end > start or not item.is_closed:
                    # At one time an end comes before a start, which would then stay open.
                    events.append(CheckpointStart(t=start, step=item.step, mode=mode, run=run, attempt=attempt))
                if item.is_closed:
                    events.append(CheckpointSaved(t=end, step=item.step, mode=mode, run=run, attempt=attempt))
            cursor = max(cursor, end)
        for mark in landed:
            # Without a time of its own it landed by the time that training is known to have gone on.
            t = mark.t if mark.t is not None else max(cursor, end_t or cursor)
            tier = "local" if mark.kind == "saved_local" else "storage"
            events.append(CheckpointPersisted(t=t, step=mark.step, tier=tier, run=run, attempt=attempt))
        return events, cursor

    def _items(self, marks: list[Mark]) -> tuple[list[_Item], list[Mark]]:
        items: list[_Item] = []
        landed: list[Mark] = []
        saves: dict[int, _Item] = {}
        for mark in marks:
            if mark.kind == "saving" and mark.step not in saves:
                saves[mark.step] = item = _Item("save", mark.step, mark.t)
                items.append(item)
            elif mark.kind == "scheduled":
                item = saves.get(mark.step) or _Item("save", mark.step, mark.t)
                if mark.step not in saves:
                    saves[mark.step] = item
                    items.append(item)
                item.is_async = item.is_closed = True
                item.end_t = mark.t
                self.unfinished_async.add(mark.step)
            elif mark.kind == "saved":
                if mark.step in self.unfinished_async:
                    self.unfinished_async.discard(mark.step)
                    landed.append(mark)
                    continue
                item = saves.get(mark.step) or _Item("save", mark.step, mark.t)
                if mark.step not in saves:
                    saves[mark.step] = item
                    items.append(item)
                item.is_closed = True
                item.end_t = mark.t if item.end_t is None else item.end_t
            elif mark.kind == "saved_local":
                landed.append(mark)
            elif mark.kind == "eval":
                # Several sets, and several losses, are evaluated at one stop.
                if not items or items[-1].kind != "eval":
                    items.append(_Item("eval", mark.step))
                items[-1].end_t = mark.t
            elif mark.kind in {"save_timer", "eval_timer"}:
                wanted = "save" if mark.kind == "save_timer" else "eval"
                for item in reversed(items):
                    if item.kind == wanted:
                        item.dur_s = mark.value
                        break
        return items, landed

    def _deal(self, items: list[_Item], gap_s: float | None) -> None:
        """Give every item without a duration its share of the gap."""
        unknown = [
            item
            for item in items
            if item.dur_s is None and (item.start_t is None or (item.end_t is None and item.is_closed))
        ]
        if gap_s is None:
            if any(item.kind == "save" and item.is_closed for item in unknown):
                self.context.note("How long some saves took is not in the log; they are booked without a duration.")
            return
        left = max(gap_s - sum(item.dur_s or 0.0 for item in items), 0.0)
        evals = [item for item in unknown if item.kind == "eval"]
        saves = [item for item in unknown if item.kind == "save" and item.is_closed]
        if evals and saves and self.eval_s is None:
            self.context.note(
                "Evaluations and saves share stretches whose parts the log doesn't tell; they are booked as saves."
            )
        for item in evals:
            item.dur_s = left / len(evals) if not saves else min(self.eval_s or 0.0, left / len(evals))
        if evals and not saves:
            self.eval_s = left / len(evals)
        left -= sum(item.dur_s or 0.0 for item in evals)
        for item in saves:
            item.dur_s = max(left, 0.0) / len(saves)
