"""torchtitan's structured trace: one JSONL file a rank, with the beginning and end of every stretch of a step.

A ``step`` span holds data fetching, forward and backward, the optimizer, and then the save and the evaluation of that
step; those two are taken out of it, so a step ends where its save or evaluation begins. ``checkpoint_save`` surrounds
every step's question whether to save: only steps tagged ``checkpoint_save`` saved. ``value`` is in milliseconds; where
it disagrees with the ``time_us`` of the two ends, those are taken. Several ranks' files may follow one another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tachograph_agent.events import (
    LARGEST_STEP,
    LATEST_UNIX_SECONDS,
    AnyEvent,
    AttemptStart,
    CheckpointSaved,
    Failure,
    Phase,
    RunEnd,
    Step,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.signs import recognise
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import believable

SECTIONS: Final = {"fetching_batch": "data", "fwd_bwd": "forward_backward", "optim": "optimizer"}
"""Spans that are sections of a step, by the name that the event gives them."""

UNTAGGED_SAVE_SECONDS: Final = 1.0
"""A ``checkpoint_save`` without its tag saved nothing unless it took this long."""
_DISAGREES: Final = 0.1
_CLOCK_NOISE_S: Final = 0.005
_DATA_RAN_OUT: Final = re.compile(r"StopIteration|DataloaderExhausted")
_SNIFF: Final = re.compile(r'"log_type_name": ?"')


@dataclass(slots=True)
class _Rank:
    """What is going on in one rank."""

    node: str | None = None
    first_t: float | None = None
    started: bool = False
    starts: dict[str, float] = field(default_factory=dict)
    sections: dict[str, float] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    work_ended: float | None = None
    """Where this step's save or evaluation began."""
    after_s: float = 0.0
    broken: bool = False


