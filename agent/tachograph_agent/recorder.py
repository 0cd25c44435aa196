"""What a training script imports: records steps, checkpoints, phases and failures into this rank's spool file.

    from tachograph_agent import Recorder

    recorder = Recorder()
    for number, batch in enumerate(loader, start=1):
        with recorder.step(number) as step:
            loss = train(batch)
            with step.wait():
                all_reduce()
            step.loss = loss

It has no thread and no network, holds no lock against other ranks, and never raises into the training loop: what it
can't write it counts, and says so by a ``gap`` when it can again. Without a spool (``TACHOGRAPH_SPOOL``), or with
``TACHOGRAPH=off``, every call does nothing. The wall clock is read once; from then on the monotonic clock goes on from
it, so that a step of the system's clock is none of the run's.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, Literal

from tachograph_agent import ending
from tachograph_agent.identity import Identity, identify
from tachograph_agent.spool.layout import attempt_directory, spool_directory
from tachograph_agent.spool.rankfile import RankFile

GOODBYE = "recorder.end"
"""The kind of the last line of a process that ends by itself; the agent takes a lock without it for a death."""
ENDS_A_STRETCH = ("checkpoint.saved", "checkpoint.failed", "rollback")
"""After these, and after a phase that is no part of a step, the next step begins."""
MAX_DETAIL = 500
OFFSET_READINGS = 5
LONGEST_S = 1e9
"""No step lasts longer; a duration that does is none."""
MOST = 1e300
"""Between minus this and this a float is neither NaN nor infinite, which JSON has no words for."""
log = logging.getLogger("tachograph")

_alive: list[Recorder] = []
"""Every recorder that writes: kept, so that one which a script lets go of still says good-bye at exit."""


class StepTimer:
    """One step under way: ``wait()`` around its blocking part, ``loss`` and the like as attributes."""

    __slots__ = ("_begin_ns", "_recorder", "_wait_ns", "count", "grad_norm", "loss", "number", "sections", "tokens")

    def __init__(self, recorder: Recorder, number: int, count: int) -> None:
        self._recorder = recorder
        self.number = number
        self.count = count
        self.loss: Any = None
        self.grad_norm: Any = None
        self.tokens: float | None = None
        self.sections: dict[str, float] | None = None
        self._wait_ns = 0
        self._begin_ns = time.monotonic_ns()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Time in which this rank only waits for others; the rest of the step is its own work (``busy_s``)."""
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            self._wait_ns += time.monotonic_ns() - begin

    def __enter__(self) -> StepTimer:
        self._begin_ns = time.monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            return  # a step that raised was not done
        dur_s = (time.monotonic_ns() - self._begin_ns) / 1e9
        self._recorder.step_done(
            self.number,
            dur_s=dur_s,
            busy_s=dur_s - self._wait_ns / 1e9 if self._wait_ns else None,
            count=self.count,
            loss=self.loss,
            grad_norm=self.grad_norm,
            tokens=self.tokens,
            sections=self.sections,
        )


class Checkpoint:
    """One save under way. Leaving the block ends its blocking part; ``persisted`` may come later, from any thread."""

    __slots__ = ("_begin_ns", "_recorder", "mode", "num_bytes", "step")

    def __init__(self, recorder: Recorder, step: int, mode: str) -> None:
        self._recorder = recorder
        self.step = step
        self.mode = mode
        self.num_bytes: int | None = None
        self._begin_ns = 0

    def persisted(self, tier: str = "storage", num_bytes: int | None = None) -> None:
        """The whole save can be restored from ``tier`` now."""
        self._recorder.emit(
            "checkpoint.persisted", step=self.step, tier=tier, bytes=num_bytes or self.num_bytes, dur=self._since()
        )

    def failed(self, error: object = None) -> None:
        """The save, or this rank's part of it, will not land."""
        self._recorder.emit("checkpoint.failed", step=self.step, error=_short(error))

    def _since(self) -> float:
        return (time.monotonic_ns() - self._begin_ns) / 1e9

    def __enter__(self) -> Checkpoint:
        self._begin_ns = time.monotonic_ns()
        self._recorder.emit("checkpoint.start", step=self.step, mode=self.mode)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.failed(f"{kind.__name__}: {error}")
            return
        self._recorder.emit("checkpoint.saved", step=self.step, mode=self.mode, bytes=self.num_bytes, dur=self._since())


