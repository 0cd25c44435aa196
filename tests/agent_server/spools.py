"""What unit tests of the agent share: a spool written without a recorder, a shipper that answers as it is told."""

from __future__ import annotations

import json
import random
from collections import deque
from pathlib import Path
from typing import Any

from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.loop import Loop
from tachograph_agent.sidecar.sender import SendAtOnce
from tachograph_agent.sidecar.ship import Answer, Fate
from tachograph_agent.spool.layout import attempt_directory
from tachograph_agent.spool.rankfile import RankFile

T0 = 1_760_000_000.0


def event(kind: str, number: int = 0, *, rank: int = 0, run: str = "lab/run", **fields: Any) -> bytes:
    """One line of a rank's file."""
    told = {"kind": kind, "run": run, "attempt": "1", "node": "n1", "rank": rank, "t": T0 + number, **fields}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def step(number: int, *, rank: int = 0, run: str = "lab/run") -> bytes:
    """A step sample."""
    return event("step", number, rank=rank, run=run, step=number, dur=1.0)


def directory(spool: Path, run: str = "lab/run") -> Path:
    """Where the rank files of the attempt lie."""
    return attempt_directory(spool, run, "1")


def dead_file(spool: Path, *lines: bytes, rank: int = 0, run: str = "lab/run", number: int = 1) -> Path:
    """A segment that nobody writes: no lock on it."""
    where = directory(spool, run)
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"rank-{rank:05d}.{number:06d}.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def rank_file(spool: Path, rank: int = 0) -> RankFile:
    """A segment with the lock that a recorder takes. (A process doesn't see its own locks.)"""
    return RankFile(spool, directory(spool), rank)


class Collector:
    """Stores what it is sent, or answers as it was told to, once each."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.stored: list[Batch] = []
        self.seen: list[Batch] = []

    def prepare(self, batch: Batch) -> None:
        """Nothing to do before."""

    def send(self, batch: Batch) -> Answer:
        """Take one batch."""
        self.seen.append(batch)
        stored = Answer(Fate.STORED, num_accepted=batch.num_lines)
        answer = self.answers.popleft() if self.answers else stored
        if answer.fate is Fate.TOO_LARGE and batch.num_lines == 1:
            answer = stored  # no collector finds a single line too large
        if answer.fate is Fate.STORED:
            self.stored.append(batch)
        return answer

    @property
    def events(self) -> list[dict[str, Any]]:
        """What is stored, decoded."""
        return [json.loads(line) for batch in self.stored for line in batch.lines.splitlines()]

    def kinds(self) -> list[str]:
        """The kinds of what is stored."""
        return [told["kind"] for told in self.events]

    def steps(self) -> list[int]:
        """The numbers of the steps stored."""
        return [told["step"] for told in self.events if told["kind"] == "step"]


def loop_of(spool: Path, state: Path, collector: Collector, **options: Any) -> Loop:
    """A loop whose sends are answered at once and whose clock stands shortly after the events'."""
    options.setdefault("unix_clock", lambda: T0 + 1000.0)
    return Loop(spool, state, SendAtOnce(collector), "n1", chance=random.Random(1), **options)


def run_dry(loop: Loop, now_s: float = 0.0, limit: int = 200) -> float:
    """Let the loop drain, on a clock that jumps; the time at which it was done."""
    for _ in range(limit):
        loop.tick(now_s, drain=True)
        now_s += 61.0  # beyond any wait
        if loop.is_empty and not loop.is_waiting:
            loop.tick(now_s, drain=True)
            return now_s
    raise AssertionError("the loop does not come to an end")
