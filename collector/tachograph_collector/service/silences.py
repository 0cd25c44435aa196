"""``/v1/silences``: of which incidents nobody is to be told, and until when.

Incidents that are silenced are found and recorded as any; sinks leave them out while the silence holds. To make and to
end one takes ``operate``; a token that may write to some runs only can silence those alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.detect.names import misspelt
from tachograph_collector.report.text import seconds_or_none
from tachograph_collector.service import incident_examples as examples
from tachograph_collector.service import incident_shapes as shapes
from tachograph_collector.service.access import Access
from tachograph_collector.service.asking import Reader, asked, table_answer
from tachograph_collector.service.described import Responses, answers, problem
from tachograph_collector.service.formats import AskedFormat, Column, Table
from tachograph_collector.service.incidents import TOO_LARGE, Operator, author_of
from tachograph_collector.service.paging import AskedPage, next_page
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import QueryRoute
from tachograph_collector.service.sent import sent, takes
from tachograph_collector.service.state import service_of
from tachograph_collector.service.times import time_us
from tachograph_collector.service.units import seconds_of
from tachograph_collector.store.silences import Silence, add_silence, end_silence, find_silences, read_silences
from tachograph_collector.store.tokens import LATEST_US

router = APIRouter(prefix="/v1", tags=["incidents"], route_class=QueryRoute)

SilenceId = Annotated[
    str,
    Path(
        description="The silence's id, or the beginning of it (at least four characters).",
        pattern="^[0-9a-f]{4,32}$",
        examples=["8c2b1a09"],
    ),
]
_NUM_LIKE: Final = 5
_NONE: Final = problem(
    404,
    example={
        "type": "about:blank",
        "title": "No such silence",
        "status": 404,
        "detail": "there is no silence '8c2b1a09'; /v1/silences lists those there are",
    },
)
_LIKE_OTHERS: Final = problem(
    409,
    example={
        "type": "about:blank",
        "title": "Several silences",
        "status": 409,
        "detail": "'8c2b' is the beginning of 8c2b1a09f7e6d5c4 and 8c2b77aa; give more of the one that is meant",
    },
)


def _described(status: int) -> Responses:
    described = answers(shapes.SilenceShape, examples.SILENCE, as_table=False, of_run=False)
    answer = described.pop(200)
    del described[304]
    return {status: answer, **described}


@router.get("/silences", summary="Silences", responses=answers(shapes.Silences, examples.SILENCES, of_run=False))
def list_silences(
    request: Request,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    over: Annotated[bool | None, Query(description="Only those that hold no longer, or only the others.")] = None,
) -> Response:
    """The silences, the newest first; those that are over, too, unless `over=false`."""
    after = page.after(int, str)
    with asked(request, access) as ask:
        at_us = service_of(request).database.now_us(ask.connection)
        place = None if after is None else (after[0], after[1].replace("\0", ""))
        rows = read_silences(ask.connection, ask.tenant_id, page.limit + 1, place, is_over=over, at_us=at_us)
    more, rows = len(rows) > page.limit, rows[: page.limit]
    next_url = next_page(request, (rows[-1].created_us, rows[-1].silence_id)) if more else None
    return table_answer(request, form, {}, "silences", _table(rows, at_us), next_url)


@router.post(
    "/silences",
    summary="Silence incidents",
    status_code=201,
    responses={**_described(201), 413: TOO_LARGE},
    openapi_extra=takes(shapes.SentSilence, examples.SENT_SILENCE),
)
async def silence_incidents(request: Request, access: Operator) -> Response:
    """Let nobody be told of incidents that fit all that is given, for a time. They are recorded all the same."""
    told = await sent(request, shapes.SentSilence)
    return await run_in_threadpool(_add, request, access, told)


@router.delete(
    "/silences/{silence}",
    summary="End a silence",
    responses={**_described(200), 404: _NONE, 409: _LIKE_OTHERS},
)
def end_one(request: Request, silence: SilenceId, access: Operator) -> Response:
    """Take a silence back before its time. One that is over already stays as it was."""
    database = service_of(request).database
    with database.write() as connection:
        now_us = database.now_us(connection)
        found = _only(find_silences(connection, access.tenant_id, silence, _NUM_LIKE), silence)
        _check_runs(access, found.run_pattern)
        end_silence(connection, access.tenant_id, found.silence_id, now_us=now_us)
        (ended,) = find_silences(connection, access.tenant_id, found.silence_id, 1)
    return _answer(200, ended, now_us)


def _add(request: Request, access: Access, told: shapes.SentSilence) -> Response:
    if told.run is told.detector is told.subject is told.node is None:
        raise Problem(
            422, "Silences everything", "name a run, detector, subject or node; to silence all there is, say run '*'"
        )
    if told.detector is not None and (wrong := misspelt(told.detector)) is not None:
        raise Problem(422, "Unknown detector", wrong)
    _check_runs(access, told.run)
    database = service_of(request).database
    with database.write() as connection:
        now_us = database.now_us(connection)
        from_us, until_us = _times(told, now_us)
        silence = add_silence(
            connection,
            access.tenant_id,
            run_pattern=told.run,
            detector=told.detector,
            subject=told.subject,
            node=told.node,
            from_us=from_us,
            until_us=until_us,
            author=author_of(access, told.author),
            why=told.why,
            now_us=now_us,
            silence_id=told.id,
        )
    return _answer(201, silence, now_us)


def _times(told: shapes.SentSilence, now_us: int) -> tuple[int, int]:
    """From when until when. Raises ``Problem`` 422 for times that are none, and for a silence that is over."""
    from_us = now_us if told.since is None else time_us(_text(told.since), "from")
    if (told.until is None) == (told.lasts is None):
        raise Problem(422, "Invalid time", "a silence needs an end: give one of until (a time) and for (such as '2h')")
    if told.until is not None:
        until_us = time_us(_text(told.until), "until")
    else:
        assert told.lasts is not None
        try:
            until_us = from_us + round(seconds_of(told.lasts) * 1e6)
        except ValueError as error:
            raise Problem(422, "Invalid time", f"for={shown(told.lasts)}: {error}") from error
    if until_us <= max(from_us, now_us):
        raise Problem(422, "Invalid time", "such a silence is over before it begins; give a later end")
    if until_us > LATEST_US:
        raise Problem(422, "Invalid time", "a silence ends before the year 10000; give a shorter time")
    return from_us, until_us


def _text(told: str | float) -> str:
    return told if isinstance(told, str) else f"{told:.6f}" if isinstance(told, float) else str(told)


def _check_runs(access: Access, run_pattern: str | None) -> None:
    """Raises ``Problem`` 403 where the silence may be about runs that the token may not write to."""
    if access.run_patterns is None:
        return
    if run_pattern is None or not any(is_within(run_pattern, each) for each in access.run_patterns):
        allowed = ", ".join(map(shown, access.run_patterns))
        raise Problem(
            403, "Not allowed", f"this token may write to runs {allowed} only; name a run or pattern among them"
        )


def is_within(inner: str, outer: str) -> bool:
    """Whether every name that fits the pattern ``inner`` surely fits ``outer``; False where that isn't plain to see."""
    if inner == outer:
        return True
    if not set("*?[") & set(inner):
        return fnmatchcase(inner, outer)
    # With no more than stars in the outer one, what stands for the inner one's wildcards lies within those.
    return not set("?[") & set(outer) and "[" not in inner and fnmatchcase(inner, outer)


