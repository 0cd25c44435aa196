"""``/v1/fleet``: what the time of all runs came to within a window, in GPU-hours and money, by account and cause."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.report.model import Window
from tachograph_collector.report.text import seconds_or_none
from tachograph_collector.service import examples
from tachograph_collector.service import fleet_shapes as shapes
from tachograph_collector.service.asking import Asked, Reader, asked, table_answer
from tachograph_collector.service.described import answers
from tachograph_collector.service.fleet_totals import FleetTotals, RunTotals, Strip, strip_of, totals_of
from tachograph_collector.service.formats import AskedFormat
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_answers import price_of
from tachograph_collector.service.run_names import QueryRoute
from tachograph_collector.service.runs import NamePattern, Origins
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.store.folded_reader import BooksFilter, StoredBooks, list_books, place_of

router = APIRouter(prefix="/v1", tags=["fleet"], route_class=QueryRoute)

_AT_ONCE: Final = 500


@router.get("/fleet", summary="Totals of all runs", responses=answers(shapes.Fleet, examples.FLEET, of_run=False))
def fleet(
    request: Request,
    access: Reader,
    form: AskedFormat,
    window: AskedWindow,
    origin: Origins = None,
    name: NamePattern = None,
    price: Annotated[
        float | None, Query(description="Price of a GPU-hour of runs that tell none.", ge=0, allow_inf_nan=False)
    ] = None,
) -> Response:
    """GPU-hours and money by account and cause, of live runs unless `origin` says otherwise.

    Runs whose GPUs or price are not known are left out of those sums, counted and named.
    """
    if name is not None and "\0" in name:
        raise Problem(422, "Invalid name", f"name={shown(name)} has a character 0, which no run's name has")
    origins = list(dict.fromkeys(origin or ["live"]))
    which = BooksFilter(origins=origins, name=name, since_us=window.since_us, until_us=window.until_us)
    totals = FleetTotals()
    with asked(request, access) as ask:
        for stored in _every_run(ask, which):
            told = price_of(stored.books)
            totals.add(stored.books.run, _totals(ask, stored, window), price if told is None else told)
    answer = totals.answer()
    for held in ("gpu_hours", "money"):
        amounts = answer[held]
        assert isinstance(amounts, dict)
        if not all(math.isfinite(amount) for amount in amounts.values()):
            raise Problem(422, "No number", f"{held} of these runs is beyond all numbers; a price of theirs is none")
    head = {
        "since": seconds_or_none(window.since_us),
        "until": seconds_or_none(window.until_us),
        "origins": origins,
        **answer,
    }
    return table_answer(request, form, head, "causes", totals.causes())


def _every_run(ask: Asked, which: BooksFilter) -> Iterator[StoredBooks]:
    place = None
    while rows := list_books(ask.connection, ask.tenant_id, which, _AT_ONCE, place):
        yield from rows
        place = place_of(rows[-1])


def _totals(ask: Asked, stored: StoredBooks, window: Window) -> RunTotals:
    """A run's totals. Of one that lies in the window as a whole they are kept, small as they are."""
    books, cache = stored.books, ask.cache

    def whole() -> RunTotals:
        return totals_of(strip(), books, Window())

    def strip() -> Strip:
        return strip_of(
            cache.segments(ask.connection, stored),
            cache.attempts(ask.connection, stored),
            list(cache.restarts(ask.connection, stored).values()),
            books.world_size,
        )

    low, high = window.since_us, window.until_us
    if (low is None or low <= books.start_us) and (high is None or high >= books.end_us):
        return cache.made("fleet", stored, whole)
    return totals_of(cache.made("strip", stored, strip, 1), books, window)
