"""One sink's thread: finds what it is to be told, tells it, and writes down what came of it.

A thread for each sink, with connections of its own, so that one that hangs holds up nobody. What must not be forgotten
is in the database: the next try, how many there were, and who is at it.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tachograph_collector.sinks.config import SinkConfig, shown_address
from tachograph_collector.sinks.decide import BEFORE, CLEARED, Known, Nothing, Skip, Tell, decide
from tachograph_collector.sinks.kinds import MANNERS, sink_for
from tachograph_collector.sinks.telling import NotToldError, Sink, Telling, TellingEvent
from tachograph_collector.store import outbox
from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
from tachograph_collector.store.incident_reader import StoredIncident, read_incident
from tachograph_collector.store.outbox import Delivery, Standing

LOOKS_EVERY_S: Final = 1.0
STANDING_EVERY_S: Final = 5.0
LOOKED_EVERY_S: Final = 30.0
"""So often it is written down how far changes are noted, if there are none."""
AWAY_FOR_S: Final = 5.0
"""After a failure that is about the sink as a whole, nothing is tried for so long."""
BASE_S: Final = 2.0
LONGEST_S: Final = 600.0
AFTER_UNKNOWN_S: Final = 15.0
"""A try whose answer was lost may still be under way over there; asking at once whether it came would be too early."""
CLAIM_BESIDE_S: Final = 30.0
RECORD_TRIES: Final = 5
BEGINS_WITHIN_S: Final = 10.0
"""Who was stopped for longer between claiming and sending no longer sends."""
CHANCE: Final = random.Random().random
"""Its own, since another thread may have set the shared one to repeat what it does."""
_ROWS: Final = 50

log = logging.getLogger("tachograph.sinks")


@dataclass(slots=True)
class Tally:
    """What a sink has done since the collector started. Written by its thread, read by others."""

    sent: int = 0
    failed: int = 0
    dead: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Claim:
    delivery: Delivery
    stored: StoredIncident
    event: TellingEvent
    now_us: int
    at_s: float


class Courier:
    """Tells one sink. ``turn`` does what is due now, for tests; ``start`` does it in a thread until ``stop``."""

    def __init__(
        self,
        database: Database,
        config: SinkConfig,
        holder: str,
        *,
        public_url: str | None = None,
        notify_rehearsals: bool = False,
        sink: Sink | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = CHANCE,
    ) -> None:
        self.config: Final = config
        self.tally: Final = Tally()
        self.standing = Standing()
        self._database = database
        self._holder = holder
        self._public_url = public_url
        self._notify_rehearsals = notify_rehearsals
        self._manner = MANNERS[config.kind]
        self._sink = sink or sink_for(config)
        self._clock = clock
        self._chance = chance
        self._since_us: int | None = None
        self._away_until_s = float("-inf")
        self._standing_due_s = float("-inf")
        self._looked_due_s = float("-inf")
        self._trouble: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tachograph-sink-{config.name}", daemon=True)

    def start(self) -> None:
        """Begin: what is found from here on is told."""
        with contextlib.suppress(StoreError):  # the thread begins, then
            self._begin()
        log.info("sink %s tells %s of incidents", self.config.name, shown_address(self.config))
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End after what is being told; what hangs is left, and tried again by the next collector."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._sink.close()

    def ask_to_stop(self) -> None:
        """End soon, without waiting for it."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(LOOKS_EVERY_S):
            try:
                self.turn()
            except StoreError as error:
                self._say(f"the database can't be asked: {error}")
                self._stopping.wait(AWAY_FOR_S)
            except Exception:
                log.exception("a defect of Tachograph in sink %s", self.config.name)
                self._stopping.wait(AWAY_FOR_S)

    def turn(self) -> int:
        """Note what has changed and tell what is due; how much was told. Raises ``StoreError``."""
        self._note()
        num = 0
        while not self._stopping.is_set() and self._clock() >= self._away_until_s:
            claim = self._claim()
            if claim is None:
                break
            num += self._deliver(claim)
        if self._clock() >= self._standing_due_s:
            with self._database.read() as connection:
                self.standing = outbox.standing(connection, self.config.name)
            self._standing_due_s = self._clock() + STANDING_EVERY_S
        return num

    # -- what there is to tell -----------------------------------------------------------------------------------

    def _begin(self) -> int:
        """Since when changes are to be looked at."""
        if self._since_us is None:
            with self._database.write() as connection:
                now_us = self._database.now_us(connection)
                self._since_us = outbox.begin(connection, self.config.name, now_us, BEFORE)
        return self._since_us

    def _note(self) -> None:
        name = self.config.name
        since_us = self._begin() - outbox.OVERLAP_US
        with self._database.read() as connection:
            now_us = self._database.now_us(connection)
            num = outbox.num_changed(connection, name, since_us)
        if num or self._clock() >= self._looked_due_s:
            with self._database.write() as connection:
                while num:
                    num = outbox.note(connection, name, since_us, now_us)
                outbox.looked(connection, name, now_us)
            self._looked_due_s = self._clock() + LOOKED_EVERY_S
        self._since_us = now_us

    def _claim(self) -> _Claim | None:
        """Go through what is due until there is something to send."""
        name = self.config.name
        with self._database.read() as connection:
            if not outbox.num_due(connection, name, self._database.now_us(connection)):
                return None
        while True:
            with self._database.write() as connection:
                at_s, now_us = self._clock(), self._database.now_us(connection)
                rows = outbox.due(connection, name, now_us, _ROWS)
                for delivery, tenant in rows:
                    stored = read_incident(connection, delivery.key.run, delivery.key.incident_id, at_us=now_us)
                    if stored is None:
                        outbox.leave(connection, delivery, outbox.SKIPPED, "the incident is gone", None)
                        continue
                    known = Known(told=delivery.told, sent_us=delivery.sent_us, told_at_us=delivery.told_at_us)
                    verdict = decide(
                        self.config,
                        self._manner,
                        stored,
                        known,
                        now_us,
                        tenant=tenant,
                        notify_rehearsals=self._notify_rehearsals,
                    )
                    if isinstance(verdict, Tell):
                        lasts_s = 3 * (5.0 + 2 * self.config.timeout_s) + CLAIM_BESIDE_S
                        until_us = now_us + round(lasts_s * 1e6)
                        taken = outbox.take(connection, delivery, self._holder, now_us, until_us)
                        return _Claim(taken, stored, verdict.event, now_us, at_s)
                    if isinstance(verdict, Skip):
                        self.tally.skipped += delivery.state != outbox.SKIPPED
                        outbox.leave(connection, delivery, outbox.SKIPPED, verdict.reason, verdict.look_again_us)
                    elif isinstance(verdict, Nothing):
                        outbox.leave(connection, delivery, outbox.SENT, None, verdict.look_again_us)
            if len(rows) < _ROWS:
                return None

    # -- telling ---------------------------------------------------------------------------------------------------

    def _deliver(self, claim: _Claim) -> int:
        if self._clock() - claim.at_s > BEGINS_WITHIN_S:
            self._fail(claim, NotToldError("this collector was stopped for a while before it could send"))
            return 0
        delivery = claim.delivery
        telling = Telling(
            event=claim.event,
            stored=claim.stored,
            now_us=claim.now_us,
            told=delivery.told,
            remote_id=delivery.remote_id,
            is_retry=delivery.num_tries > 1,
            public_url=self._public_url,
        )
        try:
            remote_id = self._sink.tell(telling)
        except NotToldError as error:
            self._fail(claim, error)
            return 0
        except Exception as error:
            log.exception("a defect of Tachograph: sink %s could not tell an incident", self.config.name)
            self._fail(claim, NotToldError(f"a defect of Tachograph: {type(error).__name__}", is_final=True))
            return 0
        self.tally.sent += 1
        self._well()
        self._record(claim, remote_id or delivery.remote_id)
        return 1

    def _record(self, claim: _Claim, remote_id: str | None) -> None:
        """Write down what was told, if need be again: what is not written down is told again."""
        for number in range(RECORD_TRIES):
            try:
                with self._database.write() as connection:
                    outbox.sent(
                        connection,
                        claim.delivery,
                        self._holder,
                        changed_us=claim.stored.changed_us,
                        told=CLEARED if claim.event == "cleared" else claim.stored.incident.severity,
                        remote_id=remote_id,
                        now_us=self._database.now_us(connection),
                    )
            except StoreUnavailableError:
                if number == RECORD_TRIES - 1 or self._stopping.wait(2.0):
                    raise
            else:
                return

    def _fail(self, claim: _Claim, error: NotToldError) -> None:
        delivery = claim.delivery
        self.tally.failed += 1
        with self._database.write() as connection:
            now_us = self._database.now_us(connection)
            too_old = now_us - delivery.since_us >= self.config.give_up_after_s * 1e6
            next_us = None
            if not error.is_final and not too_old:
                next_us = now_us + round(self._wait_s(delivery.num_tries, error) * 1e6)
            outbox.failed(connection, delivery, self._holder, str(error), next_us)
        if error.is_away:
            self._away_until_s = self._clock() + max(AWAY_FOR_S, error.retry_after_s or 0.0)
        if next_us is None:
            self.tally.dead += 1
            log.error(
                "sink %s: incident %s is given up after %d tries: %s; 'tachograph deliveries --retry' tries it again",
                self.config.name,
                delivery.key.incident_id,
                delivery.num_tries,
                error,
            )
        else:
            self._say(str(error))

    def _wait_s(self, num_tries: int, error: NotToldError) -> float:
        """Any time up to a bound that doubles with each try, at least what was asked for."""
        wait_s = self._chance() * min(LONGEST_S, BASE_S * 2.0 ** min(num_tries, 16))
        if error.may_have_arrived:
            wait_s = max(wait_s, AFTER_UNKNOWN_S)
        return max(wait_s, 0.5, error.retry_after_s or 0.0)

    def _say(self, trouble: str) -> None:
        """Once, until it is something else."""
        if trouble != self._trouble:
            log.warning("sink %s: %s; it is tried again", self.config.name, trouble)
        self._trouble = trouble

    def _well(self) -> None:
        if self._trouble is not None:
            log.info("sink %s takes incidents again", self.config.name)
        self._trouble = None
