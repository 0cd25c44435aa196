"""nv-one-logger's file of spans and events: JSON Lines with ``timestamp_msec``, from Megatron, NeMo and others.

Spans are told at their ends, or by their start while they are open: ``{"type": "complete", "name":
"checkpoint_save_sync", "attributes": {"current_iteration": 100}, "start_event": ..., "stop_event": ...}``. Steps come
as ``training_metrics_update`` with running totals, of which differences are taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from tachograph_agent.events import AnyEvent, Phase
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.hf_timeline import real
from tachograph_agent.trainers.jsonlines import records
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed

_TYPES: Final = frozenset({"start", "stop", "complete", "event", "application_error"})
_MOST_OPEN: Final = 1000


class OneLogger:
    """The file of nv-one-logger."""

    name: ClassVar[str] = "one-logger"
    title: ClassVar[str] = "nv-one-logger file of spans and events (JSON Lines)"

    def sniff(self, head: str) -> float:
        """Sure of a typed record with its time."""
        for line in head.split("\n", 50)[:50]:
            if line.startswith("{") and '"timestamp_msec"' in line and '"type"' in line and '"pid"' in line:
                return 0.95
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, evaluations, failures, starts and the end."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one file stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=True)
        self.open: dict[str, tuple[str, float, dict[str, Any]]] = {}
        self.up_at: float | None = None
        self.target: int | None = None
        self.total: tuple[int, float] | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, record, line in records(lines, self.context):
            kind = None if record is None else record.get("type")
            if record is None or not isinstance(kind, str):
                yield from self.rows.other(line)
            elif kind in ("event", "application_error"):
                yield from self._event(kind, record.get("event"), line_number)
            elif kind in _TYPES:
                yield from self._span(kind, record, line_number)
        yield from self.rows.close()

    def _span(self, kind: str, record: dict[str, Any], line_number: int) -> Iterator[AnyEvent]:
        name, span = str(record.get("name")), str(record.get("id"))
        start_t, stop_t = _time(record.get("start_event")), _time(record.get("stop_event"))
        attributes = _attributes(record)
        if kind == "start" or start_t is not None:
            if start_t is None:
                self.context.skip(line_number, "a span's start without a time")
                return
            yield from self._begun(name, start_t, attributes)
            if kind == "start":
                if len(self.open) < _MOST_OPEN:
                    self.open[span] = name, start_t, attributes
                return
        else:
            name, start_t, before = self.open.pop(span, (name, stop_t, {}))
            attributes = {**before, **attributes}
        if stop_t is None or start_t is None:
            self.context.skip(line_number, "a span's end without a time")
            return
        yield from self._ended(name, start_t, stop_t, attributes)

    def _begun(self, name: str, t: float, attributes: dict[str, Any]) -> Iterator[AnyEvent]:
        if name == "application":
            self.up_at = t
        elif name == "training_loop":
            first = _whole(attributes.get("train_iterations_start"))
            self.target = _whole(attributes.get("train_iterations_target"))
            self.total = None if first is None else (first, 0.0)
            yield from self.rows.start(t, first, up_at=self.up_at)
            self.up_at = None
        elif name == "checkpoint_save_sync":
            yield from self.rows.save_begun(t, _whole(attributes.get("current_iteration")))

    def _ended(self, name: str, start_t: float, t: float, attributes: dict[str, Any]) -> Iterator[AnyEvent]:
        step = _whole(attributes.get("current_iteration"))
        if name == "checkpoint_save_sync":
            yield from self.rows.saved(t, step)
        elif name == "checkpoint_save_async" and step is not None:
            yield from self.rows.scheduled(t, step)
        elif name in ("validation_loop", "testing_loop"):
            yield from self.rows.evaluated(t, t - start_t)
        elif name == "checkpoint_load" and t > start_t:
            yield Phase(t=t, attempt=self.rows.attempts.number, name="reload", dur=t - start_t)
        elif name == "training_loop" and self.target and (self.rows.order.last or 0) >= self.target:
            self.rows.finished(t)

    def _event(self, kind: str, event: object, line_number: int) -> Iterator[AnyEvent]:
        t, attributes = _time(event), _attributes(event)
        if t is None or not isinstance(event, dict):
            self.context.skip(line_number, "an event without a time")
        elif kind == "application_error":
            said = ": ".join(str(attributes.get(key, ""))[:500] for key in ("exception_type", "exception_message"))
            yield from self.rows.attempts.feed("Traceback (most recent call last):", t)
            yield from self.rows.attempts.feed(said, t)
        elif event.get("name") == "training_metrics_update":
            yield from self._metrics(attributes, t, line_number)
        elif event.get("name") == "save_checkpoint_success" and attributes.get("checkpoint_strategy") == "async":
            step = _whole(attributes.get("current_iteration"))
            if step is not None:
                yield from self.rows.landed(t, step)

    def _metrics(self, attributes: dict[str, Any], t: float, line_number: int) -> Iterator[AnyEvent]:
        step, total_s = _whole(attributes.get("current_iteration")), real(attributes.get("total_iteration_time_sec"))
        if step is None:
            self.context.skip(line_number, "an update without its iteration")
            return
        one_s = None
        if total_s is not None:
            before, before_s = self.total or (step, total_s)
            if step > before and total_s >= before_s:
                one_s = (total_s - before_s) / (step - before)
            self.total = step, total_s
        row = Row(step, t, one_s, real(attributes.get("latest_loss")))
        row.values = json.dumps(attributes, sort_keys=True)
        yield from self.rows.row(row, line_number)


def _attributes(record: object) -> dict[str, Any]:
    found = record.get("attributes") if isinstance(record, dict) else None
    return found if isinstance(found, dict) else {}


def _time(event: object) -> float | None:
    at_ms = real(_attributes(event).get("timestamp_msec"))
    return at_ms / 1000.0 if at_ms is not None and 0.0 <= at_ms < 253_402_300_800_000.0 else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
