"""What the routes of one collector share, reached from a request by ``service_of``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import HTTPConnection

from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey

if TYPE_CHECKING:
    from tachograph_collector.service.access import Access
    from tachograph_collector.service.gather import Gather


class KeepsLedgers(Protocol):
    """What folds runs, as ``live.keeper.Keeper`` does."""

    def start(self) -> None:
        """Begin, in threads of its own."""
        ...

    def stop(self) -> None:
        """End what is being folded, save, and let the leases go."""
        ...

    def wake(self, runs: Iterable[RunKey]) -> None:
        """There are new events of these runs. Cheap, from any thread."""
        ...


class NoKeeper:
    """Folds nothing: for tests of routes alone."""

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def wake(self, runs: Iterable[RunKey]) -> None:
        """Nobody to wake."""


@dataclass(slots=True)
class Service:
    """One collector's parts. ``identify`` says who a request is from."""

    settings: Settings
    database: Database
    keeper: KeepsLedgers
    identify: Callable[[HTTPConnection], Awaitable[Access]]
    gather: Gather
    is_stopping: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


def service_of(connection: HTTPConnection) -> Service:
    """The service that a request came to."""
    service = connection.app.state.service
    assert isinstance(service, Service)
    return service