class Recorder:
    """Records what this process does. Every method may be called whether it is switched on or not; none raises.

    ``run``, ``attempt``, ``node`` and ``rank`` override what the environment tells; ``resume_step`` is the step that
    was restored, 0 from scratch (None: unknown; with ``start=False`` call ``started`` later, when it is known).
    ``spool`` overrides ``TACHOGRAPH_SPOOL``.
    Safe to call from several threads. A forked child (a data loader's worker) records nothing.

    As a context manager (``with Recorder() as recorder:``) it is done where the block is left, and sees how: by an
    exception or a non-zero ``SystemExit`` it is a failure. Without, the same is told at the process's end.
    """

    def __init__(
        self,
        *,
        run: str | None = None,
        attempt: int | str | None = None,
        node: str | None = None,
        rank: int | None = None,
        resume_step: int | None = None,
        spool: str | Path | None = None,
        start: bool = True,
    ) -> None:
        self._file: RankFile | None = None
        self._last_end_ns: int | None = None
        self._gap_since_s: float | None = None
        self._num_dropped_told = 0
        self._ended = False
        self._second: tuple[int, bytes] = (-(10**18), b"")
        """When the present second began (monotonic) and the head of its lines; one tuple, since threads may race."""
        self._offset_ns = _wall_offset_ns()
        self.identity: Identity = identify(run=run, attempt=attempt, node=node, rank=rank)
        where = Path(spool) if spool is not None else spool_directory()
        if where is None or os.environ.get("TACHOGRAPH", "").strip().lower() in ("off", "0", "false", "no"):
            return
        me = self.identity
        try:
            self._file = RankFile(where, attempt_directory(where, me.run, me.attempt), me.rank)
        except OSError as error:
            log.warning("tachograph records nothing: %s", error)
            return
        who = {"run": me.run, "attempt": me.attempt, "node": me.node, "rank": me.rank}
        text = json.dumps(who, separators=(",", ":"))[1:-1]
        self._who = text.encode()
        self._step_head = b'{"kind":"step",%s,"t":' % self._who
        _alive.append(self)
        ending.watch(_at_end_of_child)
        if start:
            self.started(resume_step)

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded."""
        return self._file is not None

    @property
    def last_end_ns(self) -> int | None:
        """When the last step, save or phase ended, by the monotonic clock: where the next step begins. None before."""
        return self._last_end_ns

    # -- what a run says ---------------------------------------------------------------------------------------------

    def started(self, resume_step: int | None = None) -> None:
        """The processes of this attempt are up, and go on after ``resume_step``."""
        self.emit("attempt.start", resume_step=resume_step, world_size=self.identity.world_size)

    def step(self, number: int, *, count: int = 1) -> StepTimer:
        """Times one step (or ``count`` of them, the last being ``number``) as a context manager."""
        return StepTimer(self, number, count)

    def step_done(
        self,
        number: int,
        *,
        dur_s: float | None = None,
        busy_s: float | None = None,
        count: int = 1,
        loss: Any = None,
        grad_norm: Any = None,
        tokens: float | None = None,
        stage: int | None = None,
        sections: dict[str, float] | None = None,
    ) -> None:
        """Step ``number`` (1-based) is done. Without ``dur_s``: the time since the last step or save ended.

        A ``dur_s`` that can be no duration (negative, NaN) is left out: it is not known.
        """
        file = self._file
        if file is None:
            return
        try:
            now_ns = monotonic_ns()
            last_ns, self._last_end_ns = self._last_end_ns, now_ns
            if dur_s is not None:
                dur_us = int(dur_s * 1e6 + 0.5) if 0.0 <= dur_s < LONGEST_S else -1
            else:
                dur_us = -1 if last_ns is None else (now_ns - last_ns + 500) // 1000
            # This is all that a step costs the training loop: one formatting of bytes, after a head that is made once a
            # second, since most of the cost is digits; those of whole numbers cost least.
            second_ns, head = self._second
            micros = (now_ns - second_ns) // 1000
            if not 0 <= micros < 1_000_000:
                second_ns, head = self._next_second(now_ns)
                micros = (now_ns - second_ns) // 1000
            rest = b"}\n"
            if busy_s is not None or grad_norm is not None or tokens is not None or sections or stage is not None:
                rest = _rest(busy_s, grad_norm, tokens, stage, sections)
            if count != 1:
                rest = b',"count":%d%s' % (count, rest)
            if loss is not None and (type(loss) is not float or dur_us < 0 or not -MOST < loss < MOST):
                rest = b',"loss":%s%s' % (_number(loss).encode(), rest)
                loss = None
            if dur_us < 0:
                line = b'%s%06d,"step":%d%s' % (head, micros, number, rest)
            else:
                seconds, dur_us = dur_us // 1_000_000, dur_us % 1_000_000
                if loss is None:
                    line = b'%s%06d,"step":%d,"dur":%d.%06d%s' % (head, micros, number, seconds, dur_us, rest)
                else:
                    told = (head, micros, number, seconds, dur_us, loss, rest)
                    line = b'%s%06d,"step":%d,"dur":%d.%06d,"loss":%.9g%s' % told
            if not file.append(line) or self._gap_since_s is not None:
                self._mind_the_gap()
        except Exception:  # noqa: BLE001 - whatever a loop hands over must not end its training
            self._refuse("step")

    def _next_second(self, now_ns: int) -> tuple[int, bytes]:
        """When the present second began, on the monotonic clock, and the head of its step lines."""
        seconds, since_ns = divmod(now_ns + self._offset_ns, 1_000_000_000)
        self._mend()
        self._second = (now_ns - since_ns, b"%s%d." % (self._step_head, seconds))
        return self._second

    def checkpoint(self, step: int, *, mode: Literal["sync", "async"] = "sync") -> Checkpoint:
        """Times the blocking part of a save as a context manager."""
        return Checkpoint(self, step, mode)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A named stretch: ``eval`` and ``data_wait`` in training; ``reload``, ``warmup``, ``compile`` before it."""
        begin = time.monotonic_ns()
        self.emit("phase.start", name=name)
        try:
            yield
        finally:
            self.emit("phase", name=name, dur=(time.monotonic_ns() - begin) / 1e9)

    def failure(self, category: str = "unknown", detail: object = None) -> None:
        """Something broke that stops this attempt."""
        self.emit("failure", category=category, detail=_short(detail))

    def rollback(self, to_step: int, reason: str | None = None) -> None:
        """From here the run goes on from ``to_step``, in this attempt."""
        self.emit("rollback", to_step=to_step, reason=reason)

    def run_end(self, status: Literal["completed", "failed", "cancelled"] = "completed") -> None:
        """The run is over."""
        self.emit("run.end", status=status)
        self._ended = True

    # -- how it is written -------------------------------------------------------------------------------------------

    def emit(self, kind: str, **fields: Any) -> None:
        """Write an event of any kind; None fields are left out."""
        file = self._file
        if file is None:
            return
        try:
            self._mend()
            now_ns = time.monotonic_ns()
            if kind in ENDS_A_STRETCH or (kind == "phase" and fields.get("name") != "data_wait"):
                self._last_end_ns = now_ns
            plain = {name: value for name, value in fields.items() if value is not None}
            rest = json.dumps(plain, separators=(",", ":"), default=str)[1:-1].encode()
            head = b'{"kind":%s,%s,"t":%.6f' % (json.dumps(kind).encode(), self._who, (now_ns + self._offset_ns) / 1e9)
            if not file.append(head + (b"," + rest if rest else b"") + b"}\n") or self._gap_since_s is not None:
                self._mind_the_gap()
        except Exception:  # noqa: BLE001 - see step_done
            self._refuse(kind)

    def _mend(self) -> None:
        """Once a second, and before anything that is no step: is the file still there?"""
        if self._file is not None and self._file.mend():
            log.warning("tachograph: the spool file of rank %d was deleted; goes on in a new one", self.identity.rank)

    def _refuse(self, kind: str) -> None:
        """An event that can't be written as a line is counted like one that the disk refused."""
        if self._file is not None:
            self._file.num_dropped += 1
            log.debug("tachograph: an event of kind %s could not be written\n%s", kind, traceback.format_exc())
            self._mind_the_gap()

    def _mind_the_gap(self) -> None:
        """Say what was dropped, as soon as a line can be written again."""
        file = self._file
        if file is None:
            return
        now_s = (time.monotonic_ns() + self._offset_ns) / 1e9
        if self._gap_since_s is None:
            self._gap_since_s = now_s
        dropped = file.num_dropped - self._num_dropped_told
        if not dropped:
            self._gap_since_s = None
            return
        line = b'{"kind":"gap",%s,"t":%.6f,"dropped":%d,"since":%.6f}\n' % (
            self._who,
            now_s,
            dropped,
            self._gap_since_s,
        )
        before = file.num_dropped
        if file.append(line):
            self._num_dropped_told += dropped
            self._gap_since_s = None
        else:
            file.num_dropped = before  # the gap event itself is no loss

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close(ending.of_error(error))

    def close(self) -> None:
        """Say good-bye and let the file go: this rank is done. At exit it is called if the script has not done so."""
        self._close(ending.CLEAN)

    def _close(self, how: ending.Ending) -> None:
        if self._file is None:
            return
        if self._ended:
            pass  # the run is over, and how it ended is said; what fails while all is cleared away is no failure of it
        elif how.failure is not None:
            self.emit("failure", **{**how.failure, "detail": _short(how.failure["detail"])})
        elif self.identity.rank == 0:
            self.emit("attempt.end", planned=True, reason=how.reason)
        self.emit(GOODBYE, reason=how.reason)
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _forked(self) -> None:
        """In a forked child: record nothing, and leave the parent's file alone."""
        file, self._file = self._file, None
        if file is not None:
            file.forget()


