"""One run's answers as JSON values: the summary with the keys of ``replay --json``, the list's line, the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.report.json_report import (
    attempt_object,
    checkpoint_object,
    interruption_object,
    run_object,
)
from tachograph_collector.report.judge_view import judged, model_object
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.text import percent, seconds, seconds_or_none
from tachograph_collector.service.asking import Asked
from tachograph_collector.service.formats import Column, Table
from tachograph_collector.store.folded_cache import Pieces
from tachograph_collector.store.folded_reader import StoredBooks

_NO_DETAILS: Final = Details([], [], [], [], [], [])
_TIMES: Final = {"start", "end", "as_of", "last_heard"}


@dataclass(frozen=True, slots=True)
class RecordsAsJson:
    """The records of a run as they are written, each made once: with ten thousand saves that is most of a summary."""

    attempts: Pieces
    interruptions: Pieces
    checkpoints: Pieces

    @classmethod
    def of(cls, ask: Asked, stored: StoredBooks) -> RecordsAsJson:
        """Those of the whole run."""
        cache, encode = ask.cache, msgspec.json.encode
        attempts = cache.attempts(ask.connection, stored)
        stops = cache.restarts(ask.connection, stored)
        saves = cache.checkpoints(ask.connection, stored)
        return cls(
            cache.pieces("attempts as JSON", stored, attempts, lambda row: encode(attempt_object(row))),
            cache.pieces("restarts as JSON", stored, stops, lambda row: encode(interruption_object(row))),
            cache.pieces("checkpoints as JSON", stored, saves, lambda row: encode(checkpoint_object(row))),
        )


def summary(ask: Asked, stored: StoredBooks, window: Window, *, with_model: bool, with_records: bool = True) -> bytes:
    """The run as ``replay --json`` has it, its ``origin`` as stored, and ``stored``: as of when and what it stands.

    Without ``with_records`` its lists of attempts, interruptions and saves are empty.
    """
    report = ask.report(stored, window, with_segments=False)
    bare = Details([], [], [], report.details.anomalies, report.details.minutes, [])
    told = run_object(replace(report, details=bare))
    if with_model:
        told["model"] = model_of(ask, stored, window, report)
    details = told["details"]
    if with_records:
        records = RecordsAsJson.of(ask, stored)
        for name, pieces, rows in (
            ("attempts_detail", records.attempts, report.details.attempts),
            ("interruptions", records.interruptions, report.details.interruptions),
            ("checkpoints_detail", records.checkpoints, report.details.checkpoints),
        ):
            details[name] = msgspec.Raw(b"[%b]" % (pieces.joined if report.window is None else pieces.of(rows)))
    if report.window is None:
        minutes = ask.cache.minutes(ask.connection, stored)
        details["incomplete_minutes"] = len(minutes.take(minutes.incomplete).of_the_run())
    details["origin"] = stored.origin
    return msgspec.json.encode({**told, "stored": stored_object(stored)})


def model_of(
    ask: Asked, stored: StoredBooks, window: Window, clipped: RunReport | None = None
) -> dict[str, Any] | None:
    """What the model says of the run or a window of it; null for one of no length. ``clipped`` is that window.

    Of a run that goes on it may be the judgement of up to a ten-thousandth of the run's length ago, as long as nothing
    has stopped it since: to judge a run of a month takes longer than all else that is told of it, and says the same.
    """
    last: tuple[Books, dict[str, Any] | None] | None = ask.cache.last_made("model", stored)
    if window != Window():
        return _judge(clipped or ask.report(stored, window))
    if last is not None and _hardly_differ(last[0], stored.books):
        return last[1]
    return ask.cache.made("model", stored, lambda: (stored.books, _judge(ask.report(stored, window))))[1]


def _judge(report: RunReport) -> dict[str, Any] | None:
    judgement = judged(report)
    return None if judgement is None else model_object(judgement)


def _hardly_differ(before: Books, now: Books) -> bool:
    return (
        before.status == now.status == "running"
        and before.num_attempts == now.num_attempts
        and before.num_failures == now.num_failures
        and before.num_rollbacks == now.num_rollbacks
        and 0 <= now.wall_us - before.wall_us <= now.wall_us // 10_000
        and abs(before.accounts_us["lost"] - now.accounts_us["lost"]) <= now.wall_us // 10_000
    )


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


def list_object(stored: StoredBooks, heard_us: int, num_open: int) -> dict[str, Any]:
    """One line of the list of runs: the summary's numbers without its details.

    ``heard_us`` is when something of it last came, ``num_open`` how many of its incidents are open.
    """
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
        "open_incidents": num_open,
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
        elif name in _INTS or name in {"revision", "open_incidents"}:
            columns.append(Column(name, "int", values))
        elif name in {"run", "status", "origin"}:
            columns.append(Column(name, "text", values))
        else:
            columns.append(Column(name, "float", values))
    return columns


_LINE: Final = (
    "run", "start", "end", "status", "wall_s", "kept_s", "checkpoint_s", "lost_s", "restart_s", "at_risk_s", "goodput",
    "goodput_low", "attempts", "failures", "planned_stops", "unexplained_stops", "steps", "minutes", "origin",
    "world_size", "as_of", "last_heard", "version", "revision", "open_incidents",
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
