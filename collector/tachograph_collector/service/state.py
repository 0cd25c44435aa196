"""What the routes of one collector share, reached from a request by ``service_of``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import HTTPConnection

from tachograph_collector.live.snapshot import Fold, LiveSnapshot
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey

if TYPE_CHECKING:
    from tachograph_collector.service.access import Access
    from tachograph_collector.service.gather import Gather
    from tachograph_collector.service.newruns import NewRuns
    from tachograph_collector.service.readiness import Looker
    from tachograph_collector.service.waiting import Waiting

THREADS_EACH = 2


def _threads(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS_EACH, thread_name_prefix=f"tachograph-{name}")


class KeepsLedgers(Protocol):
    """What folds runs, as ``live.keeper.Keeper`` does."""

    watchers: list[Callable[[Fold], None]]
    """Told of each turn of a run, by the thread that folds."""

    @property
    def holder(self) -> str:
        """The name under which it holds leases."""
        ...

    def start(self) -> None:
        """Begin, in threads of its own."""
        ...

    def stop(self) -> None:
        """End what is being folded, save, and let the leases go."""
        ...

    def wake(self, runs: Iterable[RunKey]) -> None:
        """There are new events of these runs. Cheap, from any thread."""
        ...

    def snapshot(self) -> LiveSnapshot:
        """How the runs stand that it folds. Cheap, from any thread."""
        ...


@dataclass(slots=True)
class Service:
    """One collector's parts. ``identify`` says who a request is from."""

    settings: Settings
    database: Database
    keeper: KeepsLedgers
    identify: Callable[[HTTPConnection], Awaitable[Access]]
    gather: Gather
    waiting: Waiting
    new_runs: NewRuns
    check_schema: Callable[[Database], None]
    """Raises ``StoreError`` where the schema is not the one that this version works with."""
    looker: Looker = field(init=False)
    decoders: ThreadPoolExecutor = field(default_factory=lambda: _threads("decode"))
    """Large bodies are unpacked and read here, so many at once; the others wait as they came."""
    lookups: ThreadPoolExecutor = field(default_factory=lambda: _threads("lookup"))
    """Names of runs are looked up here; where the database hangs, nothing but this waits for it."""
    is_stopping: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        """Let its threads end."""
        for threads in (self.decoders, self.lookups):
            threads.shutdown(wait=False, cancel_futures=True)


def service_of(connection: HTTPConnection) -> Service:
    """The service that a request came to."""
    service = connection.app.state.service
    assert isinstance(service, Service)
    return service
