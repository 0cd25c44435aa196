"""A recording as pandas frames: what ``tachograph_collector.load`` gives.

Every frame has the columns and dtypes of its schema here, whether it has rows or not; ``docs/report.md`` describes
them. Instants are aware UTC with microseconds, so the years 1970 and 9999 are as good as today; durations are seconds
as floats (``*_s``); unknown is ``<NA>``, ``NaT`` or ``NaN``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from tachograph_agent.events import AnyEvent, Step, microseconds

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS, Segment
from tachograph_collector.report.model import RunReport, cost_us
from tachograph_collector.report.text import SECOND

TIME: Final = "datetime64[us, UTC]"
_NAT: Final = np.iinfo(np.int64).min

Schema = dict[str, str]
RESTART_COLUMNS: Final = tuple(f"{sub}_s" for sub in SUB_ACCOUNTS["restart"])

BOOKS: Final[Schema] = {
    "run": "string",
    "status": "category",
    "start": TIME,
    "end": TIME,
    "wall_s": "float64",
    "kept_s": "float64",
    "checkpoint_s": "float64",
    "lost_s": "float64",
    "restart_s": "float64",
    "at_risk_s": "float64",
    "goodput": "float64",
    "goodput_low": "float64",
    "gpu_goodput": "float64",
    "attempts": "int64",
    "failures": "int64",
    "planned_stops": "int64",
    "unexplained_stops": "int64",
    "rollbacks": "int64",
    "steps": "Int64",
    "held_gpu_hours": "float64",
    "kept_gpu_hours": "float64",
}
MINUTES: Final[Schema] = {
    "run": "string",
    "minute": TIME,
    "kept_s": "float64",
    "checkpoint_s": "float64",
    "lost_s": "float64",
    "restart_s": "float64",
    "label": "category",
    "revision": "int64",
    "incomplete": "bool",
}
STEPS: Final[Schema] = {
    "run": "string",
    "attempt": "string",
    "node": "string",
    "rank": "Int64",
    "at": TIME,
    "step": "int64",
    "count": "int64",
    "dur_s": "float64",
    "busy_s": "float64",
    "loss": "float64",
    "grad_norm": "float64",
    "tokens": "float64",
    "account": "category",
}
RESTARTS: Final[Schema] = {
    "run": "string",
    "attempt": "int64",
    "how": "category",
    "category": "string",
    "inferred": "bool",
    "node": "string",
    "rank": "Int64",
    "detail": "string",
    "at": TIME,
    "resumed_at": TIME,
    "last_step": "Int64",
    "resume_step": "Int64",
    "cost_s": "float64",
    "lost_s": "float64",
    "restart_s": "float64",
    **dict.fromkeys(RESTART_COLUMNS, "float64"),
}
CHECKPOINTS: Final[Schema] = {
    "run": "string",
    "attempt": "int64",
    "step": "int64",
    "mode": "category",
    "state": "category",
    "start": TIME,
    "end": TIME,
    "landed_at": TIME,
    "blocking_s": "float64",
    "persist_s": "float64",
    "bytes": "Int64",
    "tiers": "string",
}
CATEGORIES: Final[dict[str, tuple[str, ...]]] = {
    "status": ("running", "completed", "failed", "cancelled", "abandoned"),
    "label": ACCOUNTS,
    "account": ACCOUNTS,
    "how": ("failure", "planned", "unexplained", "rollback"),
    "mode": ("sync", "async"),
    "state": ("landed", "pending", "failed", "abandoned"),
}

Batches = Callable[[], Iterable[Sequence[AnyEvent]]]


class Recording:
    """The runs of a log, as frames. Frames are made anew at each call and are the caller's own."""

    def __init__(self, reports: Sequence[RunReport], batches: Batches) -> None:
        self.reports = list(reports)
        """What the other reports are made from, one for each run."""
        self._batches = batches

    @property
    def runs(self) -> list[str]:
        """The names of the runs, in the order of the log."""
        return [report.books.run for report in self.reports]

    def __repr__(self) -> str:
        return f"<Recording of {', '.join(self.runs) or 'no run'}>"

    def books(self) -> pd.DataFrame:
        """One row a run: its accounts, goodput and counts."""
        rows = []
        for report in self.reports:
            books, gpu = report.books, report.gpu_hours()
            rows.append(
                (
                    books.run,
                    books.status,
                    books.start_us,
                    books.end_us,
                    _s(books.wall_us),
                    *(_s(books.accounts_us[account]) for account in ACCOUNTS),
                    _s(books.at_risk_us),
                    books.goodput,
                    books.goodput_low,
                    books.gpu_goodput,
                    books.num_attempts,
                    books.num_failures,
                    books.num_planned_stops,
                    books.num_unexplained_stops,
                    books.num_rollbacks,
                    report.steps,
                    gpu["held"] if gpu else None,
                    gpu["kept"] if gpu else None,
                )
            )
        return _frame(BOOKS, rows)

    def minutes(self) -> pd.DataFrame:
        """One row a minute and run: its seconds in each account and its label."""
        return _frame(
            MINUTES,
            [
                (
                    report.books.run,
                    minute.start_us,
                    _s(minute.kept_us),
                    _s(minute.checkpoint_us),
                    _s(minute.lost_us),
                    _s(minute.restart_us),
                    minute.label,
                    minute.revision,
                    minute.incomplete,
                )
                for report in self.reports
                for minute in report.details.minutes
            ],
        )

    def steps(self) -> pd.DataFrame:
        """One row a step record, of every rank, as logged, in order of time; the log is read again for it.

        ``account`` is where the moment at which the record ended is booked: kept, or lost.
        """
        which = _Owners(self.reports)
        rows = []
        for batch in self._batches():
            for event in batch:
                if not isinstance(event, Step):
                    continue
                at_us = microseconds(event.t)
                run, account = which.of(event.run, at_us)
                rows.append(
                    (
                        run,
                        None if event.attempt is None else str(event.attempt),
                        event.node,
                        event.rank,
                        at_us,
                        event.step,
                        event.count,
                        event.dur,
                        event.busy_s,
                        event.loss,
                        event.grad_norm,
                        event.tokens,
                        account,
                    )
                )
        rows.sort(key=lambda row: (row[4], row[5]))
        return _frame(STEPS, rows)

    def restarts(self) -> pd.DataFrame:
        """One row an interruption: what stopped training, what it cost, and how long each part of the way back took."""
        return _frame(
            RESTARTS,
            [
                (
                    report.books.run,
                    it.attempt,
                    it.how,
                    it.category,
                    it.inferred,
                    it.node,
                    it.rank,
                    it.detail,
                    it.at_us,
                    it.resumed_at_us,
                    it.last_step,
                    it.resume_step,
                    _s(cost_us(it)),
                    _s(it.lost_us),
                    _s(it.restart_us),
                    *(_s(it.phases_us.get(sub, 0)) for sub in SUB_ACCOUNTS["restart"]),
                )
                for report in self.reports
                for it in report.details.interruptions
            ],
        )

    def checkpoints(self) -> pd.DataFrame:
        """One row a save: when, what it cost, and whether and when it landed."""
        return _frame(
            CHECKPOINTS,
            [
                (
                    report.books.run,
                    save.attempt,
                    save.step,
                    save.mode,
                    save.state,
                    save.start_us,
                    save.end_us,
                    save.landed_us,
                    _s(save.blocking_us),
                    _s(save.persist_us),
                    save.bytes,
                    ",".join(save.tiers) or None,
                )
                for report in self.reports
                for save in report.details.checkpoints
            ],
        )


