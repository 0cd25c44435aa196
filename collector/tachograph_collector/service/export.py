"""``/v1/runs/{run}/events``: every event that is stored of a run, as JSON lines, so that a replay books it anew.

Events come in the order in which they were stored. Memory is bounded whatever the run's length: a page, or a piece of
the stream, is read for itself. Rows that are packed together while one reads may come twice, in a later page; none is
left out, and equal events count once in a replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from sqlalchemy import Connection, and_, func, select
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from tachograph_agent.events import encode

from tachograph_collector.service.asking import Reader, asked
from tachograph_collector.service.described import problem
from tachograph_collector.service.run_names import QueryRoute, RunName
from tachograph_collector.service.state import service_of
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.prunings import prunings_of
from tachograph_collector.store.reader import events_after
from tachograph_collector.store.schema import events, leases, runs, samples

router = APIRouter(prefix="/v1", tags=["runs"], route_class=QueryRoute)

MEDIA_TYPE: Final = "application/x-ndjson"
NEXT: Final = "Tachograph-Next"
LAST_SEQ: Final = "Tachograph-Last-Seq"
FOLDED_SEQ: Final = "Tachograph-Folded-Seq"
ORIGIN: Final = "Tachograph-Origin"
PRUNED: Final = "Tachograph-Pruned"
MAX_LIMIT: Final = 100_000
PIECE_EVENTS: Final = 5_000
"""Events of one piece of the stream, about; a row holds a thousand steps or one event."""
MAX_ROWS: Final = 1_000

_DESCRIBED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events, one JSON object a line.",
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": '{"kind":"run.start","t":1772323200.0,"run":"llama/70b","world_size":2048}\n',
            }
        },
        "headers": {
            NEXT: {"description": "With `limit`: the `after` of the next page.", "schema": {"type": "string"}},
            LAST_SEQ: {"description": "The newest event's sequence number.", "schema": {"type": "integer"}},
            FOLDED_SEQ: {"description": "The books stand as of this one.", "schema": {"type": "integer"}},
            ORIGIN: {"description": "`live`, `replay` or `rehearsal`.", "schema": {"type": "string"}},
            PRUNED: {"description": "What kinds are no longer all there.", "schema": {"type": "string"}},
        },
    },
    **{status: problem(status) for status in (401, 403, 404, 422, 429, 503)},
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events of a run as lines, and where they end."""

    lines: bytes
    num_events: int
    last_seq: int
    is_last: bool
    """Nothing lies behind it, as of when it was read."""


@router.get("/runs/{run}/events", summary="The events of a run", response_class=Response, responses=_DESCRIBED)
async def stored_events(
    request: Request,
    run: RunName,
    access: Reader,
    after: Annotated[int, Query(ge=0, le=2**62, description="Begin behind this sequence number.")] = 0,
    limit: Annotated[
        int | None,
        Query(
            ge=1,
            le=MAX_LIMIT,
            description=f"One page of about this many events; the header {NEXT} says where the next begins. "
            "Without it all events come, in one stream.",
        ),
    ] = None,
) -> Response:
    """Every event stored of the run, in the order in which they were stored, unknown fields and kinds included."""
    database = service_of(request).database
    key, headers = await asyncio.to_thread(_found, request, access, run)
    if limit is None:
        first = await asyncio.to_thread(read_piece, database, key, after, PIECE_EVENTS)  # before the status is sent
        return StreamingResponse(_stream(database, key, first), headers=headers, media_type=MEDIA_TYPE)
    page = await asyncio.to_thread(read_piece, database, key, after, limit)
    if not page.is_last:
        headers[NEXT] = str(page.last_seq)
    return Response(page.lines, 200, headers, MEDIA_TYPE)


def _found(request: Request, access: Reader, run: str) -> tuple[RunKey, dict[str, str]]:
    """The run, its origin, and how far it is stored and booked."""
    with asked(request, access) as ask:
        key = ask.key(run)
        assert key is not None, "an unknown run is a Problem"
        of_run = and_(leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id)
        query = (
            select(runs.c.last_seq, runs.c.origin, leases.c.folded_seq)
            .outerjoin_from(runs, leases, of_run)
            .where(runs.c.tenant_id == key.tenant_id, runs.c.run_id == key.run_id)
        )
        last_seq, origin, folded_seq = ask.connection.execute(query).one()
        pruned = [each.kind for each in prunings_of(ask.connection, key)]
    headers = {LAST_SEQ: str(last_seq), FOLDED_SEQ: str(folded_seq or 0), ORIGIN: str(origin)}
    return key, headers | ({PRUNED: ", ".join(pruned)} if pruned else {})


async def _stream(database: Database, key: RunKey, piece: Piece) -> AsyncIterator[bytes]:
    while True:
        yield piece.lines
        if piece.is_last:
            return
        piece = await asyncio.to_thread(read_piece, database, key, piece.last_seq, PIECE_EVENTS)


def read_piece(database: Database, key: RunKey, after: int, num_events: int) -> Piece:
    """About ``num_events`` events behind ``after``: whole rows, so at most one row more."""
    lines: list[bytes] = []
    last_seq = after
    with database.read() as connection:
        while len(lines) < num_events:
            num_rows = _num_rows(connection, key, last_seq, num_events - len(lines))
            rows = events_after(connection, key, last_seq, num_rows)
            for row in rows:
                lines += [encode(event) for event in row.events]
                last_seq = row.seq
            if len(rows) < num_rows:
                return Piece(_joined(lines), len(lines), last_seq, is_last=True)
    return Piece(_joined(lines), len(lines), last_seq, is_last=False)


def _num_rows(connection: Connection, key: RunKey, after: int, wanted: int) -> int:
    """How many of the next rows hold ``wanted`` events, the last of them crossing it; a row is one or ten thousand."""
    most = min(MAX_ROWS, wanted)
    of_samples = (samples.c.tenant_id == key.tenant_id, samples.c.run_id == key.run_id, samples.c.seq > after)
    sizes = select(samples.c.seq, samples.c.num).where(*of_samples).order_by(samples.c.seq).limit(most)
    num_events = 0
    for index, (seq, num) in enumerate(connection.execute(sizes), start=1):
        num_events += num
        if num_events >= wanted:
            of_events = (events.c.tenant_id == key.tenant_id, events.c.run_id == key.run_id)
            before = select(events.c.seq).where(*of_events, events.c.seq > after, events.c.seq < seq).limit(most)
            between = connection.execute(select(func.count()).select_from(before.subquery())).scalar_one()
            return min(most, index + int(between))
    return most


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join([*lines, b""]) if lines else b""
