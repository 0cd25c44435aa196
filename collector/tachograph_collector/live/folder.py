"""One run, folded as its events are stored: reads on, books, and writes what has changed, under its lease.

A folder is thrown away whole when anything goes wrong with it, the lease or the database, and opened anew from the
state that was saved last. What it wrote before is not written again: it first reads up to where the tables stand, and
then writes only what differs from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, select
from tachograph_agent.events import AnyEvent, Failure, FailureWithdrawn, microseconds

from tachograph_collector.detect import Settings, Sight, deaths
from tachograph_collector.detect.silence import Conclusion, Silence, SilenceState
from tachograph_collector.ledger import Books, Details, Ledger, StateError
from tachograph_collector.live.detecting import Detecting, Moment
from tachograph_collector.live.generation import Generation, Standing, Written
from tachograph_collector.live.leases import Lease, hold
from tachograph_collector.live.node_rows import node_rows
from tachograph_collector.live.pace import SECOND, Pace
from tachograph_collector.live.snapshot import LiveRun
from tachograph_collector.store.database import Database
from tachograph_collector.store.folded import (
    Stamp,
    booked_so_far,
    newest_version,
    read_heads,
    upsert,
)
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.prunings import pruned_before
from tachograph_collector.store.reader import Received, StoredSteps, events_after
from tachograph_collector.store.rows import STEP
from tachograph_collector.store.schema import (
    ledger_states,
    nodes,
    runs,
)
from tachograph_collector.store.writer import Batch, store

MINUTE: Final = 60 * SECOND
STATE_VERSION: Final = "2"
EVENTS_A_TURN: Final = 50_000


class RunRefusedError(Exception):
    """The run is not folded; the sentence says why and what to do."""


class FolderState(Struct):
    """What is saved of a folder, beside the position."""

    ledger: dict[str, bytes]
    silence: SilenceState
    delay_us: int
    last_received_us: int


_STATE: Final = msgspec.msgpack.Decoder(FolderState)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn came to."""

    now_us: int
    """When it was, on the database's clock."""
    more: bool
    """There is more to read at once."""
    wrote: bool
    next_look_us: int | None
    """When the run is to be looked at although nothing has come, on the database's clock; None: never."""
    is_idle: bool
    """Everything is written and frozen: the run can be let go until something comes."""
    num_events: int
    changed: bool = False
    """Whether any derived row was written."""
    differed: bool = False
    """Whether any of them said something else before."""
    num_minutes: int = 0
    num_revised: int = 0
    num_frozen: int = 0
    num_inferred: int = 0
    num_withdrawn: int = 0
    num_incidents: int = 0
    """Rows of incidents that were written."""
    num_opened: int = 0
    """Incidents that are new in the table."""


