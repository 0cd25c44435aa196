"""``/runbooks/NAME``: what to do about an alert, so that its link leads somewhere wherever the collector runs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response
from tachograph_dashboards.runbooks import runbook

from tachograph_collector.service.page import HEADERS
from tachograph_collector.service.problems import Problem, shown

router = APIRouter(include_in_schema=False)


@router.get("/runbooks/{name}")
async def read(name: str) -> Response:
    """The runbook of that alert, as it is written; it holds no data and needs no token."""
    text = runbook(name)
    if text is None:
        raise Problem(404, "No such runbook", f"there is no runbook of an alert {shown(name)}")
    return Response(text, headers=HEADERS, media_type="text/plain; charset=utf-8")
