"""What every query route does: one snapshot of the database, the run by its name, and answers with their version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.report.booked import books_notes
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.windows import clip
from tachograph_collector.service.access import Access, require
from tachograph_collector.service.formats import MEDIA_TYPES, Format, Table, flat_bytes, json_rows
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.state import service_of
from tachograph_collector.service.windowed import counted, minutes_within
from tachograph_collector.store.folded_cache import FoldedCache
from tachograph_collector.store.folded_reader import StoredBooks, read_books
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.watch_reader import run_key

Reader = Annotated[Access, Depends(require("read"))]
_VARIES: Final = {"Vary": "Accept, Authorization, Cookie"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request's view of the database, of one moment."""

    request: Request
    tenant_id: int
    connection: Connection
    cache: FoldedCache

    def books(self, name: str) -> StoredBooks:
        """The run's books. Raises ``Problem`` 404 where there is no such run, or it is not booked yet."""
        stored = None if "\0" in name else read_books(self.connection, self.tenant_id, name)
        if stored is not None:
            return stored
        if self._key(name) is not None:
            raise Problem(
                404,
                "Not booked yet",
                f"events of run {shown(name)} have come in, and no time of it is booked yet; ask again in some seconds",
                headers={"Retry-After": "5"},
            )
        raise _unknown(name)

    def key(self, name: str) -> RunKey:
        """The key of a run of which anything was received; ``Problem`` 404 for an unknown one."""
        found = self._key(name)
        if found is None:
            raise _unknown(name)
        return found

    def _key(self, name: str) -> RunKey | None:
        return None if "\0" in name else run_key(self.connection, self.tenant_id, name)

    def report(self, stored: StoredBooks, window: Window, *, with_segments: bool = True) -> RunReport:
        """What the reports are made from, its minutes left out; without a window ``with_segments`` if need be.

        Raises ``Problem`` 422 where the run has no time within the window.
        """
        is_open = window.since_us is None and window.until_us is None
        details = self.cache.details(self.connection, stored, with_segments=with_segments or not is_open)
        whole = RunReport(stored.books, details, notes=[*books_notes(stored.books, details)])
        if is_open:
            return whole
        inside, cut = minutes_within(self.cache.minutes(self.connection, stored), window)
        clipped = clip(replace(whole, details=msgspec.structs.replace(details, minutes=cut.records())), window)
        if clipped is not None:
            return counted(clipped, inside)
        start, end = stored.books.start_us / 1e6, stored.books.end_us / 1e6
        raise Problem(
            422,
            "Nothing in the window",
            f"run {shown(stored.books.run)} has no time in this window; it ran from {start} to {end}",
        )


@contextmanager
def asked(request: Request, access: Access) -> Iterator[Asked]:
    """The database as of one moment, for who asks."""
    service = service_of(request)
    cache = service.extra.setdefault("folded_cache", FoldedCache())
    with service.database.read() as connection:
        yield Asked(request, access.tenant_id, connection, cache)


def _unknown(name: str) -> Problem:
    return Problem(404, "No such run", f"there is no run {shown(name)}; /v1/runs lists those there are")


# -- answers --------------------------------------------------------------------------------------------------------


def version_etag(stored: StoredBooks, form: Format = "json") -> str:
    """An entity tag that stands as long as the run's derived rows do."""
    run = stored.key.run
    return f'W/"{run.run_id:x}.{stored.key.generation}.{stored.version}.{form}"'


def content_etag(body: bytes) -> str:
    """An entity tag of the answer itself, for what has no version."""
    return f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


def is_known(request: Request, etag: str) -> bool:
    """Whether the client has this version already (If-None-Match)."""
    told = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in told.split(",")}
    return etag.removeprefix("W/") in tags or "*" in tags


def unchanged(etag: str) -> Response:
    """304: what the client has is still so."""
    return Response(status_code=304, headers={"ETag": etag, **_VARIES})


def json_answer(request: Request, body: bytes, etag: str | None = None) -> Response:
    """JSON with its entity tag; 304 where the client has it."""
    return _answer(request, body, "json", etag, None)


def table_answer(
    request: Request,
    form: Format,
    head: Mapping[str, Any],
    name: str,
    table: Table,
    next_url: str | None = None,
    etag: str | None = None,
) -> Response:
    """``{**head, name: rows, "next": address or null}``, or the rows as a file; the next page also as a Link header."""
    if form == "json":
        body = msgspec.json.encode({**head, name: json_rows(table), "next": next_url})
    else:
        body = flat_bytes(table, form)
    return _answer(request, body, form, etag, next_url)


def _answer(request: Request, body: bytes, form: Format, etag: str | None, next_url: str | None) -> Response:
    etag = etag or content_etag(body)
    if is_known(request, etag):
        return unchanged(etag)
    headers = {"ETag": etag, "Cache-Control": "no-cache", **_VARIES}
    if next_url is not None:
        headers["Link"] = f'<{next_url}>; rel="next"'
    return Response(body, 200, headers, MEDIA_TYPES[form])
