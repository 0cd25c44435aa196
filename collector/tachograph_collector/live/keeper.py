"""Keeps the ledgers of many runs current, in one thread: takes leases, gives runs their turns, shows how they stand.

A run that goes wrong stops no other: it is set aside with the reason, counted, and tried again later and later.
"""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import version
from typing import Final

from sqlalchemy import delete

from tachograph_collector.live import leases
from tachograph_collector.live.folder import RunFolder, RunRefusedError, Turn
from tachograph_collector.live.leases import LeaseLostError
from tachograph_collector.live.pace import SECOND, Pace
from tachograph_collector.live.snapshot import Fold, LiveCounters, LiveSnapshot, SetAside, Thresholds
from tachograph_collector.live.thresholds import ThresholdsFile
from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
from tachograph_collector.store.folded import upsert
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import replicas

logger: Final = logging.getLogger("tachograph.keeper")

STOPS_WITHIN_S: Final = 30.0
FORGOTTEN_US: Final = 86_400_000_000
"""A collector that was not seen for a day is not listed any more."""
SHARE_OF_POLLS: Final = 20
"""Asking for runs takes at most one part in so many of the time."""
ROUND_US: Final = SECOND // 2
"""After so long no more turns are given in a round, nor leases taken: what came meanwhile is looked at first."""
NEWS_FIRST_US: Final = 15 * SECOND
"""A run of which something came goes before those that are only looked at, unless they wait for so much longer."""


