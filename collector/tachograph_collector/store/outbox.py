"""What each sink is to be told of which incident, and how far that has come: rows of ``deliveries`` and ``sinks``.

A row is **noted** when its incident has changed, **taken** by one collector before it sends, and **closed** after. Who
takes a row counts the try before it begins, so that a collector that dies in the middle leaves a sign: whoever takes
the row when the claim has run out sees that an earlier try may have arrived.

What has changed is found by ``incidents.changed_us``. A transaction may be committed a while after the time that it
wrote there, so each look goes back ``OVERLAP_US`` behind the last; a row that is noted already costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    update,
)

from tachograph_collector.store.incident_tables import deliveries, incidents, sinks
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.rows import column_text
from tachograph_collector.store.schema import runs, tenants
from tachograph_collector.store.writer import insert_new

WAITING: Final = "waiting"
SENT: Final = "sent"
SKIPPED: Final = "skipped"
DEAD: Final = "dead"
STATES: Final = (WAITING, SENT, SKIPPED, DEAD)

OVERLAP_US: Final = 120_000_000
FORGOTTEN_AFTER_US: Final = 86_400_000_000
"""A sink that no collector had for a day begins anew, so that nobody is told of what happened in between."""
_AT_ONCE: Final = 500
_MAX_ERROR: Final = 500


class DeliveryKey(NamedTuple):
    """One incident, one sink."""

    run: RunKey
    incident_id: str
    sink: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A row of ``deliveries`` as it is."""

    key: DeliveryKey
    state: str
    noted_us: int
    sent_us: int | None
    told: str | None
    told_at_us: int | None
    remote_id: str | None
    num_tries: int
    since_us: int
    next_try_us: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a sink's queue is: how much waits, since when the oldest does, and how much was given up."""

    num_waiting: int = 0
    oldest_us: int | None = None
    num_dead: int = 0


def begin(connection: Connection, sink: str, now_us: int, before: str) -> int:
    """Since when changes are to be looked at. A sink that is new is told of nothing that is open now.

    ``before`` is what is written in the place of a severity for those incidents.
    """
    c = sinks.c
    row = connection.execute(select(c.looked_us).where(c.sink == sink)).first()
    if row is not None and row.looked_us > now_us - FORGOTTEN_AFTER_US:
        return int(row.looked_us)
    if row is not None:
        connection.execute(delete(sinks).where(c.sink == sink, c.looked_us == row.looked_us))
    row_of_it = insert_new(sinks, connection.dialect.name).values(sink=sink, first_us=now_us, looked_us=now_us)
    if connection.execute(row_of_it.returning(c.sink)).first() is not None:
        _pass_over(connection, sink, now_us, before)
    return now_us


def _pass_over(connection: Connection, sink: str, now_us: int, before: str) -> None:
    i, d = incidents.c, deliveries.c
    columns = ["tenant_id", "run_id", "incident_id", "sink", "state", "noted_us", "told", "num_tries", "since_us"]
    names: list[Any] = [literal(sink), literal(SKIPPED), i.changed_us, literal(before), literal(0), literal(now_us)]
    known = and_(
        d.tenant_id == i.tenant_id, d.run_id == i.run_id, d.incident_id == i.incident_id, d.sink == literal(sink)
    )
    query = (
        select(i.tenant_id, i.run_id, i.incident_id, *names)
        .select_from(incidents.outerjoin(deliveries, known))
        .where(i.cleared_us.is_(None), d.sink.is_(None))
    )
    connection.execute(insert(deliveries).from_select(columns, query))


def num_changed(connection: Connection, sink: str, since_us: int) -> int:
    """How many incidents have changed since and are not noted, of at most 500."""
    return len(connection.execute(_changed(sink, since_us)).all())


def note(connection: Connection, sink: str, since_us: int, now_us: int) -> int:
    """Bring the sink's rows in line with what has changed since; how many that were, of at most 500 at a time."""
    changed = connection.execute(_changed(sink, since_us)).all()
    new = [_new_row(row, sink, now_us) for row in changed if row.state is None]
    if new:
        connection.execute(insert_new(deliveries, connection.dialect.name), new)
    old = [
        {"t": row.tenant_id, "r": row.run_id, "i": row.incident_id, "noted": row.changed_us}
        for row in changed
        if row.state is not None
    ]
    if old:
        connection.execute(_renote(sink, now_us), old)
    return len(changed)


