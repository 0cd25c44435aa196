"""Whether the collector lives (``/healthz``) and whether it can do its work (``/readyz``), and if not, why.

Both need no token, and so tell nothing of where the database is or of what is in it.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tachograph_collector.service.problems import MEDIA_TYPE, Problem
from tachograph_collector.service.state import service_of

router = APIRouter(tags=["health"])

_ALIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "It lives.", "content": {"application/json": {"example": {"status": "ok"}}}},
    503: {"description": "It can't recover; start it again.", "content": {MEDIA_TYPE: {}}},
}
_READY: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Every part that is needed works.",
        "content": {
            "application/json": {
                "example": {
                    "status": "ready",
                    "checks": {
                        "running": {"ok": True},
                        "queue": {"ok": True, "waiting_batches": 2, "waiting_bytes": 40960},
                        "database": {"ok": True},
                        "schema": {"ok": True},
                        "ledger": {"ok": True, "runs_behind": 1, "lag_s": 0.4},
                    },
                }
            }
        },
    },
    503: {"description": "Some part does not work; `checks` says which and why.", "content": {"application/json": {}}},
}


@router.get("/healthz", response_class=JSONResponse, responses=_ALIVE, summary="Whether the collector lives")
async def healthz(request: Request) -> Response:
    """503 only where a restart is what helps."""
    if not service_of(request).gather.is_alive and not service_of(request).is_stopping:
        raise Problem(503, "Can't recover", "the thread that stores has ended; start the collector again")
    return JSONResponse({"status": "ok"})


@router.get(
    "/readyz", response_class=JSONResponse, responses=_READY, summary="Whether the collector can do its work now"
)
async def readyz(request: Request) -> Response:
    """Each part that was looked at: the database, its schema, what waits to be stored, how far the ledgers are."""
    found = await service_of(request).looker.readiness()
    return JSONResponse(found.to_dict(), 200 if found.is_ready else 503, {"Cache-Control": "no-store"})
