"""``/v1/runs``: which runs there are, what became of one, what the model says of it, and whether it is good enough."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.service import examples
from tachograph_collector.service import summary_shapes as shapes
from tachograph_collector.service.asking import (
    Reader,
    asked,
    is_known,
    json_answer,
    table_answer,
    unchanged,
    version_etag,
)
from tachograph_collector.service.described import answers, problem
from tachograph_collector.service.formats import AskedFormat
from tachograph_collector.service.paging import AskedPage, next_page
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_answers import gate, list_object, model_of, runs_table, summary
from tachograph_collector.service.run_names import QueryRoute, RunName
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.store.folded_reader import BooksFilter, BooksPlace, list_books, place_of
from tachograph_collector.store.incident_reader import num_open as num_open_incidents
from tachograph_collector.store.watch_reader import last_heard

router = APIRouter(prefix="/v1", tags=["runs"], route_class=QueryRoute)

StatusName = Literal["running", "completed", "failed", "cancelled", "abandoned"]
OriginName = Literal["live", "replay", "rehearsal"]
MAX_RUNS_A_PAGE: Final = 1_000

Statuses = Annotated[list[StatusName] | None, Query(description="Only runs of this status; may be repeated.")]
Origins = Annotated[list[OriginName] | None, Query(description="Only runs of this origin; may be repeated.")]
NamePattern = Annotated[
    str | None,
    Query(description="Only runs of this name; `*` and `?` stand for any characters and any one.", max_length=1_000),
]


@router.get("/runs", summary="List runs", responses=answers(shapes.RunList, examples.RUN_LIST, of_run=False))
def list_runs(
    request: Request,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    status: Statuses = None,
    origin: Origins = None,
    name: NamePattern = None,
) -> Response:
    """The runs, the latest start first; with a window, those that have any time in it. At most 1,000 a page."""
    after = page.after(int, int, int)
    limit = min(page.limit, MAX_RUNS_A_PAGE)
    if name is not None and "\0" in name:
        raise Problem(422, "Invalid name", f"name={shown(name)} has a character 0, which no run's name has")
    which = BooksFilter(status, origin, name, window.since_us, window.until_us)
    with asked(request, access) as ask:
        place = None if after is None else BooksPlace(*after)
        rows = list_books(ask.connection, ask.tenant_id, which, limit + 1, place)
        run_ids = [row.key.run.run_id for row in rows]
        heard = last_heard(ask.connection, ask.tenant_id, run_ids)
        num_open = num_open_incidents(ask.connection, ask.tenant_id, run_ids)
    more, rows = len(rows) > limit, rows[:limit]
    next_url = next_page(request, place_of(rows[-1])) if more else None
    told = [
        list_object(row, heard.get(row.key.run.run_id, row.now_us), num_open.get(row.key.run.run_id, 0)) for row in rows
    ]
    return table_answer(request, form, {}, "runs", runs_table(told), next_url)


@router.get(
    "/runs/{run}", summary="One run's summary", responses=answers(shapes.Summary, examples.SUMMARY, as_table=False)
)
def one_run(
    request: Request,
    run: RunName,
    access: Reader,
    window: AskedWindow,
    judge: Annotated[bool, Query(description="Hold the run against the checkpoint model, as `--judge` does.")] = False,
    records: Annotated[
        bool, Query(description="With `false`, without its attempts, interruptions and saves: thousands, in a month.")
    ] = True,
) -> Response:
    """The run with the keys of one entry of `replay --json`, and `stored`: as of when, and its version.

    With a window, the run as seen through it.
    """
    with asked(request, access) as ask:
        stored = ask.books(run)
        etag = version_etag(stored)
        if is_known(request, etag):
            return unchanged(etag)
        if window.since_us is None and window.until_us is None:
            name = "summary with model" if judge else "summary"
            name += "" if records else " without records"
            body = ask.cache.made(
                name, stored, lambda: summary(ask, stored, window, with_model=judge, with_records=records)
            )
        else:
            body = summary(ask, stored, window, with_model=judge, with_records=records)
    return json_answer(request, body, etag)


@router.get(
    "/runs/{run}/model",
    summary="A run held against the checkpoint model",
    responses=answers(shapes.ModelAnswer, examples.MODEL_ANSWER, as_table=False),
)
def model(request: Request, run: RunName, access: Reader, window: AskedWindow) -> Response:
    """What the model says of the run or of a window of it: `model` of `replay --json --judge`."""
    with asked(request, access) as ask:
        stored = ask.books(run)
        etag = version_etag(stored)
        if is_known(request, etag):
            return unchanged(etag)
        told = model_of(ask, stored, window)
    answer = {"run": stored.books.run, "version": stored.version, "model": told}
    return json_answer(request, msgspec.json.encode(answer), etag)


@router.get(
    "/runs/{run}/gate",
    summary="Is its goodput good enough?",
    responses={
        **answers(shapes.Gate, examples.GATE, as_table=False),
        409: problem(409, shapes.GateClosed, examples.GATE_CLOSED),
    },
)
def gated(
    request: Request,
    run: RunName,
    access: Reader,
    window: AskedWindow,
    min_goodput: Annotated[
        float,
        Query(
            description="The goodput that is asked for, 0 to 1.",
            examples=[0.9],
            json_schema_extra={"minimum": 0, "maximum": 1},
        ),
    ],
) -> Response:
    """200 where the run's goodput is at least `min_goodput`, 409 where it is below or not known yet.

    The body says the same as `pass`. So `curl --fail-with-body` is all that a CI job needs.
    """
    if not math.isfinite(min_goodput) or not 0 <= min_goodput <= 1:
        hint = "; a percentage is divided by 100" if 1 < min_goodput <= 100 else ""
        raise Problem(422, "Invalid goodput", f"min_goodput={min_goodput:g} is no share from 0 to 1{hint}")
    with asked(request, access) as ask:
        stored = ask.books(run)
        is_whole = window.since_us is None and window.until_us is None
        books = stored.books if is_whole else ask.report(stored, window).books
        told = gate(books, stored, min_goodput, window)
    if not told["pass"]:
        detail = f"run {shown(stored.books.run)}: {told['sentence']}"
        raise Problem(409, "Below the goodput asked for", detail, **told)
    return json_answer(request, msgspec.json.encode(told))
