"""A collector with a run of a month in it, for who opens the page on it: one step a minute, 43,200 minutes."""

from __future__ import annotations

from typing import Any

import stored_runs
from page_world import SECOND, events
from tachograph_agent.events import AnyEvent
from tachograph_collector.store.database import Database

RUN = "month"
MONTH_S = 30 * 86_400
END_S = 1_793_000_040.0


def month() -> list[AnyEvent]:
    """30 days of a step a minute, a save each half an hour, and a failure each half a day."""
    told: list[dict[str, Any]] = []
    t, step, saved, attempt = END_S - MONTH_S, 0, 0, 0

    def say(kind: str, **more: Any) -> None:
        told.append({"kind": kind, "t": t, "run": RUN, "attempt": attempt, **more})

    say("run.start", world_size=1024, gpus=1024, price_per_gpu_hour=2.5)
    say("attempt.start", resume_step=0, world_size=1024)
    for minute in range(1, MONTH_S // 60):
        t = END_S - MONTH_S + 60 * minute
        if minute % 720 == 719:
            say("failure", rank=minute % 1024, node=f"n{minute % 128}", category="gpu", detail="Xid 79")
            attempt += 1
            step = saved
        elif minute % 720 == 10 and minute > 720:
            say("attempt.start", resume_step=step, world_size=1024)
        elif minute < 720 or minute % 720 > 10:
            step += 1
            say("step", rank=0, node="n0", step=step, dur=50.0, loss=2 + 8 / step, grad_norm=0.6, tokens=4_000_000)
            if minute % 30 == 0:
                say("checkpoint.saved", rank=0, step=step, mode="sync", dur=5.0)
                saved = step
    return events(told)


def store_month(database: Database) -> None:
    """Put it there as the run ``RUN``, which goes on."""
    stored_runs.store(database, month(), run_id=1, now_us=round(END_S * SECOND))
