"""Takes out what was received and is older than it has to be kept. Nothing of the ledger and no incident is among it.

What a ledger may still ask for stays, however old: the steps and events of a run that is running or not folded to its
end. What is taken of a run is written down first (``prunings``), so that nobody takes the rest for all there was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, CursorResult, Table, and_, delete, exists, func, not_, select
from sqlalchemy.dialects import postgresql, sqlite

from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.incident_tables import detector_states
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.partitions import Partition, partitions
from tachograph_collector.store.prunings import EVENT
from tachograph_collector.store.rows import HEARTBEAT, STEP
from tachograph_collector.store.schema import (
    batches,
    books,
    events,
    leases,
    ledger_states,
    prunings,
    rejected,
    runs,
    samples,
)

DAY_US: Final = 86_400_000_000
LEAST_US: Final = 7 * DAY_US
"""Nothing younger is taken: an agent may keep a batch for days while it reaches nobody, and send it again."""
ROWS_AT_ONCE: Final = 5000
"""In one transaction."""
KINDS: Final = (STEP, HEARTBEAT, EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long each kind is kept after it came in, in microseconds; None: for ever.

    Raises ``StoreError`` for less than a week.
    """

    steps_us: int | None = None
    heartbeats_us: int | None = None
    events_us: int | None = None
    """Everything that is neither a step nor a heartbeat."""
    batches_us: int | None = None
    """Names by which a batch sent twice is recognised."""
    rejected_us: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < LEAST_US:
                raise StoreError(
                    f"{each.name.removesuffix('_us')} are to be kept {value / DAY_US:g} days; expected at least "
                    f"{LEAST_US // DAY_US}, since an agent may send again what it sent days ago"
                )

    def of(self, kind: str) -> int | None:
        """The retention of one of ``KINDS``."""
        return {STEP: self.steps_us, HEARTBEAT: self.heartbeats_us, EVENT: self.events_us}[kind]


@dataclass(slots=True)
class PruneReport:
    """What was taken: rows by kind (of steps and heartbeats, pieces), partitions dropped whole, runs left alone."""

    num_rows: dict[str, int] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    num_runs_kept: int = 0
    """Runs of which something is older than its retention and stays, since they run or are not folded yet."""

    def add(self, kind: str, num: int) -> None:
        """Count rows taken."""
        self.num_rows[kind] = self.num_rows.get(kind, 0) + num


@dataclass(frozen=True, slots=True)
class _Old:
    """A run of which something is old enough."""

    key: RunKey
    first_us: int
    last_us: int
    is_over: bool
    """It has ended and is folded to its last event, so nobody asks for what it was made of."""
    folded_seq: int


def prune(database: Database, retention: Retention) -> PruneReport:
    """Take out what is older than its retention, in many short transactions; what is left over, the next call takes.

    Any number of collectors may be at work meanwhile. Raises ``StoreUnavailableError``.
    """
    report = PruneReport()
    with database.read() as connection:
        now_us = database.now_us(connection)
        before_us = {kind: now_us - age_us for kind in KINDS if (age_us := retention.of(kind)) is not None}
        old = _old_runs(connection, max(before_us.values())) if before_us else []
        noted = _noted(connection)
    kept = {
        run.key
        for run in old
        if not run.is_over and any(run.first_us < before_us[kind] for kind in before_us.keys() - {HEARTBEAT})
    }
    report.num_runs_kept = len(kept)
    _drop_partitions(database, old, before_us, report)
    _forget_detectors(database, [run for run in old if run.is_over])
    for run in old:
        for kind, until_us in before_us.items():
            has_any = run.first_us < until_us and noted.get((run.key, kind), 0) <= run.last_us
            if has_any and (run.is_over or kind == HEARTBEAT):
                report.add(kind, _take(database, run, kind, until_us, now_us))
    if retention.batches_us is not None:
        report.add("batch", _take_old(database, batches, now_us - retention.batches_us))
    if retention.rejected_us is not None:
        report.add("rejected", _take_old(database, rejected, now_us - retention.rejected_us))
    return report


def _forget_detectors(database: Database, over: list[_Old]) -> None:
    """Take out what detectors would go on from where nothing goes on. What they found, the incidents, stays."""
    c = detector_states.c
    with database.read() as connection:
        kept = {RunKey(*row) for row in connection.execute(select(c.tenant_id, c.run_id))}
    for run in over:
        if run.key in kept:
            with database.write() as connection:
                mine = and_(c.tenant_id == run.key.tenant_id, c.run_id == run.key.run_id)
                _delete(connection, detector_states, mine)


