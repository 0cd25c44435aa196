"""Decoded rows of the runs that were asked for lately, so that a question costs what has changed since the last one.

A run of a month has tens of thousands of rows; reading and decoding them takes longer than anything that is done with
them. Each part of a run is kept with the version of the books that it was read at, and brought up to date by reading
what was written since. What is handed out is never changed afterwards.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection, Table

from tachograph_collector.ledger.books import AttemptRecord, CheckpointRecord, Details, Interruption, Segment
from tachograph_collector.store import folded_reader as reader
from tachograph_collector.store.folded_reader import FoldedKey, Minutes, StoredBooks
from tachograph_collector.store.schema import attempts, checkpoints, restarts

MAX_ROWS: Final = 1_000_000
"""Rows kept of all runs together; some 100 to 200 MB."""
MAX_RUNS: Final = 1_000

T = TypeVar("T")
_START: Final = attrgetter("start_us")
_END: Final = attrgetter("end_us")


@dataclass(slots=True)
class Pieces:
    """What was made of each of ``rows``, by the row's ``id``, with the row itself; ``joined`` is all of them."""

    rows: Mapping[int, Any]
    by_id: dict[int, tuple[Any, bytes]]
    joined: bytes

    def of(self, rows: Iterable[object]) -> bytes:
        """Those of some rows, with commas between."""
        return b",".join([self.by_id[id(row)][1] for row in rows])


@dataclass(slots=True)
class _Part(Generic[T]):
    """One kind of a run's rows, as of a version."""

    version: int
    rows: T
    num: int


@dataclass(slots=True)
class _Kept:
    lock: threading.RLock = field(default_factory=threading.RLock)
    parts: dict[str, _Part[Any]] = field(default_factory=dict)

    def num_rows(self) -> int:
        return sum(part.num for part in list(self.parts.values()))