def _changed(sink: str, since_us: int) -> Select[Any]:
    i, d = incidents.c, deliveries.c
    known = and_(
        d.tenant_id == i.tenant_id, d.run_id == i.run_id, d.incident_id == i.incident_id, d.sink == literal(sink)
    )
    return (
        select(i.tenant_id, i.run_id, i.incident_id, i.changed_us, d.state)
        .select_from(incidents.outerjoin(deliveries, known))
        .where(i.changed_us >= since_us, or_(d.noted_us.is_(None), d.noted_us < i.changed_us))
        .order_by(i.changed_us, i.tenant_id, i.run_id, i.incident_id)
        .limit(_AT_ONCE)
    )


def _new_row(row: Any, sink: str, now_us: int) -> dict[str, Any]:
    return {
        "tenant_id": row.tenant_id,
        "run_id": row.run_id,
        "incident_id": row.incident_id,
        "sink": sink,
        "state": WAITING,
        "noted_us": row.changed_us,
        "num_tries": 0,
        "since_us": now_us,
        "next_try_us": now_us,
    }


def _renote(sink: str, now_us: int) -> Any:
    """What waits goes on waiting for its next try; everything else is looked at now."""
    d = deliveries.c
    waits = d.state == WAITING
    may_have_arrived = or_(waits, d.state == DEAD)  # so that who tries next looks for it
    return (
        update(deliveries)
        .where(
            d.tenant_id == bindparam("t"),
            d.run_id == bindparam("r"),
            d.incident_id == bindparam("i"),
            d.sink == sink,
            d.noted_us < bindparam("noted"),
        )
        .values(
            noted_us=bindparam("noted"),
            state=WAITING,
            num_tries=case((may_have_arrived, d.num_tries), else_=0),
            since_us=case((waits, d.since_us), else_=now_us),
            next_try_us=case((waits, d.next_try_us), else_=now_us),
            error=case((waits, d.error), else_=null()),
        )
    )


def looked(connection: Connection, sink: str, looked_us: int) -> None:
    """Write down that everything that changed before is noted."""
    connection.execute(
        update(sinks).where(sinks.c.sink == sink, sinks.c.looked_us < looked_us).values(looked_us=looked_us)
    )


def num_due(connection: Connection, sink: str, now_us: int) -> int:
    """How many rows of the sink are to be looked at now."""
    return int(connection.execute(select(func.count()).select_from(deliveries).where(*_due(sink, now_us))).scalar_one())


def due(connection: Connection, sink: str, now_us: int, limit: int) -> list[tuple[Delivery, str]]:
    """Rows to be looked at now, each with its tenant's name, locked until the end of this transaction.

    Those that another collector has locked are passed over.
    """
    query = (
        select(deliveries, tenants.c.name.label("tenant_name"))
        .join(tenants, tenants.c.tenant_id == deliveries.c.tenant_id)
        .where(*_due(sink, now_us))
        .order_by(deliveries.c.next_try_us)
        .limit(limit)
        .with_for_update(skip_locked=True, of=deliveries)
    )
    return [(_delivery(row), row.tenant_name) for row in connection.execute(query)]


def _due(sink: str, now_us: int) -> list[Any]:
    d = deliveries.c
    return [
        d.state.in_((WAITING, SENT, SKIPPED)),
        d.next_try_us <= now_us,
        d.sink == sink,
        or_(d.claimed_until_us.is_(None), d.claimed_until_us <= now_us),
    ]


def take(connection: Connection, delivery: Delivery, holder: str, now_us: int, until_us: int) -> Delivery:
    """Claim a row that ``due`` gave, and count a try; the row as it is now."""
    changes: dict[str, Any] = {
        "state": WAITING,
        "num_tries": delivery.num_tries + 1,
        "since_us": delivery.since_us if delivery.state == WAITING else now_us,
        "next_try_us": now_us,
    }
    _update(connection, delivery.key, **changes, claimed_by=holder, claimed_until_us=until_us)
    values = {name: getattr(delivery, name) for name in Delivery.__slots__} | changes
    return Delivery(**values)


def leave(connection: Connection, delivery: Delivery, state: str, error: str | None, next_us: int | None) -> None:
    """Close a row without telling anything: ``SENT`` if all is told, ``SKIPPED`` with the reason if it isn't to be."""
    _update(connection, delivery.key, state=state, error=_short(error), next_try_us=next_us)


