"""Tokens in a real database, and a collector whose probes say who is asking."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from no_keeper import NoKeeper
from sqlalchemy import insert, select
from tachograph_collector.service.access import Access, require
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import tenants
from tachograph_collector.store.tokens import create_token, revoke_token, split, tenant_named

HOUR_US = 3_600_000_000
LOOPBACK = "http://127.0.0.1:8420"


def make(database: Database, *scopes: str, tenant: str = "default", **more: Any) -> str:
    """A new token."""
    with database.write() as connection:
        if tenant == "default" and not connection.execute(select(tenants)).first():
            connection.execute(insert(tenants).values(tenant_id=1, name="default"))
        now_us = database.now_us(connection)
        _, token = create_token(
            connection,
            now_us=now_us,
            tenant_id=tenant_named(connection, tenant, create=True),
            name=more.pop("name", "one"),
            scopes=scopes or ("read",),
            expires_us=now_us + more.pop("lasts_us") if "lasts_us" in more else None,
            **more,
        )
    return token


def revoke(database: Database, token: str) -> None:
    with database.write() as connection:
        token_id, _ = split(token) or ("", "")
        revoke_token(connection, token_id, now_us=database.now_us(connection))


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def probed(settings: Settings, database: Database) -> FastAPI:
    """The collector's own application, with a route a scope that says who is asking."""
    app = create_app(settings, database, NoKeeper())

    def say(found: Access) -> dict[str, Any]:
        return {"tenant": found.tenant_id, "scopes": sorted(found.scopes), "runs": found.run_patterns}

    for scope in ("ingest", "read", "admin"):

        @app.get(f"/probe/{scope}")
        @app.post(f"/probe/{scope}")
        async def _(found: Access = Depends(require(scope))) -> dict[str, Any]:  # noqa: B008 - FastAPI's way
            return say(found)

    return app


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
