"""docs/metrics.md names every series that there is, and none that there isn't."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import FastAPI
from no_keeper import NoKeeper
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from tachograph_collector.service.app import create_app
from tachograph_collector.service.metrics import Scrape
from tachograph_collector.service.run_metrics import RunMetrics
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def names(collector: Collector) -> set[str]:
    """The names of a collector's series, as they are exposed."""
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for family in collector.collect()
        if family.name.startswith("tachograph_")
    }


def exposed(app: FastAPI) -> set[str]:
    scrape = app.state.service.extra["scrape"]
    assert isinstance(scrape, Scrape)
    own = scrape.registry
    assert isinstance(own, CollectorRegistry)
    scrape.figures.look()
    return names(own) | names(RunMetrics([]))


def test_the_page_lists_each_series_and_no_other(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    app = create_app(Settings(database_url=sqlite_url), database, NoKeeper())
    listed = set(re.findall(r"^\| `(tachograph_[a-z_0-9]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == exposed(app)
    database.close()
