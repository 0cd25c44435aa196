"""The web application: every router, in one list, around one ``Service``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, FastAPI

from tachograph_collector.service import access, health, ingest, problems
from tachograph_collector.service.gather import Gather
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.state import KeepsLedgers, Service
from tachograph_collector.store.database import Database

ROUTERS: Final[tuple[APIRouter, ...]] = (health.router, ingest.router)
"""One a module. A new module of routes is added here and nowhere else."""


def create_app(settings: Settings, database: Database, keeper: KeepsLedgers) -> FastAPI:
    """The application. Its lifespan starts and stops the gathering and the keeper, not the database."""
    gather = Gather(database, keeper.wake, settings.max_waiting_bytes)
    service = Service(settings, database, keeper, access.identify, gather)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        gather.start()
        await asyncio.to_thread(keeper.start)
        try:
            yield
        finally:
            service.is_stopping = True
            await asyncio.to_thread(gather.stop, settings.stop_timeout_s)
            await asyncio.to_thread(keeper.stop)

    app = FastAPI(
        title="Tachograph collector",
        version=version("tachograph"),
        description="Takes what agents send, books every minute of a run, and answers what became of them.",
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )
    app.state.service = service
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    return app
