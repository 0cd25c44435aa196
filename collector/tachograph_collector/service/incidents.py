"""``/v1/incidents``: what was flagged in all runs or in one, and what operators say of it.

To read takes ``read``; to acknowledge and annotate takes ``operate``, for runs that the token may write to. An incident
is named by its id or by the beginning of it, as long as no other begins so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.detect.names import misspelt
from tachograph_collector.report.model import Window
from tachograph_collector.service import incident_examples as examples
from tachograph_collector.service import incident_shapes as shapes
from tachograph_collector.service.access import Access, require
from tachograph_collector.service.asking import Reader, asked, json_answer, table_answer
from tachograph_collector.service.described import Responses, answers, problem
from tachograph_collector.service.formats import AskedFormat, Column, Format, Kind, Table
from tachograph_collector.service.incident_shapes import OriginName, SeverityName
from tachograph_collector.service.paging import AskedPage, Page, next_page
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import QueryRoute, RunName
from tachograph_collector.service.sent import sent, takes
from tachograph_collector.service.state import service_of
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_object import stored_object
from tachograph_collector.store.incident_reader import (
    IncidentFilter,
    IncidentPlace,
    StoredIncident,
    find_incidents,
    place_of,
    read_incidents,
    read_notes,
    read_sights,
)
from tachograph_collector.store.incident_writer import acknowledge, add_note, unacknowledge
from tachograph_collector.store.keys import RunKey

router = APIRouter(prefix="/v1", tags=["incidents"], route_class=QueryRoute)

Operator = Annotated[Access, Depends(require("operate"))]
UNNAMED: Final = "unknown"
MAX_A_PAGE: Final = 10_000
_NUM_LIKE: Final = 5

IncidentId = Annotated[
    str,
    Path(
        description="The incident's id, or the beginning of it (at least four characters).",
        pattern="^[0-9A-Za-z]{4,40}$",
        examples=["4f1c2d0b"],
    ),
]
Detectors = Annotated[
    list[Annotated[str, Query(max_length=50)]] | None,
    Query(description="Only those of this detector; may be repeated.", max_length=100),
]
Severities = Annotated[list[SeverityName] | None, Query(description="Only those of this severity; may be repeated.")]
Origins = Annotated[list[OriginName] | None, Query(description="Only those of runs of this origin; may be repeated.")]
OfNode = Annotated[str | None, Query(description="Only those that are about this node.", max_length=1_000)]
IsOpen = Annotated[bool | None, Query(alias="open", description="Only those that are open, or that are not.")]
RunPattern = Annotated[
    str | None,
    Query(
        alias="run",
        description="Only those of runs of this name; `*` and `?` stand for any characters and any one.",
        max_length=1_000,
    ),
]


# -- lists ----------------------------------------------------------------------------------------------------------


@router.get(
    "/incidents", summary="Incidents of all runs", responses=answers(shapes.Incidents, examples.INCIDENTS, of_run=False)
)
def list_incidents(
    request: Request,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    run: RunPattern = None,
    detector: Detectors = None,
    severity: Severities = None,
    origin: Origins = None,
    node: OfNode = None,
    is_open: IsOpen = None,
) -> Response:
    """What was flagged, what began last first; with a window, what was open at any time in it.

    At most 10,000 a page.
    """
    which = _which(window, detector, severity, node, is_open, run_pattern=run, origins=origin)
    return _list(request, access, form, page, {}, lambda _: which)


@router.get(
    "/runs/{run}/incidents",
    summary="Incidents of a run",
    responses=answers(shapes.RunIncidents, examples.RUN_INCIDENTS),
)
def run_incidents(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    detector: Detectors = None,
    severity: Severities = None,
    node: OfNode = None,
    is_open: IsOpen = None,
) -> Response:
    """What was flagged in one run, what began last first; with a window, what was open at any time in it."""
    which = _which(window, detector, severity, node, is_open)
    return _list(request, access, form, page, {"run": run}, lambda key: replace(which, run=key(run)))


@router.get("/runs/{run}/sights", summary="What its detectors see", responses=answers(shapes.Sights, examples.SIGHTS))
def sights(request: Request, run: RunName, access: Reader, form: AskedFormat) -> Response:
    """How well each detector sees the run: whether it is armed, and what it lacks where it is not."""
    with asked(request, access) as ask:
        rows = read_sights(ask.connection, ask.key(run))
    table = [
        Column("detector", "text", [row.detector for row in rows]),
        Column("state", "text", [row.state for row in rows]),
        Column("reason", "text", [row.reason for row in rows]),
        Column("evaluations", "int", [row.num_evaluations for row in rows]),
        Column("verdicts", "int", [row.num_verdicts for row in rows]),
        Column("at", "time", [row.at_us for row in rows]),
    ]
    return table_answer(request, form, {"run": run}, "sights", table)


def _which(
    window: Window,
    detectors: list[str] | None,
    severities: list[SeverityName] | None,
    node: str | None,
    is_open: bool | None,
    **more: Any,
) -> IncidentFilter:
    told = [*(detectors or ()), node or "", more.get("run_pattern") or ""]
    if any("\0" in each for each in told):
        raise Problem(422, "Invalid name", "a name has a character 0, which no run, detector or node has")
    for name in detectors or ():
        if (wrong := misspelt(name)) is not None:
            raise Problem(422, "Unknown detector", wrong)
    return IncidentFilter(
        detectors=detectors,
        severities=severities,
        node=node,
        is_open=is_open,
        since_us=window.since_us,
        until_us=window.until_us,
        **more,
    )


def _list(
    request: Request,
    access: Access,
    form: Format,
    page: Page,
    head: dict[str, Any],
    which: Callable[[Callable[[str], RunKey]], IncidentFilter],
) -> Response:
    after = page.after(int, int, str)
    limit = min(page.limit, MAX_A_PAGE)
    with asked(request, access) as ask:
        place = None if after is None else IncidentPlace(after[0], after[1], after[2].replace("\0", ""))
        at_us = service_of(request).database.now_us(ask.connection)
        rows = read_incidents(ask.connection, ask.tenant_id, which(ask.key), limit + 1, place, at_us=at_us)
    more, rows = len(rows) > limit, rows[:limit]
    next_url = next_page(request, place_of(rows[-1])) if more else None
    return table_answer(
        request, form, head, "incidents", _table(rows, service_of(request).settings.public_url), next_url
    )


def _table(rows: list[StoredIncident], public_url: str | None) -> Table:
    told = [stored_object(row, public_url) for row in rows]
    kinds: dict[str, Kind] = {"rank": "int", "cost": "json", "evidence": "json", "acknowledged": "json"}
    columns = []
    for name in shapes.Incident.model_fields:
        if name.endswith("_at"):
            us = [getattr(row.incident, f"{name.removesuffix('_at')}_us") for row in rows]
            columns.append(Column(name, "time", us))
        else:
            kind: Kind = "bool" if name.startswith("is_") else kinds.get(name, "text")
            columns.append(Column(name, kind, [each[name] for each in told]))
    return columns


# -- one ------------------------------------------------------------------------------------------------------------

_LIKE_OTHERS: Final = problem(
    409,
    example={
        "type": "about:blank",
        "title": "Several incidents",
        "status": 409,
        "detail": "'4f1c' is the beginning of 4f1c2d0b and 4f1c77aa; give more of the one that is meant",
    },
)
_NONE: Final = problem(
    404,
    example={
        "type": "about:blank",
        "title": "No such incident",
        "status": 404,
        "detail": "there is no incident '4f1c2d0b'; /v1/incidents lists those there are",
    },
)
TOO_LARGE: Final = problem(
    413,
    example={
        "type": "about:blank",
        "title": "Too large",
        "status": 413,
        "detail": "more than 65536 bytes are too much to say here; say less",
    },
)


def _one_described(*, writes: bool) -> Responses:
    described = answers(shapes.OneIncident, examples.ONE_INCIDENT, as_table=False)
    if writes:
        del described[304]
        described[413] = TOO_LARGE
    return {**described, 404: _NONE, 409: _LIKE_OTHERS}


@router.get("/incidents/{incident}", summary="One incident", responses=_one_described(writes=False))
def one_incident(request: Request, incident: IncidentId, access: Reader) -> Response:
    """One incident with its evidence, its cost, and everything that was said of it."""
    service = service_of(request)
    with asked(request, access) as ask:
        stored = _found(ask.connection, service.database, access, incident)
        body = _body(request, ask.connection, stored)
    return json_answer(request, body)


@router.post(
    "/incidents/{incident}/acknowledge",
    summary="Take care of an incident",
    responses=_one_described(writes=True),
    openapi_extra=takes(shapes.SentAcknowledgement, examples.SENT_ACKNOWLEDGEMENT, required=False),
)
async def acknowledge_incident(request: Request, incident: IncidentId, access: Operator) -> Response:
    """Somebody takes care of it. Of one that is acknowledged already only the text, if any, is written down."""
    told = await sent(request, shapes.SentAcknowledgement, may_be_empty=True)

    def say(connection: Connection, stored: StoredIncident, author: str, now_us: int) -> None:
        acknowledge(connection, stored, author=author, text=told.text, now_us=now_us)

    return await run_in_threadpool(_said, request, access, incident, told.author, say)


@router.post(
    "/incidents/{incident}/unacknowledge",
    summary="Take care of an incident no longer",
    responses=_one_described(writes=True),
    openapi_extra=takes(shapes.SentAcknowledgement, {}, required=False),
)
async def unacknowledge_incident(request: Request, incident: IncidentId, access: Operator) -> Response:
    """Nobody takes care of it any longer; that somebody did stays written down."""
    told = await sent(request, shapes.SentAcknowledgement, may_be_empty=True)

    def say(connection: Connection, stored: StoredIncident, author: str, now_us: int) -> None:
        unacknowledge(connection, stored, author=author, text=told.text, now_us=now_us)

    return await run_in_threadpool(_said, request, access, incident, told.author, say)


@router.post(
    "/incidents/{incident}/notes",
    summary="Say something of an incident",
    responses=_one_described(writes=True),
    openapi_extra=takes(shapes.SentNote, examples.SENT_NOTE),
)
async def annotate_incident(request: Request, incident: IncidentId, access: Operator) -> Response:
    """Add words to an incident. They can't be taken back."""
    told = await sent(request, shapes.SentNote)

    def say(connection: Connection, stored: StoredIncident, author: str, now_us: int) -> None:
        add_note(connection, stored, author=author, text=told.text, now_us=now_us, note_id=told.id)

    return await run_in_threadpool(_said, request, access, incident, told.author, say)


