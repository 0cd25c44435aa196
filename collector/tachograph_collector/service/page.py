"""``/``: the page for people. Its files hold no data and need no token; what they ask is answered to who may read.

The policy allows what comes from this collector and nothing that is written into the page: no inline script or style,
no ``eval``, and in browsers that know of it no text that becomes HTML. So a run's name can be shown and do nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.report.page import page_colours
from tachograph_collector.service.asking import is_known
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.web.assets import Asset, asset, assets

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def page(request: Request) -> Response:
    """The page itself."""
    return _sent(request, assets()["index.html"])


@router.get("/web/{name:path}")
async def file(request: Request, name: str) -> Response:
    """One of its files."""
    found = _palette() if name == "palette.css" else assets().get(name)
    if found is None:
        raise Problem(404, "No such file", f"the page has no file {shown(name)}")
    return _sent(request, found)


def _sent(request: Request, found: Asset) -> Response:
    headers = {**HEADERS, "ETag": found.etag}
    if is_known(request, found.etag):
        return Response(status_code=304, headers=headers)
    if found.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=found.media_type)
    return Response(found.body, headers=headers, media_type=found.media_type)


@cache
def _palette() -> Asset:
    """The colours of the reports as custom properties: on light, on dark, and whichever somebody chose."""
    colours = page_colours()
    light, dark = ("".join(f"--{role}:{colour};" for role, colour in colours[name]) for name in ("light", "dark"))
    text = (
        f":root{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f":root[data-theme=dark]{{{dark}}}\n"
    )
    return asset("palette.css", text.encode())