def sent(
    connection: Connection,
    delivery: Delivery,
    holder: str,
    *,
    changed_us: int,
    told: str,
    remote_id: str | None,
    now_us: int,
) -> bool:
    """Write down what was told. What has changed meanwhile is due at once. False if the claim was lost."""
    d = deliveries.c
    has_changed = d.noted_us > changed_us
    return _close(
        connection,
        delivery.key,
        holder,
        state=case((has_changed, WAITING), else_=SENT),
        next_try_us=now_us,  # the next look decides whether there is more
        since_us=now_us,
        sent_us=changed_us,
        told=told,
        told_at_us=now_us,
        remote_id=column_text(remote_id, 200),
        num_tries=0,  # and 0 for as long as all is told: what failed before this is of no more interest
        error=None,
    )


def failed(connection: Connection, delivery: Delivery, holder: str, error: str, next_us: int | None) -> bool:
    """Write down that a try failed; it is given up if there is no next one. False if the claim was lost."""
    state = DEAD if next_us is None else WAITING
    return _close(connection, delivery.key, holder, state=state, error=_short(error), next_try_us=next_us)


def _close(connection: Connection, key: DeliveryKey, holder: str, **values: Any) -> bool:
    return _update(connection, key, deliveries.c.claimed_by == holder, **values) == 1


def _update(connection: Connection, key: DeliveryKey, *conditions: Any, **values: Any) -> int:
    cleared = {"claimed_by": None, "claimed_until_us": None}
    return connection.execute(update(deliveries).where(*_is(key), *conditions).values(cleared | values)).rowcount


def _is(key: DeliveryKey) -> list[Any]:
    d = deliveries.c
    return [
        d.tenant_id == key.run.tenant_id,
        d.run_id == key.run.run_id,
        d.incident_id == key.incident_id,
        d.sink == key.sink,
    ]


def _short(error: str | None) -> str | None:
    return column_text(error, _MAX_ERROR)


def standing(connection: Connection, sink: str) -> Standing:
    """How the sink's queue is."""
    d = deliveries.c
    query = (
        select(d.state, func.count(), func.min(d.since_us))
        .where(d.sink == sink, d.state.in_((WAITING, DEAD)))
        .group_by(d.state)
    )
    found = {row[0]: (int(row[1]), row[2]) for row in connection.execute(query)}
    num_waiting, oldest_us = found.get(WAITING, (0, None))
    return Standing(num_waiting, oldest_us, found.get(DEAD, (0, None))[0])


@dataclass(frozen=True, slots=True)
class Listed:
    """A row with what people know it by."""

    delivery: Delivery
    run: str
    detector: str
    severity: str
    summary: str


def read_deliveries(
    connection: Connection,
    limit: int,
    *,
    states: Sequence[str] | None = None,
    sink: str | None = None,
    id_prefix: str | None = None,
) -> list[Listed]:
    """Rows of all tenants, those that changed last first."""
    d, i = deliveries.c, incidents.c
    of_incident = and_(d.tenant_id == i.tenant_id, d.run_id == i.run_id, d.incident_id == i.incident_id)
    of_run = and_(runs.c.tenant_id == i.tenant_id, runs.c.run_id == i.run_id)
    query = select(deliveries, runs.c.name.label("run_name"), i.detector, i.severity, i.summary)
    query = query.select_from(deliveries.join(incidents, of_incident).join(runs, of_run))
    if states is not None:
        query = query.where(d.state.in_(states))
    if sink is not None:
        query = query.where(d.sink == sink)
    if id_prefix is not None:
        query = query.where(d.incident_id.startswith(id_prefix, autoescape=True))
    query = query.order_by(d.noted_us.desc(), d.incident_id, d.sink).limit(limit)
    return [
        Listed(_delivery(row), row.run_name, row.detector, row.severity, row.summary)
        for row in connection.execute(query)
    ]


def retry(connection: Connection, keys: Iterable[DeliveryKey], now_us: int) -> int:
    """Let these that were given up, or wait, be tried now and from the beginning; how many that are."""
    num = 0
    for key in keys:
        num += connection.execute(
            update(deliveries)
            .where(*_is(key), deliveries.c.state.in_((DEAD, WAITING)))
            .values(state=WAITING, since_us=now_us, next_try_us=now_us)
        ).rowcount
    return num


def _delivery(row: Row[Any]) -> Delivery:
    key = DeliveryKey(RunKey(row.tenant_id, row.run_id), row.incident_id, row.sink)
    return Delivery(key, *(getattr(row, name) for name in Delivery.__slots__[1:]))
