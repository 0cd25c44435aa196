"""All sinks of a collector: started and stopped together, each in its own thread."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.courier import Courier
from tachograph_collector.store.database import Database


class Post:
    """A courier for each sink; without a sink it does nothing."""

    def __init__(
        self,
        database: Database,
        sinks: Sequence[SinkConfig],
        holder: str,
        *,
        public_url: str | None = None,
        notify_rehearsals: bool = False,
    ) -> None:
        self.couriers = [
            Courier(database, each, holder, public_url=public_url, notify_rehearsals=notify_rehearsals)
            for each in sinks
        ]

    def start(self) -> None:
        """Begin."""
        for courier in self.couriers:
            courier.start()

    def stop(self, timeout_s: float) -> None:
        """End within that time; who hangs then is left."""
        until_s = time.monotonic() + timeout_s
        for courier in self.couriers:
            courier.ask_to_stop()
        for courier in self.couriers:
            courier.stop(max(0.0, until_s - time.monotonic()))