def _said(
    request: Request,
    access: Access,
    incident: str,
    author: str | None,
    say: Callable[[Connection, StoredIncident, str, int], None],
) -> Response:
    database = service_of(request).database
    with database.write() as connection:
        stored = _found(connection, database, access, incident)
        if not access.may_write(stored.incident.run):
            raise not_its_run(stored.incident.run)
        say(connection, stored, author_of(access, author), database.now_us(connection))
        exactly = _found(connection, database, access, stored.incident.incident_id)
        body = _body(request, connection, exactly)
    return Response(body, 200, {"Cache-Control": "no-store"}, "application/json")


def author_of(access: Access, told: str | None) -> str:
    """The token's name; where no token is needed, who the sender says it is."""
    return access.name or told or UNNAMED


def not_its_run(run: str) -> Problem:
    """The answer to a token that is good for other runs."""
    return Problem(403, "Not allowed", f"this token may not write to run {shown(run)}; use one whose patterns fit it")


def _found(connection: Connection, database: Database, access: Access, id_prefix: str) -> StoredIncident:
    """The one incident whose id begins so. Raises ``Problem`` 404 for none, 409 for several."""
    at_us = database.now_us(connection)
    found = find_incidents(connection, access.tenant_id, id_prefix, _NUM_LIKE, at_us=at_us)
    if not found:
        detail = f"there is no incident {shown(id_prefix)}; /v1/incidents lists those there are"
        raise Problem(404, "No such incident", detail)
    if len(found) > 1:
        like = ", ".join(one.incident.incident_id for one in found)
        detail = f"{shown(id_prefix)} is the beginning of {like}; give more of the one that is meant"
        raise Problem(409, "Several incidents", detail)
    return found[0]


def _body(request: Request, connection: Connection, stored: StoredIncident) -> bytes:
    notes = read_notes(connection, stored.key, stored.incident.incident_id)
    return msgspec.json.encode(stored_object(stored, service_of(request).settings.public_url, notes))
