"""Who folds which run: leases in the database, on its clock, each with a fence that rises when it changes hands.

A lease is a row, so it works behind any pooler. What makes it safe is not its time but its fence: every transaction
that writes derived rows first updates the lease's row where holder and fence are still its own (``hold``). The row
stays locked until the commit, so nobody can take the lease over meanwhile; and who was paused for so long that somebody
did writes nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from sqlalchemy import Connection, CursorResult, and_, case, or_, select, true, update
from sqlalchemy.dialects import postgresql, sqlite

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import leases, runs

LEASE_US: Final = 10_000_000
"""How long a lease holds after it was renewed: a holder that dies is followed by another after this and one look."""


class LeaseLostError(Exception):
    """Somebody else folds this run now."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to fold one run, as of when it was taken or last held."""

    run: RunKey
    holder: str
    fence: int
    folded_seq: int
    folded_until_us: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that has something to fold and that nobody, or nobody alive, folds."""

    run: RunKey
    name: str


def candidates(connection: Connection, now_us: int, limit: int) -> list[Candidate]:
    """Runs that anybody may take: with new events, due for a look, or left behind by a holder that died.

    Those with new events come first, then the longest waiting: of a thousand that a dead holder left behind, nobody
    misses those of which nothing comes.
    """
    has_news = or_(leases.c.run_id.is_(None), runs.c.last_seq > leases.c.folded_seq)
    has_work = or_(has_news, leases.c.next_look_us <= now_us)
    holder = leases.c.holder
    is_free = or_(and_(holder.is_(None), has_work), and_(holder.is_not(None), leases.c.until_us <= now_us))
    query = (
        select(runs.c.tenant_id, runs.c.run_id, runs.c.name)
        .select_from(runs.outerjoin(leases, _same_run()))
        .where(runs.c.last_seq > 0, is_free)
        .order_by(case((has_news, 0), else_=1), leases.c.next_look_us, runs.c.last_received_us)
        .limit(limit)
    )
    return [Candidate(RunKey(row[0], row[1]), row[2]) for row in connection.execute(query)]


def with_new_events(connection: Connection, holder: str) -> set[RunKey]:
    """Runs that ``holder`` folds and that have events it has not folded, whoever took them in."""
    query = (
        select(runs.c.tenant_id, runs.c.run_id)
        .select_from(runs.join(leases, _same_run()))
        .where(leases.c.holder == holder, runs.c.last_seq > leases.c.folded_seq)
    )
    return {RunKey(*row) for row in connection.execute(query)}


def _same_run() -> Any:
    return and_(runs.c.tenant_id == leases.c.tenant_id, runs.c.run_id == leases.c.run_id)


def acquire(connection: Connection, run: RunKey, holder: str, now_us: int, *, by_force: bool = False) -> Lease | None:
    """Take a lease that nobody holds any more; None if somebody does.

    ``by_force`` takes it from whoever holds it: safe, since that one's fence is then an old one.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(
        insert(leases)
        .values(tenant_id=run.tenant_id, run_id=run.run_id, fence=0, until_us=0, folded_seq=0, folded_until_us=0)
        .on_conflict_do_nothing()
    )
    taken = connection.execute(
        update(leases)
        .where(*_of(run), true() if by_force else or_(leases.c.holder.is_(None), leases.c.until_us <= now_us))
        .values(holder=holder, fence=leases.c.fence + 1, until_us=now_us + LEASE_US)
        .returning(leases.c.fence, leases.c.folded_seq, leases.c.folded_until_us)
    ).one_or_none()
    return None if taken is None else Lease(run, holder, *taken)


def renew(connection: Connection, holder: str, now_us: int) -> dict[RunKey, int]:
    """Hold all leases of ``holder`` for longer; gives the fence of each. Those not among them were lost.

    A lease that ran out is renewed as well if nobody has taken it: its fence says so.
    """
    query = (
        update(leases)
        .where(leases.c.holder == holder)
        .values(until_us=now_us + LEASE_US)
        .returning(leases.c.tenant_id, leases.c.run_id, leases.c.fence)
    )
    return {RunKey(row[0], row[1]): row[2] for row in connection.execute(query)}


def give_back(connection: Connection, holder: str, forgotten: Iterable[RunKey], now_us: int) -> None:
    """Let go of leases of ``holder`` whose runs it has no folder of any more, to be taken again by anybody at once."""
    for run in forgotten:
        connection.execute(
            update(leases)
            .where(*_of(run), leases.c.holder == holder)
            .values(holder=None, until_us=0, next_look_us=now_us)
        )


def hold(
    connection: Connection,
    lease: Lease,
    now_us: int,
    *,
    folded_seq: int | None = None,
    folded_until_us: int | None = None,
    next_look_us: int | None = None,
) -> Lease:
    """Make sure, until this transaction ends, that the lease is one's own, and say what will have been folded.

    Raises ``LeaseLostError`` if it is not: nothing of the transaction may stay then.
    """
    told = {"folded_seq": folded_seq, "folded_until_us": folded_until_us, "next_look_us": next_look_us}
    values = {name: value for name, value in told.items() if value is not None}
    result = connection.execute(update(leases).where(*_own(lease)).values(until_us=now_us + LEASE_US, **values))
    if cast("CursorResult[Any]", result).rowcount != 1:
        raise LeaseLostError(f"run {lease.run.run_id}: fence {lease.fence} of {lease.holder} is no longer the newest")
    return replace(
        lease,
        folded_seq=lease.folded_seq if folded_seq is None else folded_seq,
        folded_until_us=lease.folded_until_us if folded_until_us is None else folded_until_us,
    )


def release(connection: Connection, lease: Lease, next_look_us: int | None) -> None:
    """Let the lease go, if it is still one's own; who takes it next need not wait."""
    connection.execute(update(leases).where(*_own(lease)).values(holder=None, until_us=0, next_look_us=next_look_us))


def _of(run: RunKey) -> tuple[Any, ...]:
    return (leases.c.tenant_id == run.tenant_id, leases.c.run_id == run.run_id)


def _own(lease: Lease) -> tuple[Any, ...]:
    return (*_of(lease.run), leases.c.holder == lease.holder, leases.c.fence == lease.fence)
