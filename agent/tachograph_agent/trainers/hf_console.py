"""Hugging Face trainers' console: ``{'loss': 2.31, 'grad_norm': 0.9, 'learning_rate': 1e-05, 'epoch': 0.12}``.

A Python dictionary a log step, with bare ``nan``, numbers in quotes in newer versions, between the pieces of a progress
bar. Neither step number nor time is in it: the records are counted instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, AttemptStart
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.hf_timeline import Logged, Values, is_dead, is_training, told, train_seconds
from tachograph_agent.trainers.story import Attempts, DurationClock, framed
from tachograph_agent.trainers.text import clean, number

_DICT: Final = re.compile(r"\{'(?:loss|eval_\w+|train_\w+|grad_norm)': [^{}]*\}")
_SHAPED: Final = re.compile(r"\{'(?:loss|eval_\w*loss|train_runtime)': ")
_PAIR: Final = re.compile(r"'([\w./-]+)': *(?:'([^']*)'|([^,}]+))")
_OURS: Final = re.compile(r"'(?:learning_rate|epoch|grad_norm|train_runtime|eval_\w*runtime)': ")


class HFConsole:
    """Hugging Face trainers' console."""

    name: ClassVar[str] = "hf-console"
    title: ClassVar[str] = "Hugging Face Trainer console ({'loss': ..., 'epoch': ...}; no step numbers, no times)"

    def sniff(self, head: str) -> float:
        """Sure of a whole record."""
        return 0.9 if any(_OURS.search(found[0]) for found in _DICT.finditer(head)) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps numbered by their records, evaluations, and the end where the summary is there."""
        return framed(_Reading(context).events(lines), context)


def parse(text: str) -> Values:
    """The numbers of one record; what is none is left out."""
    return {
        name: value
        for name, quoted, bare in _PAIR.findall(text)
        if (value := number((quoted or bare).strip())) is not None
    }


class _Reading:
    """Where the reading of one log stands: the records of the attempt that it is in are held until it is over."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.log: list[Logged] = []
        self.num_steps = 0
        self.summed_up = False

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, raw in enumerate(lines, start=1):
            line = clean(raw)
            records = [found[0] for found in _DICT.finditer(line) if _OURS.search(found[0])]
            for record in records:
                yield from self._record(parse(record))
            if not records and _SHAPED.search(line):
                self.context.skip(line_number, "a record that is cut off or garbled")
            elif not records:
                yield from self._other(line)
        yield from self._told()
        yield from self._placed(self.attempts.close())

    def _record(self, values: Values) -> Iterator[AnyEvent]:
        training = is_training(values)
        if training and self.summed_up:  # a further training in the same log
            yield from self._told()
            self.attempts.begin(self.clock.now)
            self.num_steps = 0
        self.summed_up = self.summed_up or train_seconds(values) is not None
        self.num_steps += training
        self.log.append(Logged(step=self.num_steps, count=1, values=values))
        if not training:
            return
        yield from self._placed(self.attempts.stepped())
        self.context.note(
            "Steps are counted log lines: the console names no step. Multiply by logging_steps, or read "
            "trainer_state.json instead."
        )
        if is_dead(values):
            self.context.note(
                "Losses of exactly 0 beside a gradient norm that is not finite: a dead run, not a good one."
            )

    def _other(self, line: str) -> Iterator[AnyEvent]:
        attempt = self.attempts.number
        events = self.attempts.feed(line, self.clock.now)
        if self.attempts.number != attempt:
            yield from self._told(attempt)
        yield from self._placed(events)

    def _told(self, attempt: int | None = None) -> Iterator[AnyEvent]:
        """What the attempt's records tell, now that there will be no more."""
        attempt = self.attempts.number if attempt is None else attempt
        log, self.log = self.log, []
        yield from told(log, self.clock, self.context, attempt=attempt, finished=False)
        self.summed_up = False

    def _placed(self, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
        """Failures at the time that is known by now; starts are told with the records."""
        for event in events:
            if not isinstance(event, AttemptStart):
                event.t = max(event.t, self.clock.now)
                yield event
