"""``GET /v1/me``: what the token that asks may do, and which collector it asks; any good token may know that."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from tachograph_collector.service.access import Access
from tachograph_collector.service.described import problem
from tachograph_collector.service.state import service_of

router = APIRouter(tags=["access"])


class Me(BaseModel):
    """Who asks, and whom."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "agents",
                "scopes": ["ingest"],
                "run_patterns": ["llama-*"],
                "version": "0.1.0",
                "now": 1796026398.565825,
            }
        }
    )

    name: str | None = Field(description="The token's name; null where nobody needs one.")
    scopes: list[str] = Field(description="What it may, in the alphabet's order; of `admin`, all that it includes.")
    run_patterns: list[str] | None = Field(description="Runs that it may write to; null: all.")
    version: str = Field(description="The collector's.")
    now: float = Field(description="The collector's clock, Unix seconds.")


async def known(connection: HTTPConnection) -> Access:
    """Who asks, whatever the scopes."""
    return await service_of(connection).identify(connection)


@router.get("/v1/me", summary="Who asks", responses={status: problem(status) for status in (401, 503)})
async def me(access: Annotated[Access, Depends(known)]) -> Me:
    """What the token that asks may do."""
    patterns = None if access.run_patterns is None else list(access.run_patterns)
    return Me(
        name=access.name,
        scopes=sorted(access.scopes),
        run_patterns=patterns,
        version=version("tachograph"),
        now=time.time(),
    )
