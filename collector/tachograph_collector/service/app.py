"""The web application: every router, in one list, around one ``Service``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, FastAPI

from tachograph_collector.service import (
    export,
    fleet,
    health,
    incidents,
    ingest,
    login,
    me,
    metrics,
    nodes,
    page,
    plan,
    problems,
    rejected,
    rows,
    runbooks,
    runs,
    sd,
    silences,
    steps,
)
from tachograph_collector.service.access import Doorkeeper
from tachograph_collector.service.front import Front
from tachograph_collector.service.gather import Gather
from tachograph_collector.service.guard import Guard
from tachograph_collector.service.newruns import NewRuns
from tachograph_collector.service.readiness import Looker
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.state import KeepsLedgers, Service
from tachograph_collector.service.upkeep import Upkeep, jobs_for, say_gone
from tachograph_collector.service.waiting import Waiting
from tachograph_collector.sinks.post import Post
from tachograph_collector.store.database import Database
from tachograph_collector.store.upgrade import check_schema

if TYPE_CHECKING:
    from tachograph_collector.service.telemetry import Telemetry

ROUTERS: Final[tuple[APIRouter, ...]] = (
    health.router,
    login.router,
    me.router,
    metrics.router,
    sd.router,
    ingest.router,
    rejected.router,
    runs.router,
    rows.router,
    incidents.router,
    silences.router,
    steps.router,
    fleet.router,
    nodes.router,
    export.router,
    plan.router,
    page.router,
    runbooks.router,
)
"""One a module. A new module of routes is added here and nowhere else."""

UPKEEP_ENDS_WITHIN_S: Final = 5.0
SINKS_END_WITHIN_S: Final = 3.0


def create_app(settings: Settings, database: Database, keeper: KeepsLedgers) -> FastAPI:
    """The application. Its lifespan starts and stops the gathering and the keeper, not the database."""
    gather = Gather(database, keeper.wake)
    doorkeeper = Doorkeeper(settings, database)
    service = Service(
        settings=settings,
        database=database,
        keeper=keeper,
        identify=doorkeeper.identify,
        gather=gather,
        waiting=Waiting(settings.max_waiting_bytes),
        new_runs=NewRuns(database, settings.max_new_runs),
        check_schema=check_schema,
        extra={"doorkeeper": doorkeeper},
    )
    service.looker = Looker(service)

    upkeep = Upkeep(jobs_for(settings, database), at_end=lambda: say_gone(database, settings.replica))
    post = Post(
        database,
        settings.sinks,
        settings.replica,
        public_url=settings.public_url,
        notify_rehearsals=settings.notify_rehearsals,
    )
    scrape = metrics.Scrape(service, doorkeeper, post)
    telemetry = _telemetry(service, scrape)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        gather.start()
        await asyncio.to_thread(keeper.start)
        scrape.start()
        if telemetry is not None:
            telemetry.start()
        upkeep.start()
        await asyncio.to_thread(post.start)
        try:
            yield
        finally:
            service.is_stopping = True
            await asyncio.to_thread(gather.stop, settings.stop_timeout_s)
            await asyncio.to_thread(post.stop, SINKS_END_WITHIN_S)
            await asyncio.to_thread(upkeep.stop, UPKEEP_ENDS_WITHIN_S)
            await asyncio.to_thread(scrape.stop)
            await asyncio.to_thread(keeper.stop)
            if telemetry is not None:
                await asyncio.to_thread(telemetry.stop)
            doorkeeper.close()
            service.close()

    app = FastAPI(
        title="Tachograph collector",
        version=version("tachograph"),
        description="Takes what agents send, books every minute of a run, and answers what became of them.",
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    problems.install(app)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Front, settings=settings)
    for router in ROUTERS:
        app.include_router(router)
    return app


def _telemetry(service: Service, scrape: metrics.Scrape) -> Telemetry | None:
    """What goes out by OTLP; nothing of it is imported unless somebody said where to."""
    endpoint = service.settings.otlp_endpoint
    if endpoint is None and not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip():
        return None
    from tachograph_collector.service.telemetry import telemetry_to

    return telemetry_to(service, scrape.figures, scrape.own, endpoint)
