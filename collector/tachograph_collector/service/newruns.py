"""How many runs never heard of before a tenant may bring in a minute: a job that invents names must not fill the store.

Names that were seen are remembered, so that only a batch with a name that isn't costs a look into the database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import select

from tachograph_collector.service.problems import Problem, later
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import runs as runs_table

MAX_REMEMBERED: Final = 200_000
_AT_ONCE: Final = 500


class NewRuns:
    """The names known and what is left of each tenant's allowance. Thread-safe."""

    def __init__(self, database: Database, max_a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._max = max_a_minute
        self._clock = clock
        self._known: dict[tuple[int, str], None] = {}
        self._left: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def unknown(self, tenant_id: int, names: Iterable[str]) -> list[str]:
        """Those that have not been seen here."""
        return [name for name in names if (tenant_id, name) not in self._known]

    def admit(self, tenant_id: int, names: list[str]) -> None:
        """Look names that are ``unknown`` up, and charge the tenant for those that are new indeed.

        Raises ``Problem``: 429 where the tenant has brought in too many, 413 where one batch alone has more than a
        minute's; ``StoreUnavailableError``.
        """
        stored = self._stored(tenant_id, names)
        new = [name for name in names if name not in stored]
        if len(new) > self._max:
            raise Problem(
                413,
                "Too many new runs",
                f"{len(new):,} runs of the body were never heard of; at most {self._max:,} may be new in a minute",
            )
        with self._lock:
            now_s = self._clock()
            left, at_s = self._left.get(tenant_id, (float(self._max), now_s))
            left = min(float(self._max), left + (now_s - at_s) * self._max / 60)
            if len(new) > left:
                self._left[tenant_id] = (left, now_s)
                wait_s = (len(new) - left) * 60 / self._max
                raise later(
                    429,
                    f"more than {self._max:,} runs that were never heard of came within a minute, "
                    f"the last one {new[-1][:100]!r}; give a run the same name in each of its attempts",
                    wait_s,
                    "Too many new runs",
                )
            self._left[tenant_id] = (left - len(new), now_s)
            self._remember(tenant_id, names)

    def _remember(self, tenant_id: int, names: list[str]) -> None:
        if len(self._known) + len(names) > MAX_REMEMBERED:
            self._known.clear()
        self._known.update(((tenant_id, name), None) for name in names)

    def _stored(self, tenant_id: int, names: list[str]) -> set[str]:
        found: set[str] = set()
        with self._database.read() as connection:
            for at in range(0, len(names), _AT_ONCE):
                query = select(runs_table.c.name).where(
                    runs_table.c.tenant_id == tenant_id, runs_table.c.name.in_(names[at : at + _AT_ONCE])
                )
                found.update(connection.execute(query).scalars())
        return found
