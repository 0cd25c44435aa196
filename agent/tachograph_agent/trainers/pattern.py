"""The adapter for what nobody has written an adapter for: a pattern file says what the lines of a log mean.

A line is one of the kinds of the pattern file (step, save, restart, failure, evaluation, end), or else it is looked at
for the failures that every trainer's log may hold. Times come from the lines, or the timeline is made of durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal, cast

from tachograph_agent.events import (
    CATEGORIES,
    AnyEvent,
    CheckpointFailed,
    CheckpointSaved,
    CheckpointStart,
    Phase,
    RunEnd,
    Step,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.pattern_engine import EXTRA, MAX_CHARACTERS, MAX_LINE_SECONDS, SlowMatchError
from tachograph_agent.trainers.pattern_file import Pattern
from tachograph_agent.trainers.pattern_time import Times
from tachograph_agent.trainers.signs import SHORT, Sign
from tachograph_agent.trainers.story import Attempts, DurationClock, Pace, StepOrder, framed, just_before, save_told
from tachograph_agent.trainers.text import believable, integer, number, split_prefix

_MAX_SNIFFED_LINES: Final = 2000
_Groups = Mapping[str, str | None]


class PatternLog:
    """A log whose lines a pattern file describes; without one it recognises and reads nothing."""

    name: ClassVar[str] = "pattern"
    title: ClassVar[str] = "Whatever the pattern file of --pattern FILE.toml describes"

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern

    def sniff(self, head: str) -> float:
        """Sure of a log in which a line is of a kind that the pattern file knows."""
        if self.pattern is None:
            return 0.0
        for line in head.split("\n")[:_MAX_SNIFFED_LINES]:
            line = line[:MAX_CHARACTERS]
            try:
                if any(map(self.pattern.expressions.first, {split_prefix(line)[0], line})):
                    return 0.95
            except SlowMatchError:
                continue
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, restarts, failures and evaluations at the times of their lines, or made of durations."""
        if self.pattern is None:
            return iter(())
        return framed(_Reading(self.pattern, context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, pattern: Pattern, context: Context) -> None:
        self.pattern = pattern
        self.context = context
        if pattern.zone is not None and (context.tz is None or context.tz_is_own):
            context.tz, context.tz_is_own = pattern.zone, False
        self.times = Times(context, pattern.time_format, pattern.elapsed_s)
        self.durations: DurationClock | None = None
        """Of a log that tells no times: decided at the first line of a kind of ours."""
        self.attempts = Attempts(context, self.times.clock)
        self.order = StepOrder()
        self.pace = Pace()
        self.t: float | None = None
        self.before_t: float | None = None
        self.lead: int | None = None
        self.resume_step: int | None = None
        self.save: CheckpointStart | None = None
        self.evaluates_since: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, raw in enumerate(lines, start=1):
            line, rank = split_prefix(raw)
            if not line:
                continue
            if len(line) > MAX_CHARACTERS:
                self.context.note(f"Of lines longer than {MAX_CHARACTERS} characters only the beginning was looked at.")
                line = line[:MAX_CHARACTERS]
            try:
                found = self.pattern.expressions.first(line)
                if found is None and len(line) < len(raw):  # what was taken for a tag may be what is looked for
                    found = self.pattern.expressions.first(raw[:MAX_CHARACTERS])
                    rank = rank if found is None else None
                yield from self._line(line, found, rank, line_number)
            except SlowMatchError:
                self.context.skip(
                    line_number, f"the pattern file's regexes took more than {MAX_LINE_SECONDS:g} s for it ({EXTRA})"
                )
        yield from self.pace.flush()
        yield from self.attempts.close()

    def _line(
        self, line: str, found: tuple[int, _Groups] | None, rank: int | None, line_number: int
    ) -> Iterator[AnyEvent]:
        groups: _Groups = {} if found is None else found[1]
        own = self._time(line, groups)
        if own is not None and self.durations is None:
            self.before_t, self.t = self.t, own
        if found is None:
            yield from self.attempts.feed(line, self._now())
            return
        kind = self.pattern.kinds[found[0]]
        if self.t is None and self.durations is None:
            self._without_clock()
        rank = _whole(groups, "rank") if groups.get("rank") else rank
        if kind == "failure":
            yield from self._failure(groups, rank, line)
            return
        if rank is not None and self.lead is not None and rank > self.lead:
            return  # the same of another rank
        self.lead = rank if rank is not None else self.lead
        if kind == "step":
            yield from self._step(groups, line_number)
        elif kind == "restart":
            yield from self._begin(self._now(), self._step_of(groups))
        elif kind in {"save_start", "save_end", "save_failed"}:
            yield from self._saved(kind, groups)
        elif kind == "evaluation_start":
            self.evaluates_since = self._now()
        elif kind == "evaluation":
            yield from self._evaluated(groups)
        else:
            yield from self.pace.flush()
            yield RunEnd(t=self._now())

    # -- time --------------------------------------------------------------------------------------------------------

    def _time(self, line: str, groups: _Groups) -> float | None:
        told = groups.get("time")
        if told is not None:
            return self.times.read(told)
        if self.pattern.stamp is not None:
            stamp = self.pattern.stamp.first(line)
            told = None if stamp is None else stamp[1].get("time")
            return None if told is None else self.times.read(told)
        return self.times.clock.find(line) if self.pattern.time_format is None else None

    def _without_clock(self) -> None:
        self.durations = DurationClock(self.context)
        self.attempts.watch.has_times = False
        self.t = self.durations.pass_time(None)

    def _now(self) -> float:
        return self.t or 0.0

    def _pass(self, dur_s: float | None) -> None:
        if self.durations is not None:
            self.t = self.durations.pass_time(dur_s)

    def _duration(self, groups: _Groups) -> float | None:
        told = number(groups.get("dur") or "")
        return None if told is None else believable(told * self.pattern.dur_s)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _step_of(self, groups: _Groups) -> int | None:
        """The number of steps done that a line names; a trainer that counts from 0 has done one more."""
        told = _whole(groups, "step")
        return None if told is None else told + 1 - self.pattern.first_step

    def _step(self, groups: _Groups, line_number: int) -> Iterator[AnyEvent]:
        step = self._step_of(groups)
        if step is None or step < 1:
            self.context.skip(line_number, f"a step line whose step {(groups.get('step') or '')[:40]!r} is no number")
            return
        loss, grad_norm = (number(groups.get(name) or "") for name in ("loss", "grad_norm"))
        values = (str(loss), str(grad_norm), groups.get("dur"))
        last = self.order.last
        verdict = self.order.judge(step, values)
        if verdict == "repeat":
            return
        if verdict == "back":
            began = just_before(self._now(), self.before_t) if self.durations is None else self._now()
            yield from self._begin(began, None, is_seen=False)
            last = None
            self.order.judge(step, values)
        elif self.durations is not None and not self.attempts.begun:
            yield from self.attempts.begin(self._now())
        event = Step(t=self._now(), attempt=self.attempts.number, rank=self.lead, step=step)
        event.loss, event.grad_norm = loss, grad_norm
        event.count = self._count(step, last)
        event.dur = self._duration(groups)
        if event.dur is not None and self.pattern.dur_of_step:
            event.dur = believable(event.dur * event.count)
        self._pass(event.dur)
        event.t = self._now()
        event.tokens = self._tokens(groups, event.count)
        self.resume_step = None
        yield from self.attempts.stepped()
        event.attempt = self.attempts.number
        if self.durations is None and "dur" not in groups:
            yield from self.pace.add(event)
        else:
            if event.dur is None and self.durations is not None:
                self.context.note("Lines of steps tell neither a time nor how long they took: that time is unknown.")
            yield event

    def _count(self, step: int, last: int | None) -> int:
        """How many steps a line stands for: those since the line before, or since where the attempt resumed."""
        if self.pattern.per_line is not None:
            return min(self.pattern.per_line, step)
        since = last if last is not None else self.resume_step
        if since is not None and step > since:
            return step - since
        if last is None and step > 1:
            self.context.note(
                "How many steps an attempt's first line stands for is not told: one was taken (steps.per_line says it)."
            )
        return 1

    def _tokens(self, groups: _Groups, count: int) -> float | None:
        told = number(groups.get("tokens") or "")
        if told is not None and told >= 0.0:
            return told * self.pattern.tokens
        each = self.pattern.tokens_each
        return None if each is None else each * count

    def _begin(self, t: float, resume_step: int | None, *, is_seen: bool = True) -> Iterator[AnyEvent]:
        """An attempt begins; ``is_seen``: a line of its own says so."""
        yield from self.pace.restart(t if is_seen else None, resume_step, not_before=t)
        self.order.restart()
        self.save, self.evaluates_since, self.resume_step = None, None, resume_step
        yield from self.attempts.begin(t, resume_step)

    # -- what stands between them ------------------------------------------------------------------------------------

    def _saved(self, kind: str, groups: _Groups) -> Iterator[AnyEvent]:
        step, start = self._step_of(groups), self.save
        if step is None:
            step = start.step if start is not None else self.order.last
        if step is None:
            self.context.note("A save before any step, whose line names none: its step is unknown, so it is not shown.")
            return
        mode = cast("Literal['sync', 'async']", self.pattern.save_mode)
        if kind == "save_start":
            self.save = CheckpointStart(t=self._now(), attempt=self.attempts.number, step=step, mode=mode)
            if self.durations is None:
                yield self.save
            return
        self.save = None
        if kind == "save_failed":
            yield CheckpointFailed(t=self._now(), attempt=self.attempts.number, step=step)
            return
        dur = self._duration(groups)
        if self.durations is not None:
            self._pass(dur if mode == "sync" else None)
            yield CheckpointSaved(t=self._now(), attempt=self.attempts.number, step=step, mode=mode, dur=dur)
            return
        took = dur
        if took is None and start is not None and start.step == step:
            took = believable(self._now() - start.t)
        if mode == "sync":
            self.pace.pause(took)
        if start is not None and start.step == step:
            yield from save_told(start, self._now(), took)[-1:]
        else:
            yield CheckpointSaved(t=self._now(), attempt=self.attempts.number, step=step, mode=mode, dur=took)

    def _evaluated(self, groups: _Groups) -> Iterator[AnyEvent]:
        dur, since = self._duration(groups), self.evaluates_since
        self.evaluates_since = None
        self._pass(dur)
        if dur is None and since is not None and self.durations is None:
            dur = believable(self._now() - since)
        if dur is None or dur <= 0.0:
            self.context.note("How long evaluations took is not told by all of their lines: there it is unknown.")
            return
        self.pace.pause(dur)
        yield Phase(t=self._now(), attempt=self.attempts.number, name="eval", dur=dur)

    def _failure(self, groups: _Groups, rank: int | None, line: str) -> Iterator[AnyEvent]:
        category = (groups.get("category") or "").strip().lower()
        sign = Sign(
            category=category if category in CATEGORIES else "unknown",
            detail=(groups.get("detail") or line).strip()[:SHORT],
            weight=3,
            rank=rank,
            node=groups.get("node"),
        )
        yield from self.attempts.watch.tell(sign, self._now())


def _whole(groups: _Groups, name: str) -> int | None:
    told = groups.get(name)
    return None if told is None else integer(told)
