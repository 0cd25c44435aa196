"""``GET /metrics`` for Prometheus: this collector's own series, and those of the runs that it folds.

Two collectors over one database never show one run both, so their scrapes can be added up. A token sees its tenant's
runs.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.service.access import Doorkeeper, access_for
from tachograph_collector.service.counts import Counts
from tachograph_collector.service.described import problem
from tachograph_collector.service.figures import Figures
from tachograph_collector.service.own_metrics import OwnMetrics
from tachograph_collector.service.sink_metrics import SinkMetrics
from tachograph_collector.service.state import Service, service_of
from tachograph_collector.sinks.post import Post

router = APIRouter(tags=["metrics"])
_KEY: Final = "scrape"
_EXAMPLE: Final = 'tachograph_run_goodput_ratio{run="llama-70b",window="24h",bound="lower"} 0.913'


class Scrape:
    """What a scrape of one collector reads. ``start`` and ``stop`` go with the application."""

    def __init__(self, service: Service, doorkeeper: Doorkeeper, post: Post) -> None:
        self.counts = Counts()
        service.gather.watchers.append(self.counts.count)
        origins = ("live", "rehearsal") if service.settings.metrics_rehearsals else ("live",)
        self.figures = Figures(service.database, service.keeper.holder, origins=origins)
        self.registry = CollectorRegistry(auto_describe=False)
        self.own = OwnMetrics(service, self.counts, doorkeeper, self.figures)
        self.registry.register(self.own)
        self.registry.register(SinkMetrics(post))
        ProcessCollector(registry=self.registry)
        service.extra[_KEY] = self

    def start(self) -> None:
        """Begin to prepare."""
        self.figures.start()

    def stop(self) -> None:
        """End."""
        self.figures.stop()

    def text(self, tenant_id: int) -> bytes:
        """All series for that tenant."""
        return generate_latest(self.registry) + self.figures.texts_now().get(tenant_id, b"")


@router.get(
    "/metrics",
    summary="Series for Prometheus",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}, "example": 'tachograph_run_world_size{run="a"} 8'}}
        },
        **{status: problem(status) for status in (401, 403, 503)},
    },
)
async def scrape(request: Request) -> Response:
    """The collector's own series and those of the runs that it folds, in Prometheus' text format."""
    found = await access_for(request, "read")
    held = service_of(request).extra[_KEY]
    assert isinstance(held, Scrape)
    return Response(held.text(found.tenant_id), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
