"""The detectors of one run while it runs: fed with what is folded, asked at each turn, saved with the ledger's state.

They never hold up the books: when one of them raises, the run's detectors are set aside, with the reason, until the run
is opened anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from tachograph_agent.events import AnyEvent

from tachograph_collector.detect import Detectors, Incident, Settings
from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.detectors import VERSION, StateError
from tachograph_collector.ledger import Books, Details
from tachograph_collector.live.pace import SECOND
from tachograph_collector.live.recording import PackedTogetherError, Recording
from tachograph_collector.store.database import StoreError

logger: Final = logging.getLogger("tachograph.keeper")

STATE_VERSION: Final = f"1.{VERSION}"
MAX_PENDING: Final = 200_000
"""Step records of a run under way that are held to be judged in order, 100 bytes each."""
BEHIND_US: Final = 120 * SECOND
"""Of one that has more, since it is being caught up with, what is so long before its newest event is judged."""

_STATE: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_T = TypeVar("_T")


class Watching:
    """Watches one run. Not thread-safe. Times are on the database's clock."""

    def __init__(self, name: str, settings: Settings | None = None) -> None:
        self._name = name
        self._detectors = Detectors(settings)
        self._looked_us = 0
        self.fault: str | None = None
        """Why the detectors were set aside; None: they look."""

    # -- state -------------------------------------------------------------------------------------------------------

    def restore(self, version: str, data: bytes) -> list[Incident]:
        """Go on from a saved state; gives the incidents it holds. Raises ``StateError``: they begin afresh then."""
        if version != STATE_VERSION:
            raise StateError(f"run {self._name!r}: its detectors' state was saved by another version ({version})")
        try:
            self._detectors.restore(_STATE.decode(data))
            return self._detectors.incidents()
        except Exception as error:
            # What another build saved may be readable and not fit; nothing of it is worth the run's books.
            raise StateError(f"run {self._name!r}: no saved state of the detectors ({error})") from error

    def save(self) -> bytes | None:
        """What ``restore`` goes on from; None where the detectors are set aside."""
        return self._guarded(lambda: msgspec.msgpack.encode(self._detectors.save()), None)

    def set_settings(self, settings: Settings) -> None:
        """Judge by other thresholds from now on."""
        self._guarded(lambda: self._detectors.set_settings(settings), None)

    # -- events ------------------------------------------------------------------------------------------------------

    def hear(self, events: Sequence[AnyEvent]) -> None:
        """Take events as they were stored."""

        def take() -> None:
            self._detectors.add(events)
            if self._detectors.num_pending > MAX_PENDING:
                self._detectors.settle(BEHIND_US)

        if events:
            self._guarded(take, None)

    def know(self, incident: Incident) -> Incident:
        """Take an incident that was found elsewhere; gives it back with what is known of it here."""
        return self._guarded(lambda: self._detectors.know(self._name, incident), incident)

    def look_again(self, looked_us: int) -> list[Incident]:
        """Judge as of when somebody looked before, who has heard all that was heard here: nobody was blind since."""

        def look() -> list[Incident]:
            self._detectors.note_look(looked_us)
            return self._look(looked_us)

        return self._guarded(look, [])

    def look(self, now_us: int, *, on_time: bool = False) -> list[Incident]:
        """Judge as of now; gives the incidents that have changed, in that order.

        ``on_time``: it is the look that was due, however long after the last one, and nobody was kept from looking.
        """
        return self.look_again(now_us) if on_time else self._guarded(lambda: self._look(now_us), [])

    def _look(self, now_us: int) -> list[Incident]:
        self._looked_us = max(self._looked_us, now_us)  # agents that tell things later than before set it back
        return [change.incident for change in self._detectors.look(self._looked_us)]

    def read_on(self, recording: Recording, for_s: float) -> bool:
        """Go on with a recording for about so long; True when all of it was read, or its detectors are set aside.

        Raises ``StoreUnavailableError`` and ``PackedTogetherError``, as ``Recording.work`` does.
        """
        if self._guarded(lambda: recording.work(for_s), True):
            self._detectors = recording.detectors
            return True
        return False

    def finish_recording(self, books: Books | None, details: Details | None) -> list[Incident]:
        """Judge all that was read, as of its last event, then its books; gives all incidents there are."""

        def finish() -> list[Incident]:
            self._detectors.look()  # first: what books cost is told by what was heard of its GPUs and their price
            if books is not None and details is not None:
                self._detectors.judge(self._name, books, details, books.end_us, is_final=True)
            return self._detectors.incidents(self._name)

        return self._guarded(finish, [])

    def finish(self, now_us: int) -> list[Incident]:
        """Judge all that was heard: nothing more is expected."""
        return self._guarded(lambda: [change.incident for change in self._detectors.look(now_us, is_complete=True)], [])

    # -- books -------------------------------------------------------------------------------------------------------

    def wants_books(self, as_of_us: int) -> bool:
        """Whether the run's books are to be judged, which asks for all their records."""
        return self._guarded(lambda: self._detectors.is_judge_due(self._name, as_of_us), False)

    def judge(self, books: Books, details: Details, as_of_us: int) -> None:
        """Hold the run's books against what its failures explain; what comes of it the next look tells."""
        self._guarded(lambda: self._detectors.judge(self._name, books, details, as_of_us), None)

    # -- what it shows -----------------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether there are steps to judge that nothing more need come for."""
        return self.fault is None and self._detectors.num_pending > 0

    def sights(self) -> Mapping[str, Sight]:
        """How well each detector sees; a copy."""
        found = {name: msgspec.structs.replace(sight) for name, sight in self._detectors.sights(self._name).items()}
        if self.fault is not None:
            for sight in found.values():
                sight.state, sight.reason = "blind", f"set aside: {self.fault}"
        return found

    def _guarded(self, act: Callable[[], _T], otherwise: _T) -> _T:
        if self.fault is not None:
            return otherwise
        try:
            return act()
        except (PackedTogetherError, StoreError):
            raise
        except Exception as error:
            logger.exception("run %r: its detectors are set aside; its books go on", self._name)
            self.fault = f"{type(error).__name__}: {error}"[:500]
            return otherwise
