"""Detectors as a part of folding one run: when they look, and what of it is written beside the books."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Row
from tachograph_agent.events import AnyEvent

from tachograph_collector.detect import Incident, Settings, Sight, StateError
from tachograph_collector.ledger import Books, Details
from tachograph_collector.live.detector_states import read_detectors, save_detectors
from tachograph_collector.live.incidents import IncidentRows, write_sights
from tachograph_collector.live.pace import SECOND, Pace
from tachograph_collector.live.recording import PackedTogetherError, Recording
from tachograph_collector.live.watching import Watching
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.prunings import prunings_of
from tachograph_collector.store.rows import HEARTBEAT

BEHIND_US: Final = 10 * SECOND
"""A look that comes so much later than it was due was kept from somebody; silence is held against nobody meanwhile."""


RECORDING_A_TURN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Moment:
    """How the run stands when its detectors look. All that is stored of it was heard."""

    now_us: int
    as_of_us: int
    """What agents have told by now reaches so far."""
    books: Books | None
    """Of the newest generation."""
    details: Details | None
    """None: not worked out this time."""
    is_replay: bool
    seq: int
    """All that is stored up to this number was heard."""
    is_over: bool
    """Nothing more is expected: it has ended, or it is a recording, and nothing has come for a while."""


class Detecting:
    """The detectors of one run and the rows of what they find. Thrown away with the run's folder."""

    def __init__(
        self,
        database: Database,
        run: RunKey,
        name: str,
        pace: Pace,
        settings: Settings | None,
        looked_before_us: int | None,
    ) -> None:
        """``looked_before_us``: until when whoever folded the run before has judged."""
        self._database = database
        self._run = run
        self._name = name
        self._pace = pace
        self._settings = settings
        self._watching = Watching(name, settings)
        self._incidents = IncidentRows(run, name)
        self._looked_before_us = looked_before_us
        self._due_us: int | None = None
        self._sights_due_us = 0
        self._saved: Row[int, str, bytes] | None = None
        self._is_replay = False
        self._has_news = True
        """Of a recording: whether there is anything that was not judged."""
        self._is_pruned = False
        self._recording: Recording | None = None
        self._details: Details | None = None
        self.was_refused: str | None = None
        """Why the saved state could not be used, so that they began afresh."""

    # -- state -------------------------------------------------------------------------------------------------------

    def open(self, connection: Connection) -> None:
        """Learn what stands open in the table, and what was saved."""
        self._incidents.take_up(connection)
        self._saved = read_detectors(connection, self._run)
        self._is_pruned = any(each.kind != HEARTBEAT for each in prunings_of(connection, self._run))

    def go_on(self, seq: int) -> None:
        """Go on from the state that was saved as of ``seq``; if there is none, begin afresh with what stands open."""
        saved, self._saved = self._saved, None
        if saved is None:
            return  # a recording has none: it is judged whole
        if saved.seq != seq:
            self.was_refused = f"run {self._name!r}: no state of its detectors goes with the ledger's"
            return
        try:
            self._incidents.note_held(self._watching.restore(saved.version, saved.data))
        except StateError as error:
            self.was_refused = str(error)
            self._watching = Watching(self._name, self._settings)

    def save(self, connection: Connection, seq: int, at_us: int) -> None:
        """Save the state, as of ``seq``."""
        save_detectors(connection, self._run, seq, at_us, None if self._is_replay else self._watching.save())

    def set_settings(self, settings: Settings) -> None:
        """Judge by other thresholds from now on."""
        self._settings = settings
        self._watching.set_settings(settings)

    # -- a turn ------------------------------------------------------------------------------------------------------

    def hear(self, events: list[AnyEvent], *, is_replay: bool) -> None:
        """Take events as they were stored. Those of a recording are read again when it is complete."""
        self._is_replay = is_replay
        if is_replay:
            self._has_news, self._recording, self._details = True, None, None
        else:
            self._watching.hear(events)

    def note(self, incidents: Iterable[Incident]) -> None:
        """Take incidents as they are now."""
        self._incidents.note(incidents)

    def note_of_others(self, incidents: Iterable[Incident]) -> None:
        """Take incidents that were not found by these detectors, which say what follows from them."""
        self.note([self._watching.know(one) for one in incidents])

    def wants_books(self, as_of_us: int, *, is_replay: bool, is_over: bool) -> bool:
        """Whether ``look`` should be given the run's records."""
        if is_replay:
            return is_over and self._has_news and self._details is None
        return self._watching.wants_books(as_of_us)

    def look(self, moment: Moment) -> None:
        """Judge what was heard; a recording when it is over, a little at each turn."""
        if moment.is_replay:
            if moment.is_over and self._has_news and not self._is_pruned:
                self._look_at_recording(moment)
            return
        self._judge_books(moment)
        looked_before_us, self._looked_before_us = self._looked_before_us, None
        if looked_before_us:
            self.note(self._watching.look_again(min(looked_before_us, moment.as_of_us)))
        if moment.is_over:
            self.note(self._watching.finish(moment.now_us))
        else:
            on_time = self._due_us is not None and moment.now_us <= self._due_us + BEHIND_US
            self.note(self._watching.look(moment.as_of_us, on_time=on_time))
        self._close(moment)

    def _look_at_recording(self, moment: Moment) -> None:
        self._details = moment.details or self._details
        if self._recording is None:
            self._recording = Recording(self._database, self._run, self._name, moment.seq, self._settings)
        try:
            if not self._watching.read_on(self._recording, RECORDING_A_TURN_S):
                return
        except PackedTogetherError:
            self._recording = Recording(self._database, self._run, self._name, moment.seq, self._settings)
            return
        self.note(self._watching.finish_recording(moment.books, self._details))
        self._has_news, self._recording, self._details = False, None, None
        if self.fault is None:
            self._close(moment)

    def _close(self, moment: Moment) -> None:
        self._incidents.close_forgotten(moment.now_us, at_once=moment.is_over)
        if moment.is_over and moment.books is not None and moment.books.status != "running":
            self._incidents.close_all(moment.books.end_us)

    def _judge_books(self, moment: Moment) -> None:
        if moment.books is None or moment.details is None:
            return
        if moment.is_over:
            self._watching.judge(moment.books, moment.details, moment.books.end_us)
        elif self._watching.wants_books(moment.as_of_us):
            self._watching.judge(moment.books, moment.details, moment.as_of_us)

    @property
    def is_busy(self) -> bool:
        """Whether a recording is being read, and the next look should come at once."""
        return self._recording is not None

    def due_at(self, next_look_us: int | None) -> None:
        """When the next look will be."""
        self._due_us = next_look_us

    @property
    def has_pending(self) -> bool:
        """Whether there are steps to judge that nothing more need come for."""
        return self._watching.has_pending

    # -- what comes of it --------------------------------------------------------------------------------------------

    def write(
        self, connection: Connection, origin: str, at_us: int, others: Mapping[str, Sight], *, sights_at_once: bool
    ) -> tuple[int, int]:
        """Write incidents that differ, and now and then sights, with those of ``others``.

        Gives how many incidents were written, and how many of them are new.
        """
        if at_us >= self._sights_due_us or sights_at_once:
            self._sights_due_us = at_us + self._pace.sights_every_us
            write_sights(connection, self._run, {**self.sights(), **others}, at_us)
        return self._incidents.write(connection, origin, at_us)

    @property
    def fault(self) -> str | None:
        """Why the detectors were set aside; None: they look."""
        return self._watching.fault

    def open_incidents(self) -> tuple[Incident, ...]:
        """Those that are open, as they were last written."""
        return self._incidents.open()

    def sights(self) -> Mapping[str, Sight]:
        """How well each detector sees."""
        return self._watching.sights()
