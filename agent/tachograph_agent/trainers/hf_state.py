"""Hugging Face's ``trainer_state.json``: the history of a training in ``log_history``, with steps, without times.

Each checkpoint's file repeats the whole history: records are the same if step and keys are. Several evaluation sets at
one step are different records. NaN may stand in it bare. Of a file that is cut off, the whole records are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from tachograph_agent.events import LARGEST_STEP, AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.hf_timeline import Logged, is_training, told
from tachograph_agent.trainers.story import DurationClock, framed

_RECORD: Final = re.compile(r"\{[^{}]*\"step\": *\d[^{}]*\}")
_GLOBAL_STEP: Final = re.compile(r'"global_step": *(\d{1,18})')
_MAX_STEPS: Final = re.compile(r'"max_steps": *(\d{1,18})')


class HFTrainerState:
    """Hugging Face's trainer_state.json."""

    name: ClassVar[str] = "hf-state"
    title: ClassVar[str] = "Hugging Face trainer_state.json (log_history; no times)"

    def sniff(self, head: str) -> float:
        """Sure of ``log_history`` beside one of the other keys at the top."""
        if not head.lstrip().startswith("{") or '"log_history"' not in head:
            return 0.0
        return 0.98 if '"global_step"' in head or '"epoch"' in head else 0.5

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and evaluations on a timeline of the durations that are known."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    text = "\n".join(lines)
    records: list[dict[str, Any]] = []
    finished = False
    for state in _states(text, context):
        history = state.get("log_history")
        records += [record for record in history if isinstance(record, dict)] if isinstance(history, list) else []
        global_step, max_steps = _step(state.get("global_step")), _step(state.get("max_steps"))
        finished = global_step is not None and max_steps is not None and 0 < max_steps <= global_step
    yield from told(_logged(records), DurationClock(context), context, attempt=0, finished=finished)


def _states(text: str, context: Context) -> Iterator[dict[str, Any]]:
    """The JSON documents in the text, one after another; of what is broken, the records that can be read."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            state, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            rest = text[at:]
            context.skip(text.count("\n") + 1, "the JSON is cut off or broken; its whole records were read")
            found = {"log_history": list(_whole_records(rest))}
            for name, pattern in (("global_step", _GLOBAL_STEP), ("max_steps", _MAX_STEPS)):
                if told_step := pattern.search(rest):
                    found[name] = int(told_step[1])  # type: ignore[assignment] # one of several kinds of values
            yield found
            return
        if isinstance(state, dict):
            yield state


def _whole_records(text: str) -> Iterator[dict[str, Any]]:
    for found in _RECORD.finditer(text):
        try:
            record = json.loads(found[0])
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _logged(records: Iterable[dict[str, Any]]) -> Iterator[Logged]:
    """The records without repetitions, each training record with the steps since the one before it."""
    seen: set[tuple[int, frozenset[str]]] = set()
    last = 0
    for record in records:
        step = _step(record.get("step"))
        if step is None:
            continue
        key = (step, frozenset(record))
        if key in seen:
            continue
        seen.add(key)
        count = 1
        if is_training(record):
            count = max(1, step - last)
            last = step
        yield Logged(step=step, count=count, values=record)


def _step(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP else None
