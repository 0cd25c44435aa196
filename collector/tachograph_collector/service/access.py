"""Who a request is from and what it may do. The tenant always comes from here, never from a body or a path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from starlette.requests import HTTPConnection

from tachograph_collector.service.problems import Problem
from tachograph_collector.service.state import service_of

DEFAULT_TENANT_ID: Final = 1
SCOPES: Final = ("ingest", "read", "admin")


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do. ``run_patterns``: shell patterns of the runs that it may write to; None: all."""

    tenant_id: int
    scopes: frozenset[str]
    run_patterns: tuple[str, ...] | None = None

    def may_write(self, run: str) -> bool:
        """Whether events of that run are taken."""
        return self.run_patterns is None or any(fnmatchcase(run, pattern) for pattern in self.run_patterns)


EVERYTHING: Final = Access(DEFAULT_TENANT_ID, frozenset(SCOPES))
"""What everybody may where no token is needed."""


async def identify(_connection: HTTPConnection) -> Access:
    """Who is asking. Raises ``Problem`` 401 where that isn't known."""
    return EVERYTHING


async def access_for(connection: HTTPConnection, scope: str) -> Access:
    """Who is asking, if that one may ``scope``; raises ``Problem`` 401 or 403. What a hot route calls itself."""
    found = await service_of(connection).identify(connection)
    if scope not in found.scopes:
        raise Problem(403, "Not allowed", f"this token may {', '.join(sorted(found.scopes))}; {scope} is needed here")
    return found


def require(scope: str) -> Callable[[HTTPConnection], Awaitable[Access]]:
    """A dependency for a route: ``access: Access = Depends(require("read"))``."""

    async def dependency(connection: HTTPConnection) -> Access:
        return await access_for(connection, scope)

    return dependency