def _number(value: Any) -> str:
    """A number as the log has it: tensors as floats, NaN and Infinity by name, as its readers take them."""
    # item() where there is one: float() of a tensor that has a gradient warns, and a warning may be an error there.
    number = value if type(value) is float else float(value.item() if hasattr(value, "item") else value)
    if math.isfinite(number):
        return repr(number)
    return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")


def _rest(
    busy_s: float | None,
    grad_norm: Any,
    tokens: float | None,
    stage: int | None,
    sections: dict[str, float] | None,
) -> bytes:
    """The less common fields of a step, and the end of its line."""
    line = ""
    if busy_s is not None:
        line = f',"busy_s":{busy_s:.6f}'
    if grad_norm is not None:
        line += f',"grad_norm":{_number(grad_norm)}'
    if tokens is not None:
        line += f',"tokens":{_number(tokens)}'
    if stage is not None:
        line += f',"stage":{stage:d}'
    if sections:
        line += f',"sections":{json.dumps(sections, separators=(",", ":"))}'
    return (line + "}\n").encode()


def _wall_offset_ns() -> int:
    """The wall clock less the monotonic one, by the quickest of a few readings: a slow one was held up."""
    readings = []
    for _ in range(OFFSET_READINGS):
        before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]


def _short(value: object) -> str | None:
    return None if value is None else str(value)[:MAX_DETAIL]


@atexit.register
def _at_exit() -> None:
    for recorder in _alive:
        recorder._close(ending.at_exit(recorder.last_end_ns))  # noqa: SLF001 - module-internal


def _at_end_of_child() -> None:
    """A process of ``multiprocessing`` ends here, by the exception that is being handled if there is one."""
    for recorder in _alive:
        recorder._close(ending.of_error(sys.exc_info()[1]))  # noqa: SLF001 - module-internal


def _after_fork_in_child() -> None:
    ending.forget()
    for recorder in _alive:
        recorder._forked()  # noqa: SLF001 - module-internal
    _alive.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
