"""An agent that lives as long as its pod holds GPUs tells so: ``allocation.start`` at its start, the end at its own."""

from __future__ import annotations

import os

from tachograph_agent.identity import identify
from tachograph_agent.sidecar.own_events import OwnEvents


class Allocation:
    """The GPUs that a native sidecar's pod holds. An agent that was killed and starts again goes on holding them."""

    def __init__(self, own: OwnEvents, num_gpus: int | None) -> None:
        self._own = own
        self._num_gpus = num_gpus
        self._run = identify(os.environ).run

    def begin(self) -> None:
        """The pod has its GPUs."""
        self._tell("allocation.start")

    def end(self) -> None:
        """The pod lets them go."""
        self._tell("allocation.end")

    def _tell(self, kind: str) -> None:
        if self._num_gpus is not None:
            self._own.write(kind, run=self._run, gpus=self._num_gpus)