class TorchtitanTrace:
    """torchtitan's structured trace."""

    name: ClassVar[str] = "torchtitan-trace"
    title: ClassVar[str] = "torchtitan structured trace (structured_logs/*.jsonl, one file a rank)"

    def sniff(self, head: str) -> float:
        """Sure of a record with a span's name and time."""
        return 0.98 if _SNIFF.search(head) and '"time_us"' in head else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Each rank's steps with their sections, saves, evaluations and starts."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one or more ranks' files stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.ranks: dict[int | None, _Rank] = {}
        self.in_seconds = False

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                self.context.skip(line_number, "not a JSON record")
                continue
            name = record.get("log_type_name") if isinstance(record, dict) else None
            t = _time(record) if isinstance(name, str) else None
            if t is None:
                self.context.skip(line_number, "a record without log_type_name or time")
                continue
            yield from self._record(str(name), record, t)

    def _record(self, name: str, record: dict[str, Any], t: float) -> Iterator[AnyEvent]:
        rank_number = _whole(record.get("rank"))
        rank = self.ranks.setdefault(rank_number, _Rank())
        node = record.get("host_name")
        if isinstance(node, str) and node:
            rank.node = node
        if rank.first_t is None:
            rank.first_t = t
        step = _whole(record.get("step"))
        where: dict[str, Any] = {"rank": rank_number, "node": rank.node}
        if name.endswith("_start") and name != "training_start":
            self._opened(rank, name.removesuffix("_start"), t)
        elif name.endswith("_end") and name != "training_end":
            span = name.removesuffix("_end")
            yield from self._closed(rank, span, record, t, step, self._took(rank, span, record, t), where)
        elif name.endswith("_error"):
            yield from self._broke(rank, str(record.get("message", "")), t, where)
        elif name == "training_start":
            if rank.started:  # a further start in the same file
                rank.first_t = t
            rank.started = False
        elif name == "metric_value":
            value, event_name = _real(record.get("value")), record.get("event_name")
            if value is not None and isinstance(event_name, str):
                rank.scalars[event_name] = value
        elif name in {"training_end", "training_completed"}:
            yield RunEnd(t=t)

    def _opened(self, rank: _Rank, span: str, t: float) -> None:
        rank.starts[span] = t
        if span == "step":
            rank.sections, rank.scalars = {}, {}
            rank.work_ended, rank.after_s, rank.broken = None, 0.0, False

    def _took(self, rank: _Rank, span: str, record: dict[str, Any], t: float) -> float | None:
        """Seconds that the span lasted, None if nothing tells."""
        began = rank.starts.pop(span, None)
        value = _real(record.get("value"))
        between = None if began is None or t < began else t - began
        if value is None or value < 0.0:
            return between
        told = value / 1000.0
        if between is not None and abs(told - between) > max(_CLOCK_NOISE_S, _DISAGREES * between):
            self.in_seconds = self.in_seconds or abs(value - between) <= max(_CLOCK_NOISE_S, _DISAGREES * between)
            self.context.note(
                "Durations in 'value' are not the milliseconds between the records' time_us; those count."
            )
            return between
        return value if between is None and self.in_seconds else told

    def _closed(
        self,
        rank: _Rank,
        span: str,
        record: dict[str, Any],
        t: float,
        step: int | None,
        took: float | None,
        where: dict[str, Any],
    ) -> Iterator[AnyEvent]:
        section = SECTIONS.get(span)
        if section is not None:
            if took is not None and believable(took) is not None:
                rank.sections[section] = rank.sections.get(section, 0.0) + took
        elif span == "step":
            yield from self._step(rank, record, t, step, took, where)
        elif span == "checkpoint_save" and step is not None and took is not None:
            tags = record.get("step_tags")
            tagged = isinstance(tags, list) and "checkpoint_save" in tags
            if tagged or took >= UNTAGGED_SAVE_SECONDS:
                yield from self._saved(rank, t, step, took, where)
        elif span == "eval" and took is not None:
            rank.work_ended = t - took if rank.work_ended is None else rank.work_ended
            rank.after_s += took
            yield Phase(t=t, name="eval", dur=believable(took), **where)
        elif span == "checkpoint_load" and took is not None and took >= UNTAGGED_SAVE_SECONDS:
            yield Phase(t=t, name="reload", dur=believable(took), **where)

    def _saved(self, rank: _Rank, t: float, step: int, took: float, where: dict[str, Any]) -> Iterator[AnyEvent]:
        self.context.note(
            "The trace doesn't say whether a save was synchronous: none counts as landed until it is resumed from."
        )
        rank.work_ended = t - took if rank.work_ended is None else rank.work_ended
        rank.after_s += took
        yield CheckpointSaved(t=t, step=step, mode="async", dur=believable(took), **where)

    def _step(
        self, rank: _Rank, record: dict[str, Any], t: float, step: int | None, took: float | None, where: dict[str, Any]
    ) -> Iterator[AnyEvent]:
        if rank.broken or step is None or step < 1:
            rank.broken = False
            return
        if not rank.started:
            rank.started = True
            relative = _whole(record.get("relative_step"))
            resume_step = None if relative is None or relative > step else step - relative
            yield AttemptStart(t=min(t, rank.first_t or t), resume_step=resume_step, **where)
        told = {name: believable(value) for name, value in rank.sections.items()}
        sections = {name: value for name, value in told.items() if value is not None}
        work_s = None if took is None else max(0.0, took - rank.after_s)
        event = Step(t=t if rank.work_ended is None else rank.work_ended, step=step, **where)
        event.t = max(0.0, event.t)
        event.dur = None if work_s is None else believable(work_s)
        event.sections = sections or None
        if "forward_backward" in sections:
            # The optimizer's global gradient norm is the first place where every rank waits for all others; waiting
            # inside forward and backward can't be told from work in this trace.
            event.busy_s = believable(sections["forward_backward"] + sections.get("data", 0.0))
        event.loss = _first(rank.scalars, "loss", "train.loss", "loss_metrics/global_avg_loss")
        event.grad_norm = _first(rank.scalars, "grad_norm", "train.grad_norm")
        event.tokens = _first(rank.scalars, "global_valid_tokens")
        yield event

    def _broke(self, rank: _Rank, message: str, t: float, where: dict[str, Any]) -> Iterator[AnyEvent]:
        """An exception left a span; the spans around it report it again."""
        if rank.broken:
            return
        rank.broken = True
        if _DATA_RAN_OUT.search(message):
            return
        detail = message.partition("_error: ")[2] or message
        sign = recognise(detail, in_traceback=True)
        yield Failure(t=t, category=sign.category if sign else "software", detail=detail[:200] or None, **where)


def _time(record: dict[str, Any]) -> float | None:
    for name, unit in (("time_us", 1e6), ("time_ms", 1e3), ("time", 1.0)):
        value = _real(record.get(name))
        if value is not None and 0.0 <= value / unit < LATEST_UNIX_SECONDS:
            return value / unit
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP else None


def _real(value: object) -> float | None:
    """The value as a float, None if it is no number that can be used as a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _first(scalars: dict[str, float], *names: str) -> float | None:
    return next((scalars[name] for name in names if name in scalars), None)
