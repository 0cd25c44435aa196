"""Rule 4: saves, from the events of every rank that reports one."""

from __future__ import annotations

from collections.abc import Sequence

from tachograph_agent.events import (
    AnyEvent,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
)

from ledger_oracle.attempts import Attempt, Save
from ledger_oracle.order import at_us, attempt_name, begun_us, one_us, rank_of

LANDING_TIERS = ("storage", "peer")


def saves_of(attempt: Attempt) -> list[Save]:
    """Rule 4: each save as the lowest rank that reports it tells it; one step can be saved again after a rollback."""
    groups: dict[tuple[int, int], list[AnyEvent]] = {}
    started: dict[tuple[int, int], int] = {}
    for event in attempt.events:
        if isinstance(event, (CheckpointStart, CheckpointSaved, CheckpointFailed)):
            # a save belongs to where its rank started it, also if a rollback came before its end
            part = attempt.part_at(at_us(event))
            if isinstance(event, CheckpointStart):
                started[rank_of(event), event.step] = part
            else:
                part = started.get((rank_of(event), event.step), part)
            groups.setdefault((part, event.step), []).append(event)
    saves: list[Save] = []
    for (part, step), events in groups.items():
        told = [e for e in events if isinstance(e, (CheckpointStart, CheckpointSaved))]
        if told:
            lowest = min(rank_of(e) for e in told)
            saves += _told_by_one_rank(attempt, part, step, [e for e in events if rank_of(e) == lowest])
            _other_ranks_saved([s for s in saves if (s.part, s.step) == (part, step)], told)
    return sorted(saves, key=lambda s: (s.begin, s.step))


def _told_by_one_rank(attempt: Attempt, part: int, step: int, events: list[AnyEvent]) -> list[Save]:
    saves: list[Save] = []
    opened: Save | None = None
    for event in events:
        t = at_us(event)
        if isinstance(event, CheckpointStart):
            if opened is None:  # a start told twice is one start
                opened = Save(attempt, part, step, t, None, event.mode, "open")
                opened.tier = event.tier
                saves.append(opened)
        elif isinstance(event, CheckpointSaved):
            if opened is None:
                opened = Save(attempt, part, step, begun_us(event), None, event.mode, "open")
                saves.append(opened)
            opened.tier = opened.tier or event.tier
            opened.begin = min(opened.begin, begun_us(event))
            opened.end, opened.ended_by, opened.saved_at = t, "saved", t
            if event.mode == "async":
                opened.mode = "async"
            opened = None
        elif opened is not None:
            opened.ended_by = "failed"
            opened.end = t if opened.mode == "sync" else min(t, next_record_begin(attempt, opened.begin) or t)
            opened = None
    return saves


def _other_ranks_saved(saves: list[Save], told: Sequence[AnyEvent]) -> None:
    """It has landed when it was ``saved``, also if not the lowest rank but another says so."""
    for event in told:
        if isinstance(event, CheckpointSaved):
            before = [s for s in saves if s.begin <= at_us(event)] or saves[:1]
            if before[-1].saved_at is None:
                before[-1].saved_at = at_us(event)
                if event.mode == "async":
                    before[-1].mode = "async"


def next_record_begin(attempt: Attempt, t: int) -> int | None:
    """Rule 4: where the next step record's own ``one`` began."""
    for record in attempt.records:
        if at_us(record) > t:
            return max(t, at_us(record) - one_us(record))
    return None


def close_open_saves(attempt: Attempt) -> None:
    """Rule 4: one that is never closed ends where the next step record's own ``one`` began, or with the attempt."""
    for save in attempt.saves:
        if save.end is None:
            begin = next_record_begin(attempt, save.begin)
            back = min((at_us(r) for r in attempt.rollbacks if at_us(r) >= save.begin), default=None)
            if back is not None and (begin is None or back < begin):  # a rollback ends what it came upon
                save.end, save.ended_by = back, "failed"
                continue
            save.end = attempt.end if begin is None else begin
            save.ended_by = "attempt" if begin is None else "step"


def land(attempts: list[Attempt], events: list[AnyEvent]) -> None:
    """Rule 4: landed when ``saved`` in sync mode or persisted to storage or peer, and no rank reported ``failed``."""
    saves = [s for a in attempts for s in a.saves]
    for event in events:
        if not isinstance(event, (CheckpointPersisted, CheckpointFailed)):
            continue
        name, t = attempt_name(event), at_us(event)
        same = [s for s in saves if s.attempt.name == name and s.step == event.step]
        same.sort(key=lambda s: s.begin)
        # at one time ends come before starts: what begins then is not meant, unless it ends then too
        chosen = ([s for s in same if s.begin < t or s.begin == t == s.end] or same[:1])[-1:]
        if not chosen and isinstance(event, CheckpointPersisted):
            owner = [a for a in attempts if a.name == name and a.begin <= t][-1:]
            if owner:
                begin = max(begun_us(event), owner[0].begin)
                part = owner[0].part_at(t)
                chosen = [Save(owner[0], part, event.step, begin, begin, "async", "persisted")]
                owner[0].saves += chosen
                saves += chosen
        for save in chosen:
            if isinstance(event, CheckpointFailed):
                save.failed = True
            elif event.tier in LANDING_TIERS:
                save.landed_at = t if save.landed_at is None else min(save.landed_at, t)
    for save in saves:
        if save.mode == "sync" and save.saved_at is not None and (save.tier or "storage") in LANDING_TIERS:
            save.landed_at = save.saved_at if save.landed_at is None else min(save.landed_at, save.saved_at)
        if save.failed:
            save.landed_at = None
