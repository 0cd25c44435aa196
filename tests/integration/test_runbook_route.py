"""``/runbooks/NAME``: where alerts link to, for whoever follows the link, token or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from app_client import AppClient
from no_keeper import NoKeeper
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_dashboards.rules import ALERTS


@pytest.fixture
def client(sqlite_url: str) -> Iterator[AppClient]:
    database = Database(sqlite_url)
    with AppClient(create_app(Settings(database_url=sqlite_url), database, NoKeeper())) as found:
        yield found
    database.close()


def test_every_alerts_runbook_is_shown_as_text_that_does_nothing(client: AppClient) -> None:
    for alert in ALERTS:
        answer = client.get(f"/runbooks/{alert.name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "## What to do" in answer.text


@pytest.mark.parametrize("name", ["TachographNothing", "README", "..%2F..%2Fagent", "<b>"])
def test_another_name_is_a_problem(client: AppClient, name: str) -> None:
    answer = client.get(f"/runbooks/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("application/problem+json")