class Keeper:
    """Folds the runs that it holds leases of. ``start``, ``stop``, ``wake`` and ``snapshot`` are for any thread.

    ``replica`` names this collector; each start of it holds leases under a name of its own. Without ``start``,
    ``round`` does one round of the work in the caller's thread, which is what tests do.
    """

    def __init__(
        self,
        database: Database,
        replica: str,
        pace: Pace | None = None,
        monotonic_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
        thresholds: ThresholdsFile | None = None,
    ) -> None:
        self.holder: Final = f"{replica[:80]}/{secrets.token_hex(6)}"
        self._database = database
        self._pace = Pace() if pace is None else pace
        self._monotonic_us = monotonic_us
        self._thresholds = thresholds
        self._thresholds_due_us = 0
        self._folders: dict[RunKey, RunFolder] = {}
        self._due: dict[RunKey, int] = {}
        """When each run is to have its next turn, by ``monotonic_us``."""
        self._earliest: dict[RunKey, int] = {}
        """Before when it is not to have one, however many events come."""
        self._news: set[RunKey] = set()
        """Runs with events that wait for their turn."""
        self._set_aside: dict[RunKey, SetAside] = {}
        self._woken: set[RunKey] = set()
        self._condition = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._counters = LiveCounters()
        self._num_waiting = 0
        self._started_us: int | None = None
        self._version = version("tachograph")[:50]
        self._poll_due_us = self._poll_earliest_us = self._renew_due_us = 0
        self._snapshot = LiveSnapshot()
        self.watchers: list[Callable[[Fold], None]] = []
        """Told of each turn by the thread that folds; none of them may raise or wait."""

    # -- for any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tachograph-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the turn that is under way, save every run's state, let the leases go. Does nothing the second time."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(STOPS_WITHIN_S)
            if thread.is_alive():
                logger.warning("the keeper did not end within %d s; its leases run out by themselves", STOPS_WITHIN_S)

    def wake(self, runs: Iterable[RunKey]) -> None:
        """There are new events of these runs."""
        with self._condition:
            before = len(self._woken)
            self._woken.update(runs)
            if len(self._woken) > before:
                self._condition.notify()

    def snapshot(self) -> LiveSnapshot:
        """How the runs stand; made after each round, and never changed."""
        return self._snapshot

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                wait_us = self.round()
            except StoreUnavailableError as error:
                self._count(database_errors=1)
                logger.warning("%s; trying again", error)
                self._show()
                wait_us = round(error.retry_after_s * 1e6)
            except Exception:
                # Whatever it is, the other runs are waiting.
                logger.exception("the keeper's round failed; trying again")
                wait_us = self._pace.retry_first_us
            with self._condition:
                if not self._stopping and not (self._woken and wait_us == 0):
                    self._condition.wait_for(self._has_news, wait_us / 1e6)
        self.close()

    def _has_news(self) -> bool:
        return self._stopping or any(self._is_ready(run) for run in self._woken)

    def _is_ready(self, run: RunKey) -> bool:
        # Of a run that is not held here others may hold the lease: news of it are no reason to ask all the time.
        earliest_us = self._earliest.get(run, 0) if run in self._folders else self._poll_earliest_us
        return earliest_us <= self._monotonic_us()

    def round(self) -> int:
        """Renew leases, look for runs, give each that is due a turn. Gives for how long nothing will be due, in us."""
        now_us = self._monotonic_us()
        with self._condition:
            woken, self._woken = self._woken, set()
        if now_us >= self._renew_due_us:
            self._renew()
            self._renew_due_us = now_us + self._pace.renew_every_us
        self._look_at_thresholds(now_us)
        unknown = woken - self._folders.keys() - self._set_aside.keys()
        if now_us >= self._poll_due_us or (unknown and now_us >= self._poll_earliest_us):
            self._poll_earliest_us = now_us + self._pace.poll_every_us // 5
            ready = self._poll()
            took_us = self._monotonic_us() - now_us
            self._poll_due_us = now_us + max(self._pace.poll_every_us, SHARE_OF_POLLS * took_us)
            if self._take_some(ready):
                self._poll_due_us = self._poll_earliest_us
        for run in woken & self._folders.keys():
            self._note_news(run, now_us)
        begun_us = self._monotonic_us()
        due = [run for run, due_us in self._due.items() if due_us <= now_us]
        for place, run in enumerate(sorted(due, key=self._rank)):
            if self._stopping or (place and self._monotonic_us() - begun_us >= ROUND_US):
                break
            if run not in self._folders:
                continue  # its lease was lost as leases were renewed in between
            self._turn(run)
            if self._monotonic_us() >= self._renew_due_us:
                self._renew()
                self._renew_due_us = self._monotonic_us() + self._pace.renew_every_us
        self._show()
        nearest = heapq.nsmallest(1, self._due.values())
        next_us = min([self._poll_due_us, self._renew_due_us, *nearest])
        return max(0, next_us - self._monotonic_us())

    def _note_news(self, run: RunKey, now_us: int) -> None:
        self._news.add(run)
        self._due[run] = min(self._due.get(run, now_us), max(now_us, self._earliest.get(run, 0)))

    def _rank(self, run: RunKey) -> int:
        """Whose turn it is: the lower comes first."""
        return self._due[run] - (NEWS_FIRST_US if run in self._news else 0)

    def _renew(self) -> None:
        with self._database.write() as connection:
            now_us = self._database.now_us(connection)
            held = leases.renew(connection, self.holder, now_us)
            leases.give_back(connection, self.holder, held.keys() - self._folders.keys(), now_us)
            self._started_us = min(self._started_us or now_us, now_us)
            row = {"replica": self.holder, "started_us": self._started_us, "seen_us": now_us, "version": self._version}
            upsert(connection, replicas, [row])
            connection.execute(delete(replicas).where(replicas.c.seen_us < now_us - FORGOTTEN_US))
        for run, folder in list(self._folders.items()):
            if held.get(run) != folder.lease.fence:
                self._lose(run)

    def _look_at_thresholds(self, now_us: int) -> None:
        if self._thresholds is None or now_us < self._thresholds_due_us:
            return
        self._thresholds_due_us = now_us + self._pace.thresholds_every_us
        fault = self._thresholds.standing.fault
        if self._thresholds.has_changed():
            for folder in self._folders.values():
                folder.detecting.set_settings(self._thresholds.of(folder.name))
        elif self._thresholds.standing.fault not in (None, fault):
            self._count(thresholds_refused=1)

    def _lose(self, run: RunKey) -> None:
        """Somebody else folds it now: nothing that is known of it here counts any more."""
        self._drop(run)
        self._count(leases_lost=1)
        logger.info("run %s: another collector folds it now", run.run_id)

    def _drop(self, run: RunKey) -> None:
        self._folders.pop(run, None)
        self._news.discard(run)
        self._due.pop(run, None)
        self._earliest.pop(run, None)

    def _poll(self) -> list[leases.Candidate]:
        """Ask for events that others took in, and for runs that nobody folds: those that there is room for."""
        room = self._pace.max_runs - len(self._folders)
        with self._database.read() as connection:
            now_us = self._database.now_us(connection)
            fresh = leases.with_new_events(connection, self.holder)
            found = leases.candidates(connection, now_us, max(0, room) + len(self._set_aside) + 1)
        monotonic_us = self._monotonic_us()
        for run in fresh & self._folders.keys():
            self._note_news(run, monotonic_us)
        ready = [
            each
            for each in found
            if each.run not in self._set_aside or self._set_aside[each.run].retry_at_us <= monotonic_us
        ]
        self._num_waiting = max(0, len(ready) - room)
        if self._num_waiting:
            self._make_room(self._num_waiting)
        return ready[: max(0, room)]

    def _take_some(self, ready: list[leases.Candidate]) -> bool:
        """Take runs for a while; whether some are left."""
        begun_us = self._monotonic_us()
        for place, each in enumerate(ready):
            if place and self._monotonic_us() - begun_us >= ROUND_US:
                return True
            self._take(each)
        return False

    def _make_room(self, wanted: int) -> None:
        """Let go of runs that nothing has come of for the longest; they are taken again when their time comes."""
        quiet = sorted(self._folders.values(), key=lambda folder: folder.last_received_us)
        for folder in quiet[: min(wanted, len(quiet) // 4)]:
            self._close(folder, self._due.get(folder.run, 0) - self._monotonic_us())

    def _take(self, candidate: leases.Candidate) -> None:
        run = candidate.run
        with self._database.write() as connection:
            lease = leases.acquire(connection, run, self.holder, self._database.now_us(connection))
        if lease is None:
            return  # another collector was quicker
        settings = None if self._thresholds is None else self._thresholds.of(candidate.name)
        folder = RunFolder(self._database, lease, candidate.name, self._pace, self._monotonic_us, settings)
        self._folders[run] = folder
        self._note_news(run, self._monotonic_us())
        self._count(leases_taken=1)
        if self._guarded(folder, folder.open) and folder.state_was_refused is not None:
            self._count(states_refused=1)
            logger.warning("%s; folding it from its first event on", folder.state_was_refused)
        if folder.detecting.was_refused is not None:
            self._count(detector_states_refused=1)
            logger.info("%s; they begin afresh", folder.detecting.was_refused)

    # -- one run -----------------------------------------------------------------------------------------------------

    def _turn(self, run: RunKey) -> None:
        folder = self._folders[run]
        self._news.discard(run)
        begun_us, begun_unix_ns = self._monotonic_us(), time.time_ns()
        had_fault = folder.detecting.fault is not None
        turns: list[Turn] = []
        try:
            if not self._guarded(folder, lambda: turns.append(folder.turn())):
                return
        finally:
            self._tell_watchers(folder, begun_unix_ns, turns[0] if turns else None)
        [turn] = turns
        self._count(
            folds=turn.wrote,
            events=turn.num_events,
            minutes_booked=turn.num_minutes,
            minutes_revised=turn.num_revised,
            runs_frozen=turn.num_frozen,
            failures_inferred=turn.num_inferred,
            failures_withdrawn=turn.num_withdrawn,
            incidents_opened=turn.num_opened,
            detectors_failed=had_fault != (folder.detecting.fault is not None),
        )
        if turn.wrote and not turn.more:
            self._set_aside.pop(run, None)
        now_us = self._monotonic_us()
        cost_us = now_us - begun_us
        # Runs share the thread: one that costs much has its turn less often.
        self._earliest[run] = 0 if turn.more else max(begun_us + self._pace.fold_every_us, now_us + cost_us)
        if turn.more:
            self._news.add(run)
            self._due[run] = now_us
        elif turn.next_look_us is None:
            self._due.pop(run, None)
        else:
            wait_us = max(0, turn.next_look_us - turn.now_us)
            self._due[run] = max(self._earliest[run], now_us + wait_us)
        if turn.is_idle:
            self._guarded(folder, lambda: self._close(folder, None))
        elif folder.is_save_due() and self._guarded(folder, folder.save):
            self._count(states_saved=1)

    def _tell_watchers(self, folder: RunFolder, begun_unix_ns: int, turn: Turn | None) -> None:
        if not self.watchers or (turn is not None and not turn.num_events and not turn.changed):
            return
        told = Fold(
            run=folder.run,
            name=folder.name,
            began_unix_ns=begun_unix_ns,
            took_s=max(0, time.time_ns() - begun_unix_ns) / 1e9,
            num_events=turn.num_events if turn is not None else 0,
            num_minutes=turn.num_minutes if turn is not None else 0,
            num_revised=turn.num_revised if turn is not None else 0,
            has_failed=turn is None,
        )
        for watcher in self.watchers:
            watcher(told)

    def _guarded(self, folder: RunFolder, act: Callable[[], object]) -> bool:
        """Do something with a run; False if it went wrong: the run is let go, and set aside unless others can go on."""
        run = folder.run
        try:
            act()
        except LeaseLostError:
            self._lose(run)
        except StoreUnavailableError:
            self._drop(run)  # opened anew when the database is back, by whoever takes it then
            self._renew_due_us = 0
            raise
        except (RunRefusedError, StoreError) as error:
            self._put_aside(folder, str(error))
        except Exception as error:
            logger.exception("run %r could not be folded", folder.name)
            self._put_aside(folder, f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    def _put_aside(self, folder: RunFolder, reason: str) -> None:
        run = folder.run
        before = self._set_aside.get(run)
        num_tries = 1 if before is None else before.num_tries + 1
        wait_us = min(self._pace.retry_most_us, self._pace.retry_first_us << min(num_tries - 1, 20))
        self._set_aside[run] = SetAside(run, folder.name, reason, num_tries, self._monotonic_us() + wait_us)
        self._count(runs_set_aside=1)
        if before is None or before.reason != reason:
            logger.error("run %r is set aside, and tried again in %d s: %s", folder.name, wait_us // 10**6, reason)
        self._drop(run)
        with self._database.write() as connection:
            leases.release(connection, folder.lease, self._database.now_us(connection))

    def _close(self, folder: RunFolder, look_in_us: int | None) -> None:
        """Save a run's state and let its lease go."""
        folder.save()
        with self._database.write() as connection:
            now_us = self._database.now_us(connection)
            leases.release(connection, folder.lease, None if look_in_us is None else now_us + max(0, look_in_us))
        self._drop(folder.run)

    def close(self) -> None:
        """Save all states and let all leases go; what can't be saved is read again by who takes the run next."""
        for folder in list(self._folders.values()):
            try:
                self._close(folder, 0)
            except (LeaseLostError, StoreUnavailableError) as error:
                logger.info("run %r: not saved at the end: %s", folder.name, error)
            except Exception:
                logger.exception("run %r: not saved at the end", folder.name)
        self._folders.clear()
        self._news.clear()
        self._due.clear()
        try:
            with self._database.write() as connection:
                connection.execute(delete(replicas).where(replicas.c.replica == self.holder))
        except StoreUnavailableError as error:
            logger.info("%s; this collector is listed for another day", error)
        self._show()

    # -- what it shows -----------------------------------------------------------------------------------------------

    def _count(self, **more: int) -> None:
        self._counters = replace(
            self._counters, **{name: getattr(self._counters, name) + number for name, number in more.items()}
        )

    def _show(self) -> None:
        now_us = time.time_ns() // 1000
        self._snapshot = LiveSnapshot(
            at_us=now_us,
            runs={run: folder.views for run, folder in self._folders.items() if folder.views},
            set_aside=dict(self._set_aside),
            counters=self._counters,
            num_waiting=self._num_waiting,
            thresholds=Thresholds() if self._thresholds is None else self._thresholds.standing,
            beat_us=now_us,
        )