def _old_runs(connection: Connection, before_us: int) -> list[_Old]:
    same_lease = and_(leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id)
    same_state = and_(ledger_states.c.tenant_id == runs.c.tenant_id, ledger_states.c.run_id == runs.c.run_id)
    runs_on = exists().where(
        books.c.tenant_id == runs.c.tenant_id, books.c.run_id == runs.c.run_id, books.c.status == "running"
    )
    folded_seq = func.coalesce(leases.c.folded_seq, 0)
    query = (
        select(
            runs.c.tenant_id,
            runs.c.run_id,
            runs.c.first_received_us,
            runs.c.last_received_us,
            and_(folded_seq >= runs.c.last_seq, not_(runs_on)),
            func.coalesce(ledger_states.c.seq, 0),
        )
        .select_from(runs.outerjoin(leases, same_lease).outerjoin(ledger_states, same_state))
        .where(runs.c.first_received_us < before_us)
    )
    return [_Old(RunKey(row[0], row[1]), row[2], row[3], bool(row[4]), row[5]) for row in connection.execute(query)]


def _noted(connection: Connection) -> dict[tuple[RunKey, str], int]:
    """Until when was pruned before, by run and kind."""
    c = prunings.c
    query = select(c.tenant_id, c.run_id, c.kind, c.before_us)
    return {(RunKey(row[0], row[1]), row[2]): row[3] for row in connection.execute(query)}


def _take(database: Database, run: _Old, kind: str, until_us: int, now_us: int) -> int:
    """Take one kind of a run's rows, some at a time: its numbers and times of arrival rise together."""
    table = events if kind == EVENT else samples
    c = table.c
    old = and_(c.tenant_id == run.key.tenant_id, c.run_id == run.key.run_id, c.received_us < until_us)
    if kind != EVENT:
        old = and_(old, c.kind == kind)
    if not run.is_over:
        old = and_(old, c.seq <= run.folded_seq)
    some = select(c.seq).where(old).order_by(c.seq).limit(ROWS_AT_ONCE).subquery()
    num = 0
    with database.read() as connection:
        if connection.execute(select(c.seq).where(old).limit(1)).first() is None:
            return 0
    while True:
        with database.write() as connection:
            last_seq = connection.execute(select(func.max(some.c.seq))).scalar()
            if last_seq is None:
                return num
            _note(connection, database.dialect, run.key, kind, until_us, now_us)
            num += _delete(connection, table, and_(old, c.seq <= last_seq))


def _take_old(database: Database, table: Table, until_us: int) -> int:
    """Take what came in before ``until_us`` of a table that belongs to no run, a day at a time."""
    c = table.c
    num = 0
    while True:
        with database.write() as connection:
            first_us = connection.execute(select(func.min(c.received_us)).where(c.received_us < until_us)).scalar()
            if first_us is None:
                return num
            num += _delete(connection, table, c.received_us < min(first_us + DAY_US, until_us))


def _delete(connection: Connection, table: Table, where: ColumnElement[bool]) -> int:
    done = connection.execute(delete(table).where(where))
    assert isinstance(done, CursorResult)
    return int(done.rowcount)


def _note(connection: Connection, dialect: str, run: RunKey, kind: str, before_us: int, at_us: int) -> None:
    """Write down that what came in before ``before_us`` is gone."""
    make: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = make(prunings).values(
        tenant_id=run.tenant_id, run_id=run.run_id, kind=kind, before_us=before_us, at_us=at_us
    )
    told = {"before_us": statement.excluded.before_us, "at_us": statement.excluded.at_us}
    keys = [prunings.c.tenant_id, prunings.c.run_id, prunings.c.kind]
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=keys, set_=told, where=prunings.c.before_us < statement.excluded.before_us
        )
    )


def _drop_partitions(database: Database, old: list[_Old], before_us: dict[str, int], report: PruneReport) -> None:
    """Drop weeks that hold nothing but what is old enough, whole: that costs nothing, however many rows they hold."""
    if database.dialect != "postgresql":
        return
    over = {run.key for run in old if run.is_over}
    with database.read() as connection:
        found = partitions(connection)
        now_us = database.now_us(connection)
    for each in found:
        kinds = [EVENT] if each.table == "events" else [STEP, HEARTBEAT]
        if any(kind not in before_us or each.end_us > before_us[kind] for kind in kinds):
            continue
        with database.write() as connection:
            within = _runs_within(connection, each)
            if within <= over:
                for key in sorted(within):
                    for kind in kinds:
                        _note(connection, database.dialect, key, kind, each.end_us, now_us)
                connection.exec_driver_sql(f"DROP TABLE {each.name}")
                report.partitions.append(each.name)


def _runs_within(connection: Connection, week: Partition) -> set[RunKey]:
    """The runs that have a row in the partition."""
    rows = connection.exec_driver_sql(f"SELECT DISTINCT tenant_id, run_id FROM {week.name}")  # noqa: S608 - our name
    return {RunKey(row[0], row[1]) for row in rows}
