"""Long lists in pages: ``limit`` rows at once, and where the next page begins as an opaque ``cursor``."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import msgspec
from fastapi import Depends, Query
from starlette.requests import Request

from tachograph_collector.service.problems import Problem, shown

DEFAULT_LIMIT: Final = 1_000
MAX_LIMIT: Final = 100_000
_LAST: Final = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="At most this many rows in one answer.")]
Cursor = Annotated[
    str | None, Query(max_length=2_000, description="Where the page begins: from `next` of the page before.")
]


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a request asks for."""

    limit: int
    cursor: str | None

    def after(self, *kinds: type) -> tuple[Any, ...] | None:
        """The key of the last row of the page before; None on the first page. ``Problem`` 422 for no cursor of ours."""
        if self.cursor is None:
            return None
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            key = msgspec.json.decode(urlsafe_b64decode(padded.encode("ascii")), type=list[int | str])
        except (ValueError, binascii.Error, msgspec.DecodeError):
            key = []
        fits = len(key) == len(kinds) and all(type(each) is kind for each, kind in zip(key, kinds, strict=True))
        if not fits or any(isinstance(each, int) and not -_LAST <= each <= _LAST for each in key):
            raise Problem(
                422,
                "Invalid cursor",
                f"cursor={shown(self.cursor)} is none of this list; take it from `next` of the page before, or leave "
                "it out to begin anew",
            )
        return tuple(key)


def asked_page(limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Page:
    """The page of a list of rows."""
    return Page(limit, cursor)


def asked_long_page(limit: Limit = MAX_LIMIT, cursor: Cursor = None) -> Page:
    """The page of a list that is read whole more often than not: a month of minutes is one page."""
    return Page(limit, cursor)


AskedPage = Annotated[Page, Depends(asked_page)]
AskedLongPage = Annotated[Page, Depends(asked_long_page)]


def next_page(request: Request, key: tuple[int | str, ...]) -> str:
    """The address of the page behind the row with that key, relative to this server."""
    cursor = urlsafe_b64encode(msgspec.json.encode(key)).rstrip(b"=").decode("ascii")
    raw: bytes = request.scope.get("raw_path") or quote(request.url.path).encode("ascii")
    path = raw.partition(b"?")[0].decode("latin-1")
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return f"{path}?{urlencode([*kept, ('cursor', cursor)])}"
