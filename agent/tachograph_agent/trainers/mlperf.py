"""MLPerf training logs: ``:::MLLOG {json}`` lines, their times in Unix milliseconds.

From ``init_start`` to ``run_start`` is start-up; ``run_stop`` says how it ended: ``success`` is completed, ``aborted``
is failed. Steps come from ``train_step_timing`` where it is logged; else the training between two evaluations (or one
epoch) is one record, counted in optimizer steps where the log tells enough to count them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from tachograph_agent.events import LONGEST_DURATION_SECONDS, AnyEvent, AttemptStart, Phase, RunEnd, RunStart, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.failures import FailureWatch
from tachograph_agent.trainers.text import Clock, believable

_MARK: Final = ":::MLLOG"
_STATUS: Final[dict[str, Any]] = {"success": "completed", "aborted": "failed"}
_DECODER: Final = json.JSONDecoder()
MOST_EPOCHS: Final = 100_000
"""An epoch with a larger number is counted in samples or tokens."""
LATEST_MS: Final = 253_402_300_800_000
"""The year 10000: a larger ``time_ms`` is no time."""


class MLPerf:
    """The adapter for ``:::MLLOG`` lines, with whatever else a job printed between them."""

    name: ClassVar[str] = "mlperf"
    title: ClassVar[str] = "MLPerf training log (:::MLLOG lines)"

    def sniff(self, head: str) -> float:
        """Sure where a line of the format stands."""
        return 0.98 if re.search(r":::MLLOG *\{", head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Start, steps, evaluations and end of the run, and failures from the lines between."""
        watch = FailureWatch(context, Clock(context))
        run = _Run(context)
        for line_number, line in enumerate(lines, start=1):
            at = line.find(_MARK)
            if at < 0:
                yield from watch.feed(line, run.t)
                continue
            while at >= 0:
                record, problem = _record(line, at)
                if record is None:
                    context.skip(line_number, problem)
                else:
                    events = run.take(*record)
                    if any(isinstance(event, Step) for event in events):
                        events += watch.stepped()
                    yield from events
                at = line.find(_MARK, at + len(_MARK))
        yield from watch.close()
        yield from run.close()


def _record(line: str, at: int) -> tuple[tuple[float, str, Any, dict[str, Any]] | None, str]:
    """(Unix seconds, key, value, metadata) of the record at ``at``, or None and what is wrong with it."""
    begin = line.find("{", at)
    if begin < 0:
        return None, "an MLLOG line without JSON"
    try:
        raw, _ = _DECODER.raw_decode(line, begin)
    except (ValueError, RecursionError):
        return None, "an MLLOG line is cut or no JSON"
    time_ms, key, metadata = raw.get("time_ms"), raw.get("key"), raw.get("metadata")
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float) or not 0 <= time_ms < LATEST_MS:
        return None, "an MLLOG line without a time_ms that is a time"
    if not isinstance(key, str):
        return None, "an MLLOG line without a key"
    return (time_ms / 1000, key, raw.get("value"), metadata if isinstance(metadata, dict) else {}), ""