def _only(found: Sequence[Silence], id_prefix: str) -> Silence:
    if not found:
        detail = f"there is no silence {shown(id_prefix)}; /v1/silences lists those there are"
        raise Problem(404, "No such silence", detail)
    exact = [each for each in found if each.silence_id == id_prefix]
    if len(found) > 1 and not exact:
        like = ", ".join(each.silence_id for each in found)
        detail = f"{shown(id_prefix)} is the beginning of {like}; give more of the one that is meant"
        raise Problem(409, "Several silences", detail)
    return (exact or found)[0]


def _answer(status: int, silence: Silence, at_us: int) -> Response:
    body = msgspec.json.encode(_object(silence, at_us))
    return Response(body, status, {"Cache-Control": "no-store"}, "application/json")


def _object(silence: Silence, at_us: int) -> dict[str, Any]:
    return {
        "silence_id": silence.silence_id,
        "state": silence.state(at_us),
        "run": silence.run_pattern,
        "detector": silence.detector,
        "subject": silence.subject,
        "node": silence.node,
        "from": silence.from_us / 1e6,
        "until": silence.until_us / 1e6,
        "author": silence.author,
        "why": silence.why,
        "created_at": silence.created_us / 1e6,
        "ended_at": seconds_or_none(silence.ended_us),
    }


def _table(rows: Sequence[Silence], at_us: int) -> Table:
    told = [_object(row, at_us) for row in rows]
    times = {"from": "from_us", "until": "until_us", "created_at": "created_us", "ended_at": "ended_us"}
    names = [field.alias or name for name, field in shapes.SilenceShape.model_fields.items()]
    return [
        Column(name, "time", [getattr(row, times[name]) for row in rows])
        if name in times
        else Column(name, "text", [each[name] for each in told])
        for name in names
    ]
