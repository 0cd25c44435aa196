"""Browsers: a token is traded for a cookie that scripts can't read and that no other site's page sends along.

The cookie holds the token, so any replica knows it, and revoking the token ends every session. It is a session cookie
with an end: ``SESSION_S`` after the login, or when the browser forgets it, or with the token.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from tachograph_collector.service.access import Doorkeeper, cookie_name, is_https, not_allowed
from tachograph_collector.service.described import problem
from tachograph_collector.service.problems import Problem
from tachograph_collector.service.state import service_of

SESSION_S: Final = 12 * 3600
MAX_BODY_BYTES: Final = 4096

router = APIRouter(tags=["login"])

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Tachograph</title>
<style>body{font:16px system-ui,sans-serif;max-width:26em;margin:20vh auto;padding:0 1em}
input,button{font:inherit;padding:.4em}input{width:100%;box-sizing:border-box;margin:.5em 0}</style>
<h1>Tachograph</h1>
<form method="post" action="login">
<label>Token<input type="password" name="token" autocomplete="off" required autofocus></label>
<button>Log in</button>
</form>
</html>
"""
_SHELTERED: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@router.get("/login", include_in_schema=False)
async def page() -> Response:
    """A form for a token."""
    return HTMLResponse(_PAGE, headers=_SHELTERED)


@router.post(
    "/login",
    summary="Trade a token for a cookie",
    response_class=Response,
    responses={
        200: {
            "description": "The cookie is set.",
            "content": {"application/json": {"schema": {"type": "object"}, "example": {"scopes": ["read"]}}},
        },
        **{status: problem(status) for status in (401, 403, 422, 503)},
        413: problem(422) | {"description": "Too large"},
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
                }
            },
        }
    },
)
async def login(request: Request) -> Response:
    """For browsers: `{"token": "…"}`, or a form, sets a cookie that stands for the token."""
    doorkeeper = _doorkeeper(request)
    is_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    token = _token(await _body(request), is_form=is_form)
    found = await doorkeeper.access_of(token)
    if "read" not in found.scopes:
        raise not_allowed(found, "read")
    settings = service_of(request).settings
    answer: Response = RedirectResponse("./", 303) if is_form else JSONResponse({"scopes": sorted(found.scopes)})
    answer.set_cookie(
        cookie_name(settings),
        token,
        max_age=SESSION_S,
        path="/",
        secure=is_https(settings),
        httponly=True,
        samesite="strict",
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.post(
    "/logout", summary="Forget the cookie", status_code=204, response_class=Response, responses={403: problem(403)}
)
async def logout(request: Request) -> Response:
    """The browser forgets its cookie; the token stays good."""
    settings = service_of(request).settings
    answer = Response(status_code=204)
    answer.delete_cookie(cookie_name(settings), path="/", secure=is_https(settings), httponly=True, samesite="strict")
    return answer


def _doorkeeper(request: Request) -> Doorkeeper:
    found = service_of(request).extra["doorkeeper"]
    assert isinstance(found, Doorkeeper)
    return found


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise Problem(413, "Too large", f"more than {MAX_BODY_BYTES} bytes; a login holds one token")
    return body


def _token(body: bytes, *, is_form: bool) -> str:
    """The token in a login; whatever is wrong is said without showing any of it."""
    try:
        told = parse_qs(body.decode("ascii"), max_num_fields=10) if is_form else json.loads(body)
        token = told["token"][0] if is_form else told["token"]
    except (ValueError, KeyError, TypeError, RecursionError):
        token = None
    if not isinstance(token, str):
        raise Problem(422, "Not a login", 'expected {"token": "tachograph_…"}, or a form with a field named token')
    return token.strip()
