"""One run's answers as JSON values: the summary with the keys of ``replay --json``, the list's line, the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.text import percent, seconds, seconds_or_none
from tachograph_collector.service.formats import Column, Table
from tachograph_collector.store.folded_reader import Minutes, StoredBooks

_NO_DETAILS: Final = Details([], [], [], [], [], [])
_TIMES: Final = {"start", "end", "as_of", "last_heard"}


def summary(report: RunReport, stored: StoredBooks, minutes: Minutes | None, *, with_model: bool) -> dict[str, Any]:
    """The run as ``replay --json`` has it, its ``origin`` as stored, and ``stored``: as of when and what it stands.

    ``minutes`` are told beside a report that was made without them.
    """
    told = run_object(report, with_model)
    if minutes is not None:
        told["details"]["incomplete_minutes"] = int((minutes.incomplete & (minutes.amounts_us.sum(axis=0) > 0)).sum())
    told["details"]["origin"] = stored.origin
    return {**told, "stored": stored_object(stored)}


def stored_object(stored: StoredBooks) -> dict[str, Any]:
    """As of when the books stand, and their version."""
    return {
        "as_of": seconds(stored.now_us),
        "version": stored.version,
        "folded_seq": stored.folded_seq,
        "revision": stored.revision,
        "frozen_at": seconds_or_none(stored.frozen_us),
        "digest": stored.digest,
    }


def list_object(stored: StoredBooks, heard_us: int) -> dict[str, Any]:
    """One line of the list of runs: the summary's numbers without its details; ``heard_us`` is when it last came."""
    told = run_object(RunReport(stored.books, _NO_DETAILS))
    for name in ("model", "details", "skipped_lines"):
        del told[name]
    return {
        **told,
        "origin": stored.origin,
        "world_size": stored.books.world_size,
        "as_of": seconds(stored.now_us),
        "last_heard": seconds(heard_us),
        "version": stored.version,
        "revision": stored.revision,
    }


def price_of(books: Books) -> float | None:
    """The price of a GPU-hour that the run tells; None if it tells none, or one that is none."""
    return RunReport(books, _NO_DETAILS).price


_INTS: Final = {"attempts", "failures", "planned_stops", "unexplained_stops", "steps", "world_size", "version"}


def runs_table(told: Sequence[dict[str, Any]]) -> Table:
    """The list of runs, as columns."""
    columns: list[Column] = []
    for name in _LINE:
        values = [each[name] for each in told]
        if name in _TIMES:
            columns.append(Column(name, "time", [round(value * 1e6) for value in values]))
        elif name == "minutes":
            columns.append(Column(name, "json", values))
        elif name in _INTS or name == "revision":
            columns.append(Column(name, "int", values))
        elif name in {"run", "status", "origin"}:
            columns.append(Column(name, "text", values))
        else:
            columns.append(Column(name, "float", values))
    return columns


_LINE: Final = (
    "run", "start", "end", "status", "wall_s", "kept_s", "checkpoint_s", "lost_s", "restart_s", "at_risk_s", "goodput",
    "goodput_low", "attempts", "failures", "planned_stops", "unexplained_stops", "steps", "minutes", "origin",
    "world_size", "as_of", "last_heard", "version", "revision",
)  # fmt: skip


def gate(books: Books, stored: StoredBooks, min_goodput: float, window: Window) -> dict[str, Any]:
    """Whether the run keeps up with a goodput that is asked of it. Unknown goodput (no time yet) does not pass."""
    goodput = books.goodput
    passes = goodput is not None and goodput >= min_goodput
    than = "at least" if passes else "below"
    return {
        "run": stored.books.run,
        "pass": passes,
        "goodput": goodput,
        "min_goodput": min_goodput,
        "run_status": stored.books.status,
        "since": seconds_or_none(window.since_us),
        "until": seconds_or_none(window.until_us),
        "as_of": seconds(stored.now_us),
        "version": stored.version,
        "sentence": "nothing is booked yet: goodput is unknown"
        if goodput is None
        else f"goodput is {percent(goodput, 2)}, {than} the {percent(min_goodput, 2)} asked for",
    }
