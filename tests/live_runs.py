"""Runs that are under way now, as agents tell of them, stored and folded in this process."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import insert, select
from tachograph_agent.events import AnyEvent, decode
from tachograph_collector.live.keeper import Keeper
from tachograph_collector.live.pace import SECOND, Pace
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import tenants
from tachograph_collector.store.writer import Batch, store

_NUMBERS = itertools.count()


def run_with_a_failure(
    run: str = "llama-1",
    *,
    ranks: int = 4,
    slow_rank: int = 2,
    ago_s: float = 3600.0,
    end: str | None = None,
    **start: Any,
) -> list[dict[str, Any]]:
    """Steps of 10 s with a save each ten steps; a failure after half of ``ago_s``, 95 s into an interval; one goes on.

    ``end`` is the status with which it ends, half a minute ago.
    """
    began = float(int(time.time()) - int(ago_s))
    told: list[dict[str, Any]] = [
        {"kind": "run.start", "t": began, "run": run, "world_size": ranks, "gpus": ranks, **start},
    ]
    t, step, attempt = began, 0, 0

    def say(kind: str, **more: Any) -> None:
        told.append({"kind": kind, "t": round(t, 3), "run": run, "attempt": attempt, **more})

    def train(until: float) -> None:
        nonlocal t, step
        while t + 10 <= until:
            t += 10
            step += 1
            for rank in range(ranks):
                busy_s = 9.5 if rank == slow_rank else 8.0
                say("step", rank=rank, node=f"n{rank // 8}", step=step, dur=10.0, busy_s=busy_s)
            if step % 10 == 0:
                say("checkpoint.start", rank=0, step=step, mode="sync")
                t += 5
                say("checkpoint.saved", rank=0, step=step, mode="sync", dur=5.0)
                saved.append(step)

    saved: list[int] = []
    say("attempt.start", resume_step=0, world_size=ranks)
    train(began + ago_s / 2)
    while step % 10 != 9:
        train(t + 10)
    say("failure", rank=0, node="n0", category="hardware", detail="it broke")
    attempt, t, step = 1, t + 60, saved[-1] if saved else 0
    say("attempt.start", resume_step=step, world_size=ranks)
    train(began + ago_s - 30)
    if end is not None:
        say("run.end", status=end)
    return told


def put(database: Database, events: Iterable[dict[str, Any]], *, origin: str | None = None, tenant_id: int = 1) -> None:
    """Store them, as one batch of its own."""
    with database.write() as connection:
        if not connection.execute(select(tenants).where(tenants.c.tenant_id == tenant_id)).first():
            connection.execute(insert(tenants).values(tenant_id=tenant_id, name=f"tenant {tenant_id}"))
    decoded: list[AnyEvent] = [decode(json.dumps(event)) for event in events]
    store(
        database,
        [
            Batch(
                tenant_id=tenant_id,
                batch_id=f"b{next(_NUMBERS)}",
                agent="n0/1",
                origin=origin,
                events=decoded,
                rejected=[],
            )
        ],
    )


NEVER_QUIET = Pace(quiet_us=24 * 3600 * SECOND)
"""No run is frozen and let go while a test is held up: it reads the database's clock, which goes on."""


class Folding:
    """A keeper whose clock a test moves, so that it never waits."""

    def __init__(self, database: Database, replica: str = "a") -> None:
        self.now_us = 0
        self.keeper = Keeper(database, replica, NEVER_QUIET, monotonic_us=lambda: self.now_us)

    def fold(self, rounds: int = 8) -> None:
        """Have it fold what there is."""
        for _ in range(rounds):
            self.keeper.round()
            self.now_us += 2_000_000