class RunFolder:
    """Folds one run. Not thread-safe. ``monotonic_us`` only paces; all times are on the database's clock."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        name: str,
        pace: Pace,
        monotonic_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
        settings: Settings | None = None,
    ) -> None:
        self.lease = lease
        self.name = name
        self.origin = "live"
        self.seq = 0
        self.last_received_us = 0
        self.views: tuple[LiveRun, ...] = ()
        self.state_was_refused: str | None = None
        self.detecting = Detecting(database, lease.run, name, pace, settings, lease.folded_until_us)
        self._database = database
        self._pace = pace
        self._monotonic_us = monotonic_us
        self._source = StoredSteps(database, lease.run, 0)
        self._ledger = self._new_ledger()
        self._silence = Silence(name, lease.run.run_id)
        self._delay_us = pace.first_delay_us
        self._version = 0
        self._generations: dict[int, Generation] = {}
        self._reach_us: tuple[int, int] | None = None
        self._details_due_us = self._saved_at_us = self._wrote_at_us = monotonic_us()
        self._nodes_due_us = 0
        self._saved_seq = -1
        self._save_cost_us = 0
        self._lag_us = 0
        self._rows_a_turn = min(pace.rows_a_turn, 256)

    @property
    def run(self) -> RunKey:
        """Whose events these are."""
        return self.lease.run

    def _new_ledger(self) -> Ledger:
        return Ledger(self._source, self._pace.abandoned_us)

    # -- opening and saving ------------------------------------------------------------------------------------------

    def open(self, *, from_scratch: bool = False) -> None:
        """Take up what was saved, or begin with the first event; and learn how the tables stand."""
        with self._database.read() as connection:
            row = connection.execute(
                select(ledger_states.c.seq, ledger_states.c.version, ledger_states.c.data).where(
                    ledger_states.c.tenant_id == self.run.tenant_id, ledger_states.c.run_id == self.run.run_id
                )
            ).one_or_none()
            heads = read_heads(connection, self.run)
            self._version = newest_version(connection, self.run)
            self._generations = {
                number: Generation(head, booked_so_far(connection, self.run, number)) for number, head in heads.items()
            }
            steps_pruned_us = pruned_before(connection, self.run, STEP)
            self.detecting.open(connection)
        if row is not None and not from_scratch:
            try:
                self._take_up(*row)
            except (StateError, msgspec.MsgspecError) as error:
                self.state_was_refused = str(error)
                self._ledger = self._new_ledger()
                self.seq = self._source.until_seq = 0
            else:
                self.detecting.go_on(self.seq)
                self.detecting.note_of_others(self._silence.open())
        if self.seq == 0 and steps_pruned_us is not None:
            raise RunRefusedError(
                f"run {self.name!r} can't be folded from its first event on: its steps before {steps_pruned_us} µs "
                "since 1970 were pruned; what is booked stands"
            )

    def _take_up(self, seq: int, version: str, data: bytes) -> None:
        if version != STATE_VERSION:
            raise StateError(f"run {self.name!r}: the state was saved by another version ({version})")
        state = _STATE.decode(data)
        self._source.until_seq = seq
        self._ledger.restore(state.ledger)
        self._silence = Silence(self.name, self.run.run_id, state.silence)
        self._delay_us, self.last_received_us = state.delay_us, state.last_received_us
        self.seq = self._saved_seq = seq

    def is_save_due(self) -> bool:
        """Whether enough was folded, or time has passed, since the state was saved."""
        if self.seq == self._saved_seq or self.seq < self.lease.folded_seq:
            return False
        since_us = self._monotonic_us() - self._saved_at_us
        return since_us >= max(self._pace.save_every_us, round(self._save_cost_us / self._pace.save_share))

    def save(self) -> None:
        """Save the state, so that whoever goes on need not begin with the first event. Raises like ``turn``."""
        if self.seq == self._saved_seq or self.seq != self.lease.folded_seq:
            return
        begun_us = self._monotonic_us()
        state = FolderState(self._ledger.save(), self._silence.state(), self._delay_us, self.last_received_us)
        data = msgspec.msgpack.encode(state)
        with self._database.write() as connection:
            now_us = self._database.now_us(connection)
            self.lease = hold(connection, self.lease, now_us)
            row = {
                "tenant_id": self.run.tenant_id,
                "run_id": self.run.run_id,
                "seq": self.seq,
                "saved_us": now_us,
                "version": STATE_VERSION,
                "data": data,
            }
            upsert(connection, ledger_states, [row])
            self.detecting.save(connection, self.seq, now_us)
        self._saved_seq, self._saved_at_us = self.seq, self._monotonic_us()
        self._save_cost_us = self._saved_at_us - begun_us

    # -- a turn ------------------------------------------------------------------------------------------------------

    def turn(self) -> Turn:
        """Read on; once all is read, or it takes long, book and write.

        Raises ``LeaseLostError``, ``StoreUnavailableError``, ``RunRefusedError``: the folder is of no use then.
        """
        received, now_us = self._read()
        self._take(received, now_us)
        num_events = sum(len(each.events) for each in received)
        more = len(received) >= self._rows_a_turn
        if num_events > 0:
            room = EVENTS_A_TURN * len(received) // num_events
            self._rows_a_turn = max(16, min(self._pace.rows_a_turn, room))
        late = self._monotonic_us() - self._wrote_at_us >= self._pace.write_at_least_every_us
        # Tables stand as of a later event than this: written now they would go back in time, and be revised for it.
        behind = self.seq < self.lease.folded_seq and bool(received)
        if behind or (more and not late):
            return Turn(now_us, more=True, wrote=False, next_look_us=now_us, is_idle=False, num_events=num_events)
        self._refuse_decades(now_us)
        concluded = [] if more else self._conclude(now_us)
        return replace(
            self._book(now_us, more=more or bool(concluded)),
            num_events=num_events,
            num_inferred=sum(isinstance(each.event, Failure) for each in concluded),
            num_withdrawn=sum(isinstance(each.event, FailureWithdrawn) for each in concluded),
        )

    def _read(self) -> tuple[list[Received], int]:
        with self._database.read() as connection:
            now_us = self._database.now_us(connection)
            row = connection.execute(
                select(runs.c.origin).where(runs.c.tenant_id == self.run.tenant_id, runs.c.run_id == self.run.run_id)
            ).one()
            self.origin = row.origin
            since_us = self.last_received_us if self.seq else None
            return events_after(connection, self.run, self.seq, self._rows_a_turn, since_us), now_us

    def _take(self, received: list[Received], now_us: int) -> None:
        lateness_us = 0
        events: list[AnyEvent] = []
        for each in received:
            if not each.events:
                continue
            events += each.events
            self._silence.hear(each.received_us, each.events)
            late_us = each.received_us - microseconds(min(each.events[0].t, each.events[-1].t))
            if late_us <= 2 * self._pace.max_delay_us:
                lateness_us = max(lateness_us, late_us)
            self.last_received_us = max(self.last_received_us, each.received_us)
        if received:
            self.seq = self._source.until_seq = received[-1].seq
            self._ledger.add(events)
            self.detecting.hear(events, is_replay=self._is_replay)
            self._lag_us = max(0, now_us - received[-1].received_us)
            # It rises at once and falls slowly: agents tell at intervals, each at a time of its own.
            self._delay_us = min(self._pace.max_delay_us, max(lateness_us, self._delay_us * 49 // 50))

    @property
    def _is_replay(self) -> bool:
        """A recorded run, loaded: its time is that of its events."""
        return self.origin == "replay"

    def _ledger_now_us(self, now_us: int) -> int | None:
        return None if self._is_replay else now_us - self._delay_us

    def _refuse_decades(self, now_us: int) -> None:
        reach = self._ledger.reach_us(self.name)
        if reach is None or reach == self._reach_us:
            return
        until_us = reach[1] if self._is_replay else max(reach[1], now_us)
        if until_us - reach[0] > self._pace.longest_run_us:
            for spans in self._ledger.spans(self._ledger_now_us(now_us)).values():
                if sum(span.end_us - span.start_us for span in spans) > self._pace.longest_run_us:
                    days = sum(span.end_us - span.start_us for span in spans) // (86_400 * SECOND)
                    raise RunRefusedError(
                        f"run {self.name!r} would last {days} days; no run lasts more than "
                        f"{self._pace.longest_run_us // (86_400 * SECOND)}: some node's clock is wrong"
                    )
        self._reach_us = reach

    def _conclude(self, now_us: int) -> list[Conclusion]:
        """Judge the nodes, and write what follows into the log, to be read from there like all else."""
        if self._is_replay:
            return []
        names = self._ledger.runs(self._ledger_now_us(now_us))
        attempt = self._ledger.running_attempt(names[-1], self._ledger_now_us(now_us)) if names else None
        concluded = self._silence.judge(now_us, attempt)
        if concluded:
            batches = [Batch(self.run.tenant_id, each.batch_id, None, None, [each.event], []) for each in concluded]
            store(self._database, batches)
        return concluded

    # -- booking -----------------------------------------------------------------------------------------------------

    def _book(self, now_us: int, *, more: bool) -> Turn:
        ledger_now_us = self._ledger_now_us(now_us)
        changed = {changes.generation: changes for changes in self._ledger.changes(ledger_now_us)}
        for number, changes in changed.items():
            self._generations.setdefault(number, Generation()).note(changes)
        names = self._ledger.runs(ledger_now_us)
        books = {number: self._ledger.books(run, ledger_now_us) for number, run in enumerate(names, start=1)}
        quiet = not more and now_us - self.last_received_us >= self._pace.quiet_us
        details_begun_us = self._monotonic_us()
        is_due = not more and details_begun_us >= self._details_due_us
        details = {} if more else self._details(books, ledger_now_us, quiet=quiet, is_due=is_due)
        if not more:
            self._look(books, details, now_us, quiet=quiet)
        until_us = self._booked_until_us(books, ledger_now_us)
        written = Written()
        with self._database.write() as connection:
            at_us = self._database.now_us(connection)
            next_look_us = at_us if more else self._next_look_us(books, now_us, until_us, quiet=quiet)
            self.lease = hold(
                connection,
                self.lease,
                at_us,
                folded_seq=self.seq,
                folded_until_us=until_us,
                next_look_us=next_look_us,
            )
            as_of_us = now_us if ledger_now_us is None else ledger_now_us
            for number in sorted({*books, *self._generations}):
                found = books.get(number)
                is_over = found is None or found.status != "running" or (self._is_replay and quiet)
                self._generations.setdefault(number, Generation()).write(
                    connection,
                    Stamp(self.run, number, self.seq, self._version + 1, at_us),
                    Standing(self.name, self.origin, as_of_us, found, details.get(number), changed.get(number)),
                    written,
                    until_us=None if is_over else until_us,
                    freeze=quiet,
                )
            self._write_nodes(connection, now_us)
            num_incidents, num_opened = self.detecting.write(
                connection, self.origin, at_us, self._own_sights(), sights_at_once=next_look_us is None
            )
        if is_due:  # what they cost is mostly the judging of them, and the writing
            ended_us = self._monotonic_us()
            rest_us = round((ended_us - details_begun_us) / self._pace.details_share)
            self._details_due_us = ended_us + min(rest_us, self._pace.details_at_least_every_us)
        if written.changed:
            self._version += 1
        for number in [number for number in self._generations if number not in books]:
            del self._generations[number]
        self._wrote_at_us = self._monotonic_us()
        self.detecting.due_at(next_look_us)
        self._show(books, now_us, until_us)
        return Turn(
            now_us,
            more=more,
            wrote=True,
            next_look_us=next_look_us,
            is_idle=quiet and next_look_us is None,
            num_events=0,
            changed=written.changed,
            differed=written.differed,
            num_minutes=written.booked.num_new,
            num_revised=written.booked.num_revised,
            num_frozen=written.num_frozen,
            num_incidents=num_incidents,
            num_opened=num_opened,
        )

    def _look(self, books: dict[int, Books], details: dict[int, Details], now_us: int, *, quiet: bool) -> None:
        """Have the detectors judge what was read."""
        newest = max(books, default=0)
        self.detecting.note_of_others(self._silence.take_incidents())
        self.detecting.look(
            Moment(
                now_us,
                as_of_us=now_us - self._delay_us,
                books=books.get(newest),
                details=details.get(newest),
                is_replay=self._is_replay,
                seq=self.seq,
                is_over=self._is_over(books, quiet=quiet),
            )
        )

    def _details(
        self, books: dict[int, Books], ledger_now_us: int | None, *, quiet: bool, is_due: bool
    ) -> dict[int, Details]:
        """The records behind the books: of runs about to be frozen, and of all if they can be afforded again."""
        wanted = [number for number in books if is_due or (quiet and self._is_to_freeze(number, books[number]))]
        is_over = self._is_over(books, quiet=quiet)
        if books and self.detecting.wants_books(ledger_now_us or 0, is_replay=self._is_replay, is_over=is_over):
            wanted = sorted({*wanted, max(books)})
        return {number: self._ledger.details(books[number].run, ledger_now_us) for number in wanted}

    def _is_over(self, books: dict[int, Books], *, quiet: bool) -> bool:
        """Whether nothing more is expected of the run."""
        return quiet and (self._is_replay or all(each.status != "running" for each in books.values()))

    def _is_to_freeze(self, number: int, books: Books) -> bool:
        generation = self._generations.get(number)
        return books.status != "running" and (generation is None or not generation.is_frozen)

    def _booked_until_us(self, books: dict[int, Books], ledger_now_us: int | None) -> int:
        """Minutes that end before this are booked now; it never goes back."""
        last = books[max(books)] if books else None
        if last is None:
            return self.lease.folded_until_us
        ended = last.status != "running"
        until_us = -(-last.end_us // MINUTE) * MINUTE if ended else (last.end_us if self._is_replay else ledger_now_us)
        assert until_us is not None
        return max(self.lease.folded_until_us, until_us)

    def _next_look_us(self, books: dict[int, Books], now_us: int, until_us: int, *, quiet: bool) -> int | None:
        """When the run has something to do although nothing comes; None: never."""
        looks = []
        if not quiet:
            looks.append(self.last_received_us + self._pace.quiet_us)
        if self.detecting.is_busy:
            looks.append(now_us)
        if not self._is_replay and any(each.status == "running" for each in books.values()):
            looks += [(until_us // MINUTE + 1) * MINUTE + self._delay_us, now_us + self._pace.look_every_us]
            if self._silence.is_watching:
                looks.append(now_us + self._pace.judge_every_us)
            if self.detecting.has_pending:
                looks.append(now_us + self._pace.settle_us)
        return min(looks, default=None)

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write_nodes(self, connection: Connection, now_us: int) -> None:
        """Write nodes that have turned at once, nodes that were just heard now and then."""
        if not self._silence.has_changed and now_us < self._nodes_due_us:
            return
        self._nodes_due_us = now_us + self._pace.nodes_every_us
        of_run: dict[str, object] = {"tenant_id": self.run.tenant_id, "run_id": self.run.run_id}
        upsert(connection, nodes, [{**of_run, **row} for row in node_rows(self._silence.take_heard())])

    def _own_sights(self) -> dict[str, Sight]:
        return {} if self._is_replay else {deaths.NAME: self._silence.sight()}

    def _show(self, books: dict[int, Books], now_us: int, until_us: int) -> None:
        views = []
        newest = max(books, default=None)
        for number, each in books.items():
            generation = self._generations[number]
            assert generation.head is not None
            views.append(
                LiveRun(
                    run=self.run,
                    generation=number,
                    name=each.run,
                    origin=self.origin,
                    books=each,
                    at_us=now_us,
                    watermark_us=min(until_us, each.end_us),
                    booked=generation.booked,
                    lag_us=self._lag_us,
                    delay_us=self._delay_us,
                    nodes=self._silence.counts(),
                    revision=generation.head.revision,
                    frozen_us=generation.head.frozen_us,
                    incidents=self.detecting.open_incidents() if number == newest else (),
                    sights={**self.detecting.sights(), **self._own_sights()} if number == newest else {},
                    detectors_fault=self.detecting.fault,
                )
            )
        self.views = tuple(views)
