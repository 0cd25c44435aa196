"""``/v1/runs/{run}/…``: a run's minutes, restatements, attempts, restarts, saves, nodes, row by row.

Each as JSON, CSV, Parquet or Arrow, in pages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.report.model import Window
from tachograph_collector.report.text import MINUTE, seconds
from tachograph_collector.service import examples
from tachograph_collector.service import row_shapes as shapes
from tachograph_collector.service.asking import (
    Asked,
    Reader,
    asked,
    is_known,
    table_answer,
    unchanged,
    version_etag,
)
from tachograph_collector.service.described import answers
from tachograph_collector.service.formats import AskedFormat, Format, Table
from tachograph_collector.service.paging import AskedLongPage, AskedPage, Page, next_page
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import QueryRoute, RunName
from tachograph_collector.service.run_tables import (
    attempts_table,
    checkpoints_table,
    coarser,
    minutes_table,
    nodes_table,
    restarts_table,
    revisions_table,
    segments_table,
)
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.service.units import seconds_of
from tachograph_collector.store.folded_reader import StoredBooks, read_revisions
from tachograph_collector.store.watch_reader import read_nodes

router = APIRouter(prefix="/v1/runs/{run}", tags=["rows"], route_class=QueryRoute)

T = TypeVar("T")
StateName = Literal["alive", "suspect", "dead", "lost", "gone"]
_MAX_VERSION = 2**63 - 1
Latest = Annotated[bool, Query(description="The latest row first, the first one last.")]


@router.get("/minutes", summary="Its minutes", responses=answers(shapes.Minutes, examples.MINUTES))
def minutes(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedLongPage,
    window: AskedWindow,
    every: Annotated[
        str,
        Query(
            description="Length of one row: whole minutes, such as 1m, 5m, 1h, 1d; counted from 1970 in UTC.",
            examples=["1h"],
            max_length=20,
            json_schema_extra={"pattern": "^[1-9][0-9]{0,1}(m|h|d)$"},
        ),
    ] = "1m",
) -> Response:
    """Each minute as it is booked now and as it was first booked; or longer stretches, summed.

    Minutes are whole: those that a window's edge cuts are in it.
    """
    every_us = _every_us(every)
    after = page.after(int)

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int] | None]:
        mine = ask.cache.minutes(ask.connection, stored)
        since_us = -(2**63) if window.since_us is None else window.since_us // MINUTE * MINUTE
        until_us = 2**63 - 1 if window.until_us is None else window.until_us
        begin, end = np.searchsorted(mine.start_us, [since_us, until_us])
        rows = coarser(mine.take(slice(begin, end)).of_the_run(), every_us)
        if after is not None:
            rows = rows.take(slice(int(np.searchsorted(rows.start_us, after[0], side="right")), None))
        more = len(rows) > page.limit
        rows = rows.take(slice(0, page.limit))
        return minutes_table(rows), (int(rows.start_us[-1]),) if more else None

    return _folded(request, run, access, form, "minutes", read, every_s=seconds(every_us))


def _every_us(text: str) -> int:
    try:
        every_us = round(seconds_of(text) * 1e6)
    except ValueError:
        every_us = 0
    if every_us < MINUTE or every_us % MINUTE or every_us > 366 * 1440 * MINUTE:
        raise Problem(
            422,
            "Invalid resolution",
            f"every={shown(text)} is no whole number of minutes; give 1m, 5m, 1h, 1d or the like, up to 366d",
        )
    return every_us


@router.get("/revisions", summary="What was restated", responses=answers(shapes.Revisions, examples.REVISIONS))
def revisions(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    after: Annotated[
        int,
        Query(description="Only what was restated after this version of the books.", ge=0, le=_MAX_VERSION),
    ] = 0,
) -> Response:
    """Minutes that were booked differently later, in the order in which that was written.

    To follow a run: ask again with `after` set to the `version` of the answer before.
    """
    behind = page.after(int, int, int)

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int, int, int] | None]:
        place = None if behind is None else (behind[0], behind[1], behind[2])
        rows = read_revisions(ask.connection, stored.key, after, page.limit + 1, place)
        more, rows = len(rows) > page.limit, rows[: page.limit]
        last = (rows[-1].version, rows[-1].start_us, rows[-1].revision) if more else None
        return revisions_table(rows), last

    return _folded(request, run, access, form, "revisions", read)


@router.get("/attempts", summary="Its attempts", responses=answers(shapes.Attempts, examples.ATTEMPTS))
def attempts(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    latest: Latest = False,
) -> Response:
    """The attempts; with a window, those that overlap it."""

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int] | None]:
        rows = [
            (index, row)
            for index, row in ask.cache.attempts(ask.connection, stored).items()
            if _overlaps(window, row.start_us, row.end_us)
        ]
        shown_rows, last = _page_of(rows, page, latest)
        return attempts_table([row for _, row in shown_rows]), last

    return _folded(request, run, access, form, "attempts", read)


@router.get("/restarts", summary="Its interruptions", responses=answers(shapes.Restarts, examples.RESTARTS))
def restarts(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    latest: Latest = False,
) -> Response:
    """What stopped training, what it cost, and the way back by phase; with a window, what happened in it."""

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int] | None]:
        found = ask.cache.restarts(ask.connection, stored).items()
        rows, last = _page_of([pair for pair in found if _within(window, pair[1].at_us)], page, latest)
        return restarts_table(rows), last

    return _folded(request, run, access, form, "restarts", read)


@router.get("/checkpoints", summary="Its saves", responses=answers(shapes.Checkpoints, examples.CHECKPOINTS))
def checkpoints(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    window: AskedWindow,
    latest: Latest = False,
) -> Response:
    """The saves, what they cost and whether they landed; with a window, those that began in it."""

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int] | None]:
        found = ask.cache.checkpoints(ask.connection, stored).items()
        is_open = window.since_us is None and window.until_us is None
        rows = [
            (index, row)
            for index, row in found
            if is_open
            or ((at := row.start_us if row.start_us is not None else row.end_us) is not None and _within(window, at))
        ]
        shown_rows, last = _page_of(rows, page, latest)
        return checkpoints_table(shown_rows), last

    return _folded(request, run, access, form, "checkpoints", read)


@router.get("/segments", summary="Its strip", responses=answers(shapes.Segments, examples.SEGMENTS))
def segments(
    request: Request, run: RunName, access: Reader, form: AskedFormat, page: AskedLongPage, window: AskedWindow
) -> Response:
    """The stretches of the run's time, each in one account, without a gap; with a window, those that overlap it."""
    after = page.after(int)

    def read(ask: Asked, stored: StoredBooks) -> tuple[Table, tuple[int] | None]:
        rows = ask.cache.segments(ask.connection, stored)
        begin = 0 if window.since_us is None else bisect_right(rows, window.since_us, key=attrgetter("end_us"))
        if after is not None:
            begin = max(begin, bisect_right(rows, after[0], key=attrgetter("start_us")))
        end = len(rows) if window.until_us is None else bisect_left(rows, window.until_us, key=attrgetter("start_us"))
        shown_rows = rows[begin : min(end, begin + page.limit)]
        return segments_table(shown_rows), (shown_rows[-1].start_us,) if end - begin > page.limit else None

    return _folded(request, run, access, form, "segments", read)