def _count(value: Any) -> int | None:
    """A number that counts something, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value < 2**63 and value == int(value) else None


class _Run:
    """One run after another in a log: ``take`` each record; several ranks may print the same one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.t: float | None = None
        self._attempt = -1
        self._reset()

    def _reset(self) -> None:
        self._begin_t: float | None = None
        self._run_t: float | None = None
        self._has_started = False
        self._is_over = False
        self._batch: int | None = None
        self._sequence: int | None = None
        self._step = 0
        self._source: str | None = None
        """What tells the steps, the first that did: ``timing``, ``epoch`` or ``block``."""
        self._block_t: float | None = None
        self._epoch_t: float | None = None
        self._eval_t: float | None = None
        self._position: int | None = None
        self._last_timing: tuple[float, float] | None = None

    def take(self, t: float, key: str, value: Any, metadata: dict[str, Any]) -> list[AnyEvent]:
        """The events of one record."""
        self.t = t
        events: list[AnyEvent] = []
        if key == "init_start":
            if self._is_over or self._run_t is not None:
                events = self.close()
                self._reset()
            # Every rank prints one; what stands before (caches cleared, names) is of the job, not of the run.
            self._begin_t = t if self._begin_t is None else min(self._begin_t, t)
        elif key == "run_start" and self._run_t is None:
            self._begin_t = t if self._begin_t is None else self._begin_t
            self._run_t = self._block_t = t
            events = self._starts()
        elif key == "run_stop" and not self._is_over:
            events = self._stop(t, metadata)
        elif key == "global_batch_size":
            self._batch = _count(value)
        elif key == "max_sequence_length":
            self._sequence = _count(value)
        elif not self._is_over:
            events = self._training(t, key, value, metadata)
        return events

    def _training(self, t: float, key: str, value: Any, metadata: dict[str, Any]) -> list[AnyEvent]:
        if key == "tracked_stats" and isinstance(value, dict):
            return self._timing(t, value, _count(metadata.get("step")))
        if key == "block_start" and self._block_t is None:
            self._block_t = t
        elif key == "eval_start" and self._eval_t is None:
            self._eval_t = t
            return self._block(t, _count(metadata.get("epoch_num")))
        elif key == "eval_stop" and self._eval_t is not None:
            begin, self._eval_t = self._eval_t, None
            self._block_t = t
            return [self._phase(begin, t)]
        elif key == "epoch_start" and self._epoch_t is None:
            self._epoch_t = t
        elif key == "epoch_stop" and self._epoch_t is not None:
            return self._epoch(t, _count(metadata.get("epoch_num")))
        return []

    def _timing(self, t: float, value: dict[str, Any], position: int | None) -> list[AnyEvent]:
        """A step told by its own timing. Its number is a running count: the log numbers by samples or tokens."""
        dur = value.get("train_step_timing")
        if isinstance(dur, bool) or not isinstance(dur, int | float) or not 0 <= dur <= LONGEST_DURATION_SECONDS:
            return []
        is_same = position is not None and position == self._position
        if self._source not in {None, "timing"} or is_same or self._last_timing == (t, float(dur)):
            return []  # another rank's record of the same step, or a second account of the same time
        events = self._starts(t - dur)
        self._source = "timing"
        self._step += 1
        step = self._new_step(t, float(dur), 1)
        rise = None if position is None else position - (self._position or 0)
        if rise and self._batch and self._sequence and rise == self._batch * self._sequence:
            step.tokens = float(rise)
        self._last_timing, self._position = (t, float(dur)), position
        loss = value.get("reduced_train_loss", value.get("loss"))
        if isinstance(loss, int | float) and not isinstance(loss, bool):
            step.loss = float(loss)
        return [*events, step]

    def _block(self, t: float, position: int | None) -> list[AnyEvent]:
        """The training before an evaluation, as one record of so many steps as samples, or tokens, allow."""
        begin, self._block_t = self._block_t, None
        if self._source not in {None, "block"} or begin is None or t <= begin:
            return []
        self._source = "block"
        size = (self._batch or 0) * (self._sequence or 1)
        rise = (position or 0) - (self._position or 0)
        count = 1
        if size and rise > 0 and rise % size == 0:
            count = rise // size
        else:
            self._context.note("This log doesn't tell its steps: each stretch between evaluations counts as one.")
        self._position = position
        self._step += count
        return [*self._starts(begin), self._new_step(t, t - begin, count)]

    def _epoch(self, t: float, number: int | None) -> list[AnyEvent]:
        begin, self._epoch_t = self._epoch_t, None
        # Where epochs are counted in samples, one of them spans the run and evaluations divide it.
        if self._source not in {None, "epoch"} or begin is None or t <= begin or number is None or number > MOST_EPOCHS:
            return []
        if self._source is None:
            # The run's own time began with run_start, whatever came before the first epoch.
            begin = begin if self._run_t is None else self._run_t
            self._context.note("This log doesn't tell its steps: one step here stands for one epoch.")
        self._source = "epoch"
        self._step += 1
        return [*self._starts(begin), self._new_step(t, t - begin, 1)]

    def _new_step(self, t: float, dur: float, count: int) -> Step:
        return Step(
            t=t, dur=believable(dur), step=self._step, count=count, run=self._context.run, attempt=self._attempt
        )

    def _phase(self, begin: float, end: float) -> Phase:
        dur = believable(max(end - begin, 0.0))
        return Phase(t=end, dur=dur, name="eval", run=self._context.run, attempt=max(self._attempt, 0))

    def _starts(self, trained_from: float | None = None) -> list[AnyEvent]:
        """Run and attempt begin with the earliest rank's ``init_start``; an excerpt's, where its first step began."""
        begin, run = self._begin_t if self._begin_t is not None else trained_from, self._context.run
        if self._has_started or begin is None:
            return []
        self._has_started = True
        self._attempt += 1
        self._context.note("MLPerf logs tell no saves: what is at risk is unknown.")
        start = AttemptStart(t=max(begin, 0.0), run=run, attempt=self._attempt)
        if self._begin_t is not None:
            start.resume_step = 0
        return [RunStart(t=start.t, run=run, checkpoints="unseen"), start]

    def _stop(self, t: float, metadata: dict[str, Any]) -> list[AnyEvent]:
        events = self.close()
        self._is_over = True
        told = metadata.get("status")
        status = _STATUS.get(told) if isinstance(told, str) else None
        if status is None:
            self._context.note(f"run_stop tells the status {str(told)[:40]!r}: neither success nor aborted.")
            return events
        return [*events, RunEnd(t=t, run=self._context.run, status=status)]

    def close(self) -> list[AnyEvent]:
        """What is left at the end of the log, or of a run in it."""
        if self._is_over:
            return []
        events = self._starts()
        if self._eval_t is not None and self.t is not None and self.t > self._eval_t:
            events.append(self._phase(self._eval_t, self.t))
            self._eval_t = None
        return events
