"""The ledger of any number of runs: events in, in any order, any number of times; books out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tachograph_agent.events import AnyEvent, microseconds

from tachograph_collector.ledger.answer import GenerationBooks
from tachograph_collector.ledger.books import Books, Changes, Details, Restated, RunSpan
from tachograph_collector.ledger.run_ledger import ABANDONED_US, RunLedger
from tachograph_collector.ledger.source import StepSource
from tachograph_collector.ledger.state import pack, unpack


class Ledger:
    """Books every moment of every run. Pure: no clock, no I/O except through ``source``. Not thread-safe.

    Times in and out are whole microseconds since 1970. ``now_us`` is given by the caller: None reads a finished log, to
    its latest event. ``until_us`` reads a log as it stood then: later events are not seen. A run that was started from
    step 0 after it had completed is a further run, ``name#2``.
    """

    def __init__(
        self, source: StepSource | None = None, abandoned_us: int = ABANDONED_US, until_us: int | None = None
    ) -> None:
        self._source = source
        self._abandoned_us = abandoned_us
        self._until_us = until_us
        self._runs: dict[str, RunLedger] = {}

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take a batch of events."""
        if self._until_us is not None:
            events = [event for event in events if microseconds(event.t) <= self._until_us]
        runs = [event.run for event in events]
        if runs and runs.count(runs[0]) == len(runs):
            self._ledger(runs[0]).add(events)
            return
        for name in sorted(set(runs)):
            self._ledger(name).add([event for event in events if event.run == name])

    def _ledger(self, name: str) -> RunLedger:
        ledger = self._runs.get(name)
        if ledger is None:
            ledger = self._runs[name] = RunLedger(name, self._source, self._abandoned_us)
            ledger.taken = self._runs
        return ledger

    def save(self) -> dict[str, bytes]:
        """The state of each run's ledger; ``restore`` goes on from it as if nothing had been.

        To save is to look: minutes are booked up to now, as by ``books``.
        """
        return {name: pack(ledger.state()) for name, ledger in self._runs.items()}

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Take up saved states. Runs known are replaced.

        Raises ``StateError`` if one is none, broken, or another version's; nothing is taken up then.
        """
        unpacked = {name: unpack(name, data) for name, data in states.items()}
        for name, state in unpacked.items():
            self._runs[name] = RunLedger.restored(state, self._source, self._abandoned_us)
            self._runs[name].taken = self._runs

    def runs(self, now_us: int | None = None) -> list[str]:
        """The names of all runs that have any time of their own, in the order in which they were first heard of."""
        return [generation.booking.run for ledger in self._runs.values() for generation in ledger.settle(now_us)]

    def spans(self, now_us: int | None = None) -> dict[str, list[RunSpan]]:
        """The stretches of each name's time, before any minute of them is booked (so that they can be refused)."""
        return {name: ledger.spans(now_us) for name, ledger in self._runs.items()}

    def _find(self, run: str, now_us: int | None) -> tuple[RunLedger, GenerationBooks]:
        base = run.rpartition("#")[0] if "#" in run else run
        for name in (run, base):
            ledger = self._runs.get(name)
            if ledger is None:
                continue
            for generation in ledger.settle(now_us):
                if generation.booking.run == run:
                    return ledger, generation
        raise KeyError(f"no run named {run!r}; known are {', '.join(map(repr, self.runs(now_us))) or 'none'}")

    def books(self, run: str, now_us: int | None = None) -> Books:
        """The books of one run; ``KeyError`` if no such run has any time of its own."""
        return self._find(run, now_us)[1].books()

    def details(self, run: str, now_us: int | None = None) -> Details:
        """The records behind the books of one run."""
        ledger, generation = self._find(run, now_us)
        return generation.details(ledger.is_incomplete)

    def restated(self, now_us: int | None = None) -> list[Restated]:
        """Minutes that had been booked and are booked differently now, since the last call, of all runs."""
        return [minute for ledger in self._runs.values() for minute in ledger.restated(now_us)]

    def changes(self, now_us: int | None = None) -> list[Changes]:
        """What of any run's books differs from what stood at the last call (at first: all of it).

        Costs what has changed, however long the runs are.
        """
        return [changes for ledger in self._runs.values() for changes in ledger.changes(now_us)]

    def reach_us(self, run: str) -> tuple[int, int] | None:
        """The times of the first and the last event of a run that are believed, without settling anything."""
        ledger = self._runs.get(run)
        return None if ledger is None else ledger.reach_us

    def running_attempt(self, run: str, now_us: int | None = None) -> str | None:
        """The name of the attempt that runs now; None if none does."""
        return self._find(run, now_us)[1].running_attempt

    def set_aside(self, run: str) -> dict[str, int]:
        """How many events of a run were set aside, by reason."""
        ledger = self._runs.get(run) or self._runs.get(run.rpartition("#")[0])
        return dict(ledger.num_set_aside) if ledger is not None else {}