class FoldedCache:
    """The rows of runs, by run and generation. Thread-safe; one of a process, for one database.

    ``made`` keeps what was computed from a run (an answer's bytes, a judgement) for as long as its version stands.
    """

    def __init__(self, max_rows: int = MAX_ROWS, max_runs: int = MAX_RUNS) -> None:
        self._max_rows = max_rows
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._runs: OrderedDict[FoldedKey, _Kept] = OrderedDict()

    def segments(self, connection: Connection, stored: StoredBooks) -> list[Segment]:
        """The strip of the run, in order of time."""

        def changed(part: _Part[list[Segment]]) -> list[Segment] | None:
            new = reader.read_segments(connection, stored.key, part.version)
            merged = merged_segments(part.rows, new) if new else part.rows
            return merged if sum(s.end_us - s.start_us for s in merged) == stored.books.wall_us else None

        return self._part("segments", stored, lambda: reader.read_segments(connection, stored.key), changed)

    def minutes(self, connection: Connection, stored: StoredBooks) -> Minutes:
        """The minutes of the run; no row of them is ever taken away."""

        def changed(part: _Part[Minutes]) -> Minutes:
            return part.rows.with_changed(reader.read_minutes(connection, stored.key, part.version))

        return self._part("minutes", stored, lambda: reader.read_minutes(connection, stored.key), changed)

    def attempts(self, connection: Connection, stored: StoredBooks) -> dict[int, AttemptRecord]:
        """The attempts by their index."""
        return self._numbered("attempts", connection, stored, attempts, reader.read_attempts)

    def restarts(self, connection: Connection, stored: StoredBooks) -> dict[int, Interruption]:
        """The interruptions by their index."""
        return self._numbered("restarts", connection, stored, restarts, reader.read_restarts)

    def checkpoints(self, connection: Connection, stored: StoredBooks) -> dict[int, CheckpointRecord]:
        """The saves by their index."""
        return self._numbered("checkpoints", connection, stored, checkpoints, reader.read_checkpoints)

    def details(self, connection: Connection, stored: StoredBooks, *, with_segments: bool = True) -> Details:
        """The records behind the books but for its minutes, which ``minutes`` has in columns."""
        return Details(
            attempts=list(self.attempts(connection, stored).values()),
            interruptions=list(self.restarts(connection, stored).values()),
            checkpoints=list(self.checkpoints(connection, stored).values()),
            anomalies=stored.anomalies,
            minutes=[],
            segments=self.segments(connection, stored) if with_segments else [],
        )

    def made(self, name: str, stored: StoredBooks, make: Callable[[], T], num: int = 1) -> T:
        """What ``make`` makes from the run as it stands, made once a version; ``num`` is its size in rows."""
        kept = self._kept(stored.key)
        with kept.lock:
            part: _Part[T] | None = kept.parts.get(name)
            if part is None or part.version != stored.version:
                kept.parts[name] = part = _Part(stored.version, make(), num)
        self._shrink()
        return part.rows

    def last_made(self, name: str, stored: StoredBooks) -> Any:
        """What ``made`` made last under that name, of this version or an earlier one; None if nothing is kept."""
        part = self._kept(stored.key).parts.get(name)
        return None if part is None or part.version > stored.version else part.rows

    def pieces(self, name: str, stored: StoredBooks, rows: Mapping[int, T], make: Callable[[T], bytes]) -> Pieces:
        """What ``make`` makes of each row of the run, made once a row; ``rows`` are all of a kind, as given here."""
        kept = self._kept(stored.key)
        with kept.lock:
            part: _Part[Pieces] | None = kept.parts.get(name)
            if part is not None and part.rows.rows is rows:
                return part.rows
            before = {} if part is None else part.rows.by_id
            by_id: dict[int, tuple[Any, bytes]] = {}
            for row in rows.values():
                was = before.get(id(row))
                by_id[id(row)] = was if was is not None and was[0] is row else (row, make(row))
            found = Pieces(rows, by_id, b",".join([piece for _, piece in by_id.values()]))
            kept.parts[name] = _Part(stored.version, found, len(rows))
        self._shrink()
        return found

    def _numbered(
        self,
        name: str,
        connection: Connection,
        stored: StoredBooks,
        table: Table,
        read: Callable[[Connection, FoldedKey, int], dict[int, T]],
    ) -> dict[int, T]:
        def changed(part: _Part[dict[int, T]]) -> dict[int, T] | None:
            new = read(connection, stored.key, part.version)
            merged = part.rows | new if new else part.rows
            if len(merged) != reader.num_rows(connection, table, stored.key):
                return None
            return merged if len(merged) == len(part.rows) else dict(sorted(merged.items()))

        return self._part(name, stored, lambda: read(connection, stored.key, 0), changed)

    def _part(
        self,
        name: str,
        stored: StoredBooks,
        read_all: Callable[[], T],
        changed: Callable[[_Part[T]], T | None],
    ) -> T:
        """One part as of ``stored``. Rows that were taken away show as ``changed`` finding a sum wrong: all anew."""
        kept = self._kept(stored.key)
        with kept.lock:
            part: _Part[T] | None = kept.parts.get(name)
            if part is not None and part.version == stored.version:
                return part.rows
            rows = changed(part) if part is not None and part.version < stored.version else None
            if rows is None:
                rows = read_all()
            if part is None or part.version < stored.version:
                size = len(rows)  # type: ignore[arg-type] # every part has a length, which T can't say
                kept.parts[name] = _Part(stored.version, rows, size)
        self._shrink()
        return rows

    def _kept(self, key: FoldedKey) -> _Kept:
        with self._lock:
            kept = self._runs.setdefault(key, _Kept())
            self._runs.move_to_end(key)
            return kept

    def _shrink(self) -> None:
        with self._lock:
            total = sum(kept.num_rows() for kept in self._runs.values())
            while len(self._runs) > 1 and (total > self._max_rows or len(self._runs) > self._max_runs):
                _, oldest = self._runs.popitem(last=False)
                total -= oldest.num_rows()


def merged_segments(old: list[Segment], new: list[Segment]) -> list[Segment]:
    """``old`` with ``new`` laid over it: what a new one covers any part of is gone. Both sorted and disjoint."""
    merged: list[Segment] = []
    place = 0
    for segment in new:
        before = bisect_right(old, segment.start_us, lo=place, key=_END)
        merged += old[place:before]
        merged.append(segment)
        place = bisect_left(old, segment.end_us, lo=before, key=_START)
    merged += old[place:]
    return merged
