"""A recorded run of several attempts, made up from a seed: what chaos is let loose on.

Two nodes with two ranks each; failures, a planned stop, a rollback, synchronous and asynchronous saves, one of which
never lands. Every event names its attempt, node and rank, as a recorder's does.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

RUN = "lab/chaos run"
NODES = ("n0", "n1")
RANKS_PER_NODE = 2
WORLD = len(NODES) * RANKS_PER_NODE
CATEGORIES = ("gpu", "network", "host", "software")


@dataclass(frozen=True, slots=True)
class Line:
    """One event of one rank's file."""

    attempt: str
    rank: int
    event: dict[str, Any]

    @property
    def node(self) -> str:
        """Where the rank runs."""
        return NODES[self.rank // RANKS_PER_NODE]

    @property
    def text(self) -> bytes:
        """As it stands in the file."""
        return json.dumps(self.event, separators=(",", ":")).encode() + b"\n"


@dataclass
class Recording:
    """The run's lines in the order in which they were written."""

    seed: int
    start: float
    """Unix seconds, whole."""
    num_attempts: int = 6
    steps_per_attempt: int = 120
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._now = round(self.start * 1000)
        self.lines = list(self._told())

    def by_node(self) -> dict[str, list[Line]]:
        """Each node's lines, in order."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.lines:
            found[line.node].append(line)
        return found

    def _line(self, attempt: str, rank: int, kind: str, late_ms: int = 0, **fields: Any) -> Line:
        node = NODES[rank // RANKS_PER_NODE]
        t = (self._now + late_ms) / 1000
        told = {"kind": kind, "t": t, "run": RUN, "attempt": attempt, "node": node, "rank": rank}
        return Line(attempt, rank, told | fields)

    def _everywhere(self, attempt: str, kind: str, **fields: Any) -> Iterator[Line]:
        """The same of every rank, a millisecond or so apart."""
        for rank in range(WORLD):
            yield self._line(attempt, rank, kind, late_ms=rank, **fields)

    def _told(self) -> Iterator[Line]:
        chance, landed, last = self._chance, 0, 0
        for number in range(self.num_attempts):
            attempt = f"a{number}"
            if number == 0:
                facts = {"world_size": WORLD, "gpus": WORLD, "price_per_gpu_hour": 2.5, "origin": "replay"}
                yield self._line(attempt, 0, "run.start", **facts)
            yield from self._everywhere(attempt, "attempt.start", resume_step=landed, world_size=WORLD)
            self._now += chance.randrange(3_000, 20_000)
            last = landed
            rollback_at = chance.randrange(self.steps_per_attempt) if number % 2 else -1
            for done in range(self.steps_per_attempt):
                dur = chance.randrange(800, 1_200)
                self._now += dur
                last += 1
                loss = round(4 - last / 500, 3)
                yield from self._everywhere(attempt, "step", step=last, dur=dur / 1000, loss=loss, busy_s=0.7)
                if last % 25 == 0:
                    landed, lines = self._save(attempt, last, landed)
                    yield from lines
                if done == rollback_at:
                    yield self._line(attempt, 0, "rollback", late_ms=WORLD, to_step=landed, reason="loss_spike")
                    last = landed
            if number == self.num_attempts - 1:
                self._now += 500
                yield self._line(attempt, 0, "run.end", status="completed", late_ms=WORLD)
            elif number % 3 == 2:
                yield from self._everywhere(attempt, "attempt.end", reason="maintenance")
            else:
                self._now += chance.randrange(500, 9_000)
                category = chance.choice(CATEGORIES)
                yield self._line(attempt, 0, "failure", category=category, detail="made up")
            yield from self._everywhere(attempt, "recorder.end", reason="exit")
            self._now += chance.randrange(20_000, 90_000)

    def _save(self, attempt: str, step: int, landed: int) -> tuple[int, list[Line]]:
        """One save: blocking, then landing later, or never. Gives the step that is restorable now."""
        mode = self._chance.choice(("sync", "async"))
        lines = list(self._everywhere(attempt, "checkpoint.start", step=step, mode=mode))
        dur = self._chance.randrange(500, 6_000)
        self._now += dur
        lines += self._everywhere(attempt, "checkpoint.saved", step=step, mode=mode, dur=dur / 1000)
        if mode == "sync":
            return step, lines
        if self._chance.random() < 0.2:
            lines.append(self._line(attempt, 0, "checkpoint.failed", step=step, error="made up"))
            return landed, lines
        lines.append(self._line(attempt, 0, "checkpoint.persisted", step=step, dur=dur / 1000))
        return step, lines
