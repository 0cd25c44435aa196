"""Saves of a made-up run: what they cost, which land and when, and which of those that landed are kept."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator, Iterator

from tachograph_agent.events import (
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
)

from tachograph_collector.synthetic.cluster import Cluster
from tachograph_collector.synthetic.faults import NEVER_US
from tachograph_collector.synthetic.telling import Moment


class Saving:
    """The saves as they stand. Rank 0 tells all of them, from ``node``, in ``attempt``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._landed: list[int] = []
        self._later: list[tuple[int, int, Moment]] = []
        """Saves under way, by when they land."""
        self._order = itertools.count()
        self.num_bad = 0
        """So many of the next ones don't land."""
        self.slow = 1.0
        """The next one blocks so many times as long."""

    @property
    def newest(self) -> int:
        """The step of the newest save that landed; 0 if none has."""
        return self._landed[-1] if self._landed else 0

    @property
    def next_us(self) -> int:
        """When the next one lands."""
        return self._later[0][0] if self._later else NEVER_US

    def drop_from(self, step: int) -> None:
        """Those of this step and later ones are not restored from."""
        self._landed = [landed for landed in self._landed if landed < step]

    def forget_after(self, now_us: int) -> None:
        """What has not landed by now never will."""
        self._later = [each for each in self._later if each[0] <= now_us]
        heapq.heapify(self._later)

    def due(self, at_us: int, attempt: int, node: str) -> Iterator[Moment]:
        """Saves that land until then."""
        while self._later and self._later[0][0] <= at_us:
            _, _, moment = heapq.heappop(self._later)
            yield moment
            persisted = moment.events[0]
            assert isinstance(persisted, CheckpointPersisted)
            yield from self._lands(persisted.step, moment.at_us, attempt, node)

    def save(self, step: int, now_us: int, attempt: int, node: str) -> Generator[Moment, None, int]:
        """Save once; gives when training goes on."""
        saves = self._cluster.saves
        assert saves is not None
        who = {"run": self._cluster.run, "attempt": attempt, "node": node, "rank": 0, "step": step}
        is_bad = self.num_bad > 0
        self.num_bad -= is_bad
        block_us = round(saves.block_s * self.slow * 1e6)
        self.slow = 1.0
        if block_us:
            yield from self.due(now_us, attempt, node)
            yield Moment(now_us, node, [CheckpointStart(t=now_us / 1e6, mode=saves.mode, **who)])  # type: ignore[arg-type]  # as Step's
        now_us += block_us
        t = now_us / 1e6
        yield from self.due(now_us, attempt, node)
        if is_bad and saves.mode == "sync":
            yield Moment(now_us, node, [CheckpointFailed(t=t, error="no space left on device", **who)])  # type: ignore[arg-type]  # as above
            return now_us
        yield Moment(now_us, node, [CheckpointSaved(t=t, dur=block_us / 1e6, mode=saves.mode, **who)])  # type: ignore[arg-type]  # as above
        if saves.mode == "sync":
            yield from self._lands(step, now_us, attempt, node)
        elif not is_bad:
            lands_us = now_us + round(saves.persist_s * 1e6)
            landed = CheckpointPersisted(t=lands_us / 1e6, dur=saves.persist_s, **who)  # type: ignore[arg-type]  # as above
            heapq.heappush(self._later, (lands_us, next(self._order), Moment(lands_us, node, [landed])))
        return now_us

    def _lands(self, step: int, at_us: int, attempt: int, node: str) -> Iterator[Moment]:
        if step not in self._landed:
            self._landed.append(step)
        saves = self._cluster.saves
        assert saves is not None
        while saves.num_kept is not None and len(self._landed) > max(saves.num_kept, 1):
            oldest = self._landed.pop(0)
            deleted = CheckpointDeleted(
                t=at_us / 1e6, run=self._cluster.run, attempt=attempt, node=node, rank=0, step=oldest
            )
            yield Moment(at_us, node, [deleted])
