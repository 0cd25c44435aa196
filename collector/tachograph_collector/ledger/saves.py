"""Saves: several ranks' reports of one checkpoint, consolidated into what it cost and whether it landed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct, field
from tachograph_agent.events import (
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    microseconds,
)

from tachograph_collector.ledger.legs import NO_RANK

LANDING_TIERS: Final = frozenset({"storage", "peer"})
"""Tiers that outlive their node; ``local`` and ``memory`` die with it."""

MAX_OTHERS: Final = 64
_BLOCKING: Final = frozenset({"start", "saved"})

SaveEvent = CheckpointStart | CheckpointSaved | CheckpointPersisted | CheckpointFailed


class Save(Struct):
    """One save of one step, as the lowest rank that reports it tells it."""

    step: int
    begin_us: int
    end_us: int | None
    """End of the blocking part; None if it was never told."""
    outcome: Literal["saved", "failed", "open"]
    mode: Literal["sync", "async"] = "sync"
    tier: str | None = None
    bytes: int | None = None
    failed: bool = False
    """Some rank said that it will not land."""
    landed_us: int | None = None
    tiers: tuple[str, ...] = ()
    timed: bool = True
    """False for a landing that nobody saw begin: it covers work and costs no time."""

    @property
    def landed(self) -> bool:
        """Whether it can be restored from something that outlives its node."""
        return self.landed_us is not None and not self.failed


class _Report(Struct, order=True, frozen=True):
    """One rank's line about a save, ordered as the log orders them: ends before starts at one time."""

    t_us: int
    order: int
    rank: int
    dur_us: int | None = None
    mode: str = "sync"
    tier: str | None = None
    bytes: int | None = None
    what: str = ""


class SaveLog(Struct):
    """Everything reported about saves of one step in one track."""

    step: int
    reports: list[_Report] = field(default_factory=list)
    others: list[_Report] = field(default_factory=list)
    """When higher ranks had saved, the earliest of them."""
    known: list[Save] = field(default_factory=list)
    """The saves as last told."""

    def add(self, event: SaveEvent) -> bool:
        """Take one report; False if it is known already."""
        rank = NO_RANK if event.rank is None else event.rank
        dur_us = None if event.dur is None else microseconds(event.dur)
        t_us = microseconds(event.t)
        match event:
            case CheckpointStart():
                report = _Report(t_us, 3, rank, dur_us, event.mode, event.tier, None, "start")
            case CheckpointSaved():
                report = _Report(t_us, 2, rank, dur_us, event.mode, event.tier, event.bytes, "saved")
            case CheckpointFailed():
                report = _Report(t_us, 2, rank, dur_us, "", None, None, "failed")
            case CheckpointPersisted():
                report = _Report(t_us, 2, rank, dur_us, "", event.tier, event.bytes, "persisted")
        if report.what in _BLOCKING:
            # Of thousands of ranks that report one save, only the lowest is listened to: the others aren't kept.
            lowest = min((known.rank for known in self.reports if known.what in _BLOCKING), default=rank)
            if rank > lowest:
                return self._hear_of(report)
            if rank < lowest:
                for known in self.reports:
                    if known.what in _BLOCKING:
                        self._hear_of(known)
                self.reports = [known for known in self.reports if known.what not in _BLOCKING]
        for known in self.reports:
            if (known.t_us, known.rank, known.what) == (t_us, rank, report.what) and (
                report.what != "persisted" or known.tier == report.tier
            ):
                return False
        insort(self.reports, report, key=_sort_key)
        return True

    def _hear_of(self, report: _Report) -> bool:
        """A higher rank's word costs no time, but that it has saved proves that the save landed."""
        if report.what != "saved" or any(known.t_us == report.t_us for known in self.others):
            return False
        insort(self.others, report, key=_sort_key)
        del self.others[MAX_OTHERS:]
        return True

    def saves(self) -> list[Save]:
        """The saves of this step, in time order, by all reports."""
        self.known = self._saves()
        return self.known

    def _saves(self) -> list[Save]:
        blocking = [r for r in self.reports if r.what in _BLOCKING]
        failed = [r for r in self.reports if r.what == "failed"]
        lowest = min((r.rank for r in blocking or failed), default=NO_RANK)
        told = [r for r in self.reports if r.what != "persisted" and r.rank == lowest]
        saves = list(_consolidate(self.step, told)) if blocking else []
        for report in self.others:
            save = _latest(saves, report.t_us)
            if save is not None and save.outcome == "open":
                save.mode = "async" if report.mode == "async" else save.mode
                if save.landed_us is None and save.mode == "sync" and (save.tier or "storage") in LANDING_TIERS:
                    save.landed_us = report.t_us
        for report in self.reports:
            if report.what == "persisted":
                _land(saves, self.step, report)
            elif report.what == "failed":
                save = _latest(saves, report.t_us)
                if save is not None:
                    save.failed = True
        return saves


def _sort_key(report: _Report) -> tuple[int, int, int, str, str]:
    return (report.t_us, report.order, report.rank, report.what, report.tier or "")


def _consolidate(step: int, reports: list[_Report]) -> Iterator[Save]:
    """One rank's starts and ends paired up (rule 4)."""
    open_save: Save | None = None
    for report in reports:
        if report.what == "start":
            # A second start while the first is open is the same save told again.
            open_save = open_save or Save(step, report.t_us, None, "open", _mode(report.mode), report.tier)
            continue
        earliest = report.t_us - (report.dur_us or 0)
        save = open_save or Save(step, earliest, None, "open", tier=report.tier)
        open_save = None
        save.begin_us = max(0, min(save.begin_us, earliest))
        save.end_us = report.t_us
        save.outcome = "saved" if report.what == "saved" else "failed"
        save.failed = report.what == "failed"
        save.bytes = report.bytes
        save.tier = save.tier or report.tier
        if report.mode == "async":
            save.mode = "async"
        if save.outcome == "saved" and save.mode == "sync" and (save.tier or "storage") in LANDING_TIERS:
            save.landed_us = report.t_us
        if save.outcome == "saved" and save.mode == "sync":
            save.tiers = (save.tier or "storage",)
        yield save
    if open_save is not None:
        yield open_save


def _mode(text: str) -> Literal["sync", "async"]:
    return "async" if text == "async" else "sync"


def _latest(saves: list[Save], t_us: int) -> Save | None:
    """The save that a report at ``t_us`` speaks of: the last that had begun, else the first.

    At one time ends come before starts: what begins then is not meant, unless it ends then too.
    """
    begun = [save for save in saves if save.begin_us < t_us or save.begin_us == t_us == save.end_us]
    return begun[-1] if begun else (saves[0] if saves else None)


def _land(saves: list[Save], step: int, report: _Report) -> None:
    tier = report.tier or "storage"
    save = _latest(saves, report.t_us)
    if save is None:
        save = Save(step, report.t_us, report.t_us, "saved", "async", timed=False)
        saves.append(save)
    if tier not in save.tiers:
        save.tiers = (*save.tiers, tier)
    save.bytes = save.bytes or report.bytes
    if tier in LANDING_TIERS and save.landed_us is None:
        save.landed_us = report.t_us
