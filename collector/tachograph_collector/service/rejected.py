"""``GET /v1/rejected``: the lines that were refused, with the reason, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field
from sqlalchemy import select, tuple_
from starlette.requests import Request

from tachograph_collector.service.access import Access, require
from tachograph_collector.service.described import problem
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import QueryRoute
from tachograph_collector.service.state import service_of
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import rejected as table

router = APIRouter(tags=["ingest"], route_class=QueryRoute)


class RejectedLine(BaseModel):
    """One line that was no event."""

    received_at_unix_seconds: float = Field(examples=[1760000042.125])
    batch: str = Field(examples=["9f2d0c1e5b7a4c3d8e6f001122334455"])
    agent: str | None = Field(examples=["node-017/0.1.0"])
    line_number: int = Field(examples=[3])
    reason: str = Field(examples=["step: 't' is 5 (1970-01-01); set that node's clock"])
    line: str = Field(description="Its first 4 KiB; bytes that are no UTF-8 are shown as U+FFFD.")


class RejectedLines(BaseModel):
    """A page of them."""

    rejected: list[RejectedLine]
    next: str | None = Field(description="`before` of the next page; null: there is none.")


@router.get(
    "/v1/rejected",
    summary="Lines that were refused, newest first",
    responses={status: problem(status) for status in (401, 403, 422, 503)},
)
async def rejected_lines(
    request: Request,
    access: Annotated[Access, Depends(require("read"))],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str | None, Query(description="`next` of the page before.", max_length=50)] = None,
) -> RejectedLines:
    """What came in a batch and was no event: whose it was, why, and the line itself.

    Kept for `--keep-rejected`; of one batch the first thousand.
    """
    return await run_in_threadpool(
        _page, service_of(request).database, access.tenant_id, limit, None if before is None else _place(before)
    )


def _place(text: str) -> tuple[int, int]:
    received, _, identity = text.partition(".")
    if not (received.isascii() and received.isdigit() and identity.removeprefix("-").isdigit() and identity.isascii()):
        raise Problem(422, "Invalid value", f"before is {shown(text)}; expected 'next' of a page of this route")
    place = (int(received), int(identity))
    if max(map(abs, place)) >= 2**63:
        raise Problem(422, "Invalid value", f"before is {shown(text)}; expected 'next' of a page of this route")
    return place


def _page(database: Database, tenant_id: int, limit: int, before: tuple[int, int] | None) -> RejectedLines:
    at = (table.c.received_us, table.c.rejected_id)
    query = select(table).where(table.c.tenant_id == tenant_id)
    if before is not None:
        query = query.where(tuple_(*at) < tuple_(*before))
    query = query.order_by(*(column.desc() for column in at)).limit(limit + 1)
    with database.read() as connection:
        rows: list[Any] = list(connection.execute(query))
    last = rows[limit - 1] if len(rows) > limit else None
    return RejectedLines(
        rejected=[
            RejectedLine(
                received_at_unix_seconds=row.received_us / 1e6,
                batch=row.batch_id,
                agent=row.agent,
                line_number=row.line_number,
                reason=row.reason,
                line=bytes(row.line).decode("utf-8", "replace"),
            )
            for row in rows[:limit]
        ],
        next=None if last is None else f"{last.received_us}.{last.rejected_id}",
    )