class _Owners:
    """Which run and account a moment belongs to: a second run of one name is booked as ``name#2``."""

    def __init__(self, reports: Sequence[RunReport]) -> None:
        self._by_name: dict[str, list[RunReport]] = {}
        self._ends: dict[str, list[int]] = {}
        for report in reports:
            name = report.books.run
            base, _, number = name.rpartition("#")
            for key in {name, base} if base and number.isdigit() else {name}:
                self._by_name.setdefault(key, []).append(report)
            self._ends[name] = [segment.end_us for segment in report.details.segments]

    def of(self, name: str, at_us: int) -> tuple[str, str | None]:
        """The run as it is booked, and the account; None for a moment that is in no account of work."""
        reports = self._by_name.get(name, [])
        for report in reports:
            segment = self._segment(report, at_us)
            if segment is not None:
                return report.books.run, segment.account if segment.account in {"kept", "lost"} else None
        return name, None

    def _segment(self, report: RunReport, at_us: int) -> Segment | None:
        ends = self._ends[report.books.run]
        index = bisect_left(ends, at_us)
        if index == len(ends):
            return None
        segment = report.details.segments[index]
        return segment if segment.start_us < at_us <= segment.end_us else None


def _s(us: int | None) -> float | None:
    return None if us is None else us / SECOND


def _frame(schema: Schema, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pd.DataFrame(
        {name: _column(name, dtype, values) for (name, dtype), values in zip(schema.items(), columns, strict=True)}
    )


def _column(name: str, dtype: str, values: Sequence[Any]) -> Any:
    if dtype == TIME:
        whole = np.array([_NAT if value is None else value for value in values], dtype=np.int64)
        return pd.Series(whole.view("datetime64[us]")).dt.tz_localize("UTC")
    if dtype == "category":
        return pd.Series(pd.Categorical(list(values), categories=list(CATEGORIES[name])))
    if dtype == "string":
        return pd.Series([None if value is None else _storable(value) for value in values], dtype="string")
    return pd.Series(list(values), dtype=dtype)


def _storable(text: str) -> str:
    """The text with lone surrogates, which no file format takes, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