@router.get("/nodes", summary="Its nodes", responses=answers(shapes.Nodes, examples.NODES))
def nodes(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    state: Annotated[list[StateName] | None, Query(description="Only nodes in this state; may be repeated.")] = None,
) -> Response:
    """The nodes and when each was last heard of, by name."""
    after = page.after(str)
    with asked(request, access) as ask:
        behind = None if after is None else after[0].replace("\0", "")
        rows = read_nodes(ask.connection, ask.key(run), page.limit + 1, behind, state)
    more, rows = len(rows) > page.limit, rows[: page.limit]
    next_url = next_page(request, (rows[-1].node,)) if more else None
    return table_answer(request, form, {"run": run}, "nodes", nodes_table(rows), next_url)


def _folded(
    request: Request,
    run: str,
    access: Reader,
    form: Format,
    name: str,
    read: Callable[[Asked, StoredBooks], tuple[Table, tuple[int, ...] | None]],
    **head: Any,
) -> Response:
    """A table of what was folded, at the version of the books. ``read`` gives rows, and the last key if more follow."""
    with asked(request, access) as ask:
        stored = ask.books(run)
        etag = version_etag(stored, form)
        if is_known(request, etag):
            return unchanged(etag)
        table, last = read(ask, stored)
    next_url = None if last is None else next_page(request, last)
    told = {"run": stored.books.run, "version": stored.version, **head}
    return table_answer(request, form, told, name, table, next_url, etag)


def _page_of(
    rows: Sequence[tuple[int, T]], page: Page, latest: bool
) -> tuple[Sequence[tuple[int, T]], tuple[int] | None]:
    """The page of rows that are sorted by their number, or the other way round, and the last number if more follow."""
    after = page.after(int)
    sign = -1 if latest else 1
    rows = rows[::sign]
    begin = 0 if after is None else bisect_right(rows, sign * after[0], key=lambda pair: sign * pair[0])
    chosen = rows[begin : begin + page.limit]
    return chosen, (chosen[-1][0],) if len(rows) - begin > page.limit else None


def _within(window: Window, at_us: int) -> bool:
    return (window.since_us is None or at_us >= window.since_us) and (
        window.until_us is None or at_us < window.until_us
    )


def _overlaps(window: Window, start_us: int, end_us: int) -> bool:
    return (window.until_us is None or start_us < window.until_us) and (
        window.since_us is None or max(end_us, start_us + 1) > window.since_us
    )
