"""The detectors over a log that is being read: fed beside the ledger, asked when all of it was read.

A finished log is judged at its end, so that the order of its lines doesn't matter. Only where a log is so long that its
steps would fill the memory is judged what lies well before the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from tachograph_agent.events import AnyEvent, RunStart, microseconds

from tachograph_collector.cli.errors import BadInputError, reason

if TYPE_CHECKING:
    from tachograph_collector.detect import Incident, Settings
    from tachograph_collector.detect.fleet import FleetSettings
    from tachograph_collector.ledger.books import Books, Details

MAX_PENDING: Final = 4_000_000
"""Step records that are held to be judged in order, 100 bytes each."""
BEHIND_US: Final = 3_600_000_000
"""Of a log that has more, what is so long before its newest event is judged."""


def is_available() -> bool:
    """Whether what the detectors need is installed."""
    return find_spec("numpy") is not None


def read_thresholds(path: str, option: str = "--thresholds") -> FleetSettings:
    """The thresholds that a TOML file asks for. Raises ``BadInputError`` in one sentence that names the file."""
    from tachograph_collector.detect import SettingsError
    from tachograph_collector.detect.fleet import FleetSettings, document_of

    try:
        return FleetSettings(document_of(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInputError(f"{option} {path}: can't be read ({reason(error)})") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{option} {path}: not TOML ({error})") from error
    except SettingsError as error:
        raise BadInputError(f"{option} {path}: {str(error).removeprefix('thresholds: ')}") from error


class Watch:
    """Detectors for a log; needs numpy."""

    def __init__(
        self,
        now_us: int | None,
        settings: Settings | FleetSettings | None = None,
        *,
        price: float | None = None,
        gpus: int | None = None,
    ) -> None:
        """``price`` of a GPU-hour goes before the log's; ``gpus`` is for a log that doesn't tell how many."""
        from tachograph_collector.detect import Detectors

        self._detectors = Detectors(settings)
        self._now_us = now_us
        self._price, self._gpus = price, gpus

    def add(self, batch: Sequence[AnyEvent]) -> None:
        """Take events; those after ``now_us`` are not seen."""
        if self._now_us is not None:
            batch = [event for event in batch if microseconds(event.t) <= self._now_us]
        if self._price is not None or self._gpus is not None:
            batch = [self._asked(event) if isinstance(event, RunStart) else event for event in batch]
        self._detectors.add(batch)
        if self._detectors.num_pending > MAX_PENDING:
            self._detectors.settle(BEHIND_US)

    def glance(self, now_us: int) -> None:
        """More of the log may come: judge what is settled by ``now_us``."""
        self._detectors.look(now_us)

    def finish(self) -> None:
        """All of the log was read."""
        if self._now_us is None:
            self._detectors.look()
        else:
            self._detectors.look(self._now_us, is_complete=True)

    def judge(self, books: Books, details: Details) -> None:
        """Hold a run's books against the checkpoint model, once all of the log was judged."""
        run = books.run if self._detectors.sights(books.run) else books.run.rpartition("#")[0]
        self._detectors.judge(run, books, details, books.end_us, is_final=True)

    def all_incidents(self) -> list[Incident]:
        """Those of all runs, by when they began."""
        return [self._costed(one) for one in self._detectors.incidents()]

    def incidents(self, books: Books) -> list[Incident]:
        """Those of a run. What belongs to ``name#2`` stands in the log under ``name``, so it is told by its time."""
        found = self._detectors.incidents(books.run)
        if not found and "#" in books.run:
            found = self._detectors.incidents(books.run.rpartition("#")[0])
        return [self._costed(one) for one in found if books.start_us <= one.opened_us <= books.end_us]

    def _asked(self, start: RunStart) -> RunStart:
        """The run's beginning with what was asked for in the place of what the log tells."""
        if self._price is not None:
            start = msgspec.structs.replace(start, price_per_gpu_hour=self._price)
        if self._gpus is not None and start.world_size is None and start.gpus is None:
            start = msgspec.structs.replace(start, gpus=self._gpus)
        return start

    def _costed(self, incident: Incident) -> Incident:
        """The incident of a log whose run nobody told to begin, by what was asked for."""
        cost = incident.cost
        if cost is None or cost.wall_s is None or (self._price is None and self._gpus is None):
            return incident
        hours, money = cost.gpu_hours, cost.money
        if hours is None and self._gpus is not None:
            hours = cost.wall_s * self._gpus / 3600
        if money is None and hours is not None and self._price is not None:
            money = hours * self._price
        return msgspec.structs.replace(incident, cost=msgspec.structs.replace(cost, gpu_hours=hours, money=money))
