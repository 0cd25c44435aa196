"""DeepSpeed's console: ``[DATE TIME,ms] [INFO] ... [Rank 0] step=20, skipped=1, lr=[...], mom=[...]``.

``step`` goes on across restarts and counts skipped steps (fp16 overflows) as well; ``skipped`` is cumulative. The
timer lines' ``global_step`` is counted since the process began, so it is not used. Every rank and parameter group
prints an overflow: the engine's own ``skipped`` counts them. The engine prints no loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, CheckpointSaved, CheckpointStart, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, Pace, StepOrder, framed, just_before, save_told
from tachograph_agent.trainers.text import Clock, clean, integer

_STEP: Final = re.compile(r"(?:\[Rank (\d+)\] )?\bstep=(\d+), skipped=(\d+)(?=,|\s|$)")
_SHAPED: Final = re.compile(r"\[Rank \d+\] step=")
_SAVE: Final = re.compile(r"\[Torch\] (Saving|Saved) (\S+?)(?:\.\.\.|\.)?$")
_READY: Final = re.compile(r"\bCheckpoint (?:global_step)?(\d+) is ready now")
_TAG: Final = re.compile(r"(?:global_step|step|iter_?)_?(\d+)")
_OVERFLOW: Final = re.compile(r"OVERFLOW!.*Skipping step|Overflow detected\. Skipping step")
_EXIT: Final = re.compile(r"\bProcess \d+ exits successfully")
_DIED: Final = re.compile(r"\bexits with return code = -?[1-9]|Killing subprocess")


class DeepSpeed:
    """DeepSpeed's console."""

    name: ClassVar[str] = "deepspeed"
    title: ClassVar[str] = "DeepSpeed console ([Rank 0] step=N, skipped=K, lr=...)"

    def sniff(self, head: str) -> float:
        """Sure of a step line, fairly sure of a timer line; Megatron's lines in the same log go before it."""
        if "elapsed time per iteration" in head:
            return 0.0
        if _STEP.search(head):
            return 0.95
        return 0.5 if "RunningAvgSamplesPerSec=" in head else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves and starts, at the times of their lines."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = Clock(context)
        self.attempts = Attempts(context, self.clock)
        self.order = StepOrder()
        self.pace = Pace()
        self.t: float | None = None
        self.before_t: float | None = None
        self.num_lines_timed = 0
        self.skipped: int | None = None
        self.saves: dict[int, CheckpointStart] = {}
        self.written_at: dict[int, float] = {}
        self.saved: set[int] = set()
        self.stepped_at: float | None = None
        self.ended_at: float | None = None
        self.died = False

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            own = self.clock.find(line)
            if own is not None:
                self.before_t, self.t = self.t, own
                self.num_lines_timed += 1
            if found := _STEP.search(line):
                if own is None:
                    self.context.skip(line_number, "a step line without a time")
                else:
                    yield from self._step(found, own)
            elif own is not None and self.num_lines_timed == 1 and not self.attempts.begun:
                self.pace.restart(None, not_before=own)
                yield from self.attempts.begin(own)
            elif _OVERFLOW.search(line):
                continue
            elif found := _SAVE.search(line):
                self._save(found, self.t)
            elif found := _READY.search(line):
                yield from self._saved(integer(found[1]), self.t)
            elif _EXIT.search(line):
                self.ended_at = own
            elif _DIED.search(line):
                self.died = True
                yield from self.attempts.feed(line, self.t)
            elif _SHAPED.search(line):
                self.context.skip(line_number, "a step line that is cut off or garbled")
            else:
                yield from self.attempts.feed(line, self.t)
        yield from self._end_of_attempt()
        yield from self.pace.flush()
        yield from self.attempts.close()
        if self.ended_at is not None and not self.died:
            yield RunEnd(t=self.ended_at)
        self._say_skipped()

    def _step(self, found: re.Match[str], t: float) -> Iterator[AnyEvent]:
        step, skipped = integer(found[2]), integer(found[3])
        if step is None or skipped is None:
            return
        rank = integer(found[1]) if found[1] else None
        verdict = self.order.judge(step, found[0].partition("step=")[2])
        if verdict == "repeat" and self.stepped_at is not None and t - self.stepped_at < 1.0:
            return  # the same line of another rank
        yield from self._written_saves()
        if verdict != "next":
            yield from self._end_of_attempt()
            began = just_before(t, self.before_t)
            yield from self.pace.restart(None, not_before=began)
            self.order.restart()
            self.order.judge(step, found[0].partition("step=")[2])
            yield from self.attempts.begin(began)
            self.saved.clear()
        self.ended_at, self.died = None, False
        self.skipped, self.stepped_at = skipped, t
        yield from self.attempts.stepped()
        event = Step(t=t, attempt=self.attempts.number, rank=rank, step=step, unknown_fields={"skipped": skipped})
        yield from self.pace.add(event)

    def _save(self, found: re.Match[str], t: float | None) -> None:
        """A file of a save; several make one. The step stands in the save's tag, which is in the path."""
        tags = _TAG.findall(found[2])
        step = integer(tags[-1]) if tags else None
        if t is None or step is None:
            self.context.note("Saves whose path names no step can't be placed and are not shown.")
        elif found[1] == "Saved":
            self.written_at[step] = t
        elif step not in self.saves and step not in self.saved:
            self.saves[step] = CheckpointStart(t=t, attempt=self.attempts.number, step=step)

    def _saved(self, step: int | None, t: float | None) -> Iterator[AnyEvent]:
        """A save is complete: it was said so, or training went on after its last file."""
        if step is None or t is None or step in self.saved:
            return
        self.saved.add(step)
        start = self.saves.pop(step, None)
        if start is None:
            yield CheckpointSaved(t=t, attempt=self.attempts.number, step=step)
            return
        self.pace.pause(max(0.0, t - start.t))
        yield from save_told(start, t)

    def _written_saves(self) -> Iterator[AnyEvent]:
        for step in [step for step in self.saves if step in self.written_at]:
            yield from self._saved(step, self.written_at.pop(step))

    def _end_of_attempt(self) -> Iterator[AnyEvent]:
        """What the attempt had begun to save and not said to be ready."""
        yield from self._written_saves()
        yield from self.saves.values()
        self.saves.clear()

    def _say_skipped(self) -> None:
        last = self.order.last
        if last is not None and self.skipped:
            self.context.note(
                f"{self.skipped} of {last} steps were skipped (fp16 overflow): {last - self.skipped} were useful."
            )
