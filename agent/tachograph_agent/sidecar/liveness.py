"""Says which ranks died: a spool file whose lock is free and whose last line is no good-bye.

The lock goes with its process, whatever ends it and in whatever PID namespace it lives. A death is told as a
``failure`` (inferred) in the dead rank's name, once: its time is put down in the positions before it is written, so
that an agent that dies in between writes the same event again, which is known as the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tachograph_agent.recorder import GOODBYE
from tachograph_agent.sidecar.batch import STEP_MARK
from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.spool.follow import Followed, Follower
from tachograph_agent.spool.layout import segment_path
from tachograph_agent.spool.positions import DIED, ENDED
from tachograph_agent.spool.rankfile import SEGMENT_BYTES

TAIL_BYTES = 32 * 1024
LAST_WORDS = (GOODBYE, "run.end", "attempt.end")
"""Whoever said one of these last was done, or was told to stop: that its process then ended is no failure."""


@dataclass(slots=True)
class LiveRun:
    """A run that has ranks on this node."""

    run: str
    attempt: int | str | None
    alive: list[int] = field(default_factory=list)
    step: int | None = None


class Liveness:
    """Watches the writers of the segments that a follower follows. Not thread-safe."""

    def __init__(self, follower: Follower, own: OwnEvents, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._follower = follower
        self._own = own
        self._segment_bytes = segment_bytes
        self._seen_alive: set[str] = set()
        self._untold: list[dict[str, Any]] = []
        """Deaths whose files made room on a full disk and that could not be written even then."""
        self._steps: dict[tuple[str, int | str | None], int] = {}

    def look(self, now_unix_s: float) -> bool:
        """Judge every segment whose writer is gone. True if a mark changed and must be written down now."""
        changed = False
        for followed in self._follower.followed.values():
            if followed.mark.writer:
                continue
            if self._follower.is_written(followed):
                self._seen_alive.add(followed.name)
                continue
            changed |= self._judge(followed, now_unix_s)
        self._seen_alive &= self._follower.followed.keys()
        return changed

    def tell(self) -> int:
        """Write the deaths that are put down and not told yet; gives their number. Call it after they are saved."""
        told = 0
        while self._untold and self._own.write("failure", **self._untold[0]):
            del self._untold[0]
            told += 1
        for followed in list(self._follower.followed.values()):
            mark = followed.mark
            if mark.writer != DIED or mark.told:
                continue
            who = self._follower.ask_who(followed)
            if who is None:
                mark.told = True  # it never said whose it was
                continue
            fields = {**self._death(followed, who.rank), **who.fields()}
            mark.told = self._own.write("failure", **fields) or self._make_room(followed, fields)
            told += mark.told
        return told

    def _death(self, followed: Followed, rank: int | None) -> dict[str, Any]:
        detail = (
            f"the process of rank {followed.segment.rank if rank is None else rank} ended without a good-bye: "
            "killed, or lost with its container"
        )
        if not self._tail(followed, followed.size).endswith(b"\n"):
            detail += ", or not heard: its last line is cut off, as where a disk is full"
        return {"t": followed.mark.died_unix_s, "category": "unknown", "inferred": True, "detail": detail}

    def _make_room(self, followed: Followed, fields: dict[str, Any]) -> bool:
        """On a full disk, delete a file that the collector has whole, so that its writer's death can be told.

        Kept back for that death it would keep the disk full for good. Until it is written the death is in memory only.
        """
        if not self._own.is_full or self._follower.final_size(followed) != followed.mark.offset or followed.is_stuck:
            return False
        self._follower.remove(followed)
        if followed.name in self._follower.followed:
            return False  # it can't be deleted
        if self._own.write("failure", **fields):
            return True
        self._untold.append(fields)
        return False

    def _judge(self, followed: Followed, now_unix_s: float) -> bool:
        size = self._follower.final_size(followed)
        if size is None:
            return False
        mark = followed.mark
        last = self._last_line(followed, size)
        if followed.is_agents or not size or last.get("kind") in LAST_WORDS or self._went_on(followed, size):
            mark.writer = ENDED
            return True
        mark.writer = DIED
        if followed.name in self._seen_alive:
            mark.died_unix_s = now_unix_s
        else:
            # It died while no agent looked, after its last write.
            mark.died_unix_s = min(now_unix_s, os.fstat(followed.descriptor).st_mtime)
        spoken = last.get("t")
        if isinstance(spoken, int | float) and mark.died_unix_s < spoken < now_unix_s + 86_400:
            mark.died_unix_s = spoken + 1e-6
        return True

    def _went_on(self, followed: Followed, size: int) -> bool:
        """Whether its writer went on in the next segment, which it opens before it lets go of this one."""
        segment = followed.segment
        following = segment_path(segment.path.parent, segment.rank, segment.number + 1)
        return size >= self._segment_bytes and following.exists()

    def _last_line(self, followed: Followed, size: int) -> dict[str, object]:
        """The last line, decoded; empty if it is torn or no object."""
        tail = self._tail(followed, size)
        if not tail.endswith(b"\n"):
            return {}
        return _object(tail[tail.rfind(b"\n", 0, -1) + 1 :])

    def _tail(self, followed: Followed, size: int) -> bytes:
        start = max(size - TAIL_BYTES, 0)
        return os.pread(followed.descriptor, size - start, start)

    # -- what is alive ---------------------------------------------------------------------------------------------

    def note_steps(self, followed: Followed, lines: bytes) -> None:
        """Keep the last step in lines that were read."""
        at = lines.rfind(STEP_MARK)
        if at < 0 or followed.who is None:
            return
        end = lines.find(b"\n", at)
        step = _object(lines[lines.rfind(b"\n", 0, at) + 1 : end if end >= 0 else None]).get("step")
        if isinstance(step, int) and step >= 0:
            self._steps[followed.who.run, followed.who.attempt] = step

    def live_runs(self) -> Mapping[tuple[str, int | str | None], LiveRun]:
        """The runs and attempts whose ranks write here now."""
        runs: dict[tuple[str, int | str | None], LiveRun] = {}
        for followed in self._follower.followed.values():
            who = followed.who
            if who is None or followed.is_agents or followed.mark.writer or not self._follower.is_written(followed):
                continue
            key = (who.run, who.attempt)
            live = runs.setdefault(key, LiveRun(who.run, who.attempt, step=self._steps.get(key)))
            live.alive.append(followed.segment.rank if who.rank is None else who.rank)
        self._steps = {key: step for key, step in self._steps.items() if key in runs}
        return runs


def _object(line: bytes) -> dict[str, object]:
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}
