"""All detectors of any number of runs: events in, in any order; incidents out. No clock and no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from tachograph_agent.events import AnyEvent

from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.columns import StepColumns, decode_array, encoder
from tachograph_collector.detect.fleet import FleetSettings
from tachograph_collector.detect.one_run import RunDetectors, RunState
from tachograph_collector.detect.settings import Settings
from tachograph_collector.detect.verdict import Change, Incident
from tachograph_collector.ledger.books import Books, Details

VERSION = 7
"""Of the saved state; raised with each change of what it holds."""


class StateError(ValueError):
    """Bytes that are no saved state of the detectors, or another version's."""


class _Saved(Struct):
    version: int
    run: str
    state: RunState


class Detectors:
    """Watches any number of runs. Not thread-safe.

    Feed it with ``add``, in any order as long as what belongs before is there ``settings.common.settle_s`` after ``t``;
    ``look`` judges what is settled. The same events give the same incidents, whether looked at every second or once.
    """

    def __init__(self, settings: Settings | FleetSettings | None = None) -> None:
        self._settings = Settings() if settings is None else settings
        self._runs: dict[str, RunDetectors] = {}

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take a batch of events."""
        names = dict.fromkeys(event.run for event in events)
        for name in names:
            run = self._runs.get(name)
            if run is None:
                run = self._runs[name] = RunDetectors(name, self._of(name))
            run.add(events if len(names) == 1 else [event for event in events if event.run == name])

    def add_steps(self, run: str, columns: StepColumns) -> None:
        """Take steps of one run that are columns already, such as stored stretches."""
        if len(columns):
            if run not in self._runs:
                self._runs[run] = RunDetectors(run, self._of(run))
            self._runs[run].add_steps(columns)

    def look(self, now_us: int | None = None, *, is_complete: bool = False) -> list[Change]:
        """Judge as of ``now_us``, microseconds since 1970, and say what changed since the last look.

        None reads a finished log to its latest event; ``is_complete`` says that all events up to ``now_us`` are here.
        Live, silence is held against nobody for the time in which nobody looked.
        """
        changes = []
        for run in self._runs.values():
            run.look(now_us, is_complete=is_complete)
            changes += run.board.take_changes()
        return changes

    def is_judge_due(self, run: str, now_us: int) -> bool:
        """Whether ``judge`` has something to do: a run's books are looked at every ``goodput.look_every_s`` only."""
        return run in self._runs and self._runs[run].goodput.is_due(now_us)

    def judge(self, run: str, books: Books, details: Details, now_us: int, *, is_final: bool = False) -> None:
        """Hold a run's books against the checkpoint model: goodput that failures don't explain, intervals, restarts.

        ``run`` is the name that its events tell (``books.run`` may be ``name#2``); books and details are of the whole
        run so far, its newest generation. What changed is told by the next ``look``. ``is_final`` says that this is the
        only look, at the end of a recording: it is tested at the level of one look. A run that the detectors never
        heard of is left alone. Milliseconds to tens of them; needs scipy.
        """
        if run in self._runs:
            self._runs[run].goodput.judge(books, details, now_us, is_final=is_final)

    def know(self, run: str, incident: Incident) -> Incident:
        """Take an incident that was found elsewhere, as it is now, so that what follows from it is said to.

        Gives it back with what it follows from itself, and with what it costs and goes back to.
        """
        if run not in self._runs:
            self._runs[run] = RunDetectors(run, self._of(run))
        return self._runs[run].know(incident)

    @property
    def num_pending(self) -> int:
        """How many step records are held to be judged in order."""
        return sum(run.num_pending for run in self._runs.values())

    def settle(self, behind_us: int) -> None:
        """Judge what is so long before each run's newest event, so that it need not be held any longer."""
        for run in self._runs.values():
            run.settle(behind_us)

    def note_look(self, looked_us: int) -> None:
        """Somebody looked at ``looked_us`` who had heard what was heard here: nobody was blind until then."""
        for run in self._runs.values():
            run.note_look(looked_us)

    def set_settings(self, settings: Settings | FleetSettings) -> None:
        """Judge by other thresholds from now on; what was judged stands, and nothing is forgotten."""
        if settings != self._settings:
            self._settings = settings
            self._runs = {name: RunDetectors(name, self._of(name), run.state()) for name, run in self._runs.items()}

    def _of(self, run: str) -> Settings:
        return self._settings.of(run) if isinstance(self._settings, FleetSettings) else self._settings

    def incidents(self, run: str | None = None) -> list[Incident]:
        """All incidents held, of all runs or one, by when they began."""
        names = self._runs if run is None else [run] if run in self._runs else []
        return [incident for name in names for incident in self._runs[name].board.incidents()]

    def sights(self, run: str) -> Mapping[str, Sight]:
        """How well each detector sees a run, and how often it judged; empty for a run that was never heard of."""
        return self._runs[run].board.sights if run in self._runs else {}

    def num_late(self, run: str) -> int:
        """How many events of a run came after what followed them had been judged."""
        return self._runs[run].num_late if run in self._runs else 0

    def save(self) -> dict[str, bytes]:
        """The state of each run, to go on from after a restart with no incident repeated and none forgotten."""
        return {name: encoder.encode(_Saved(VERSION, name, run.state())) for name, run in self._runs.items()}

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Take up saved states. Raises ``StateError`` if one is none or another version's; nothing is taken up then."""
        decoded = {}
        for name, data in states.items():
            try:
                saved = msgspec.msgpack.decode(data, type=_Saved, dec_hook=decode_array)
            except (msgspec.DecodeError, ValueError, TypeError) as error:
                raise StateError(f"run {name!r}: no saved state of the detectors ({error})") from error
            if saved.version != VERSION or saved.run != name:
                raise StateError(
                    f"run {name!r}: a state of run {saved.run!r} and version {saved.version}; expected {VERSION}"
                )
            decoded[name] = saved.state
        for name, state in decoded.items():
            self._runs[name] = RunDetectors(name, self._of(name), state)
