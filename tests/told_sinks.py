"""Incidents in a database, and couriers over it that a test makes go by hand, as if time flew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import stored_incidents
from msgspec.structs import replace
from sqlalchemy import func, insert, select, update
from tachograph_collector.detect import Incident
from tachograph_collector.sinks.config import LEAST, Kind, SinkConfig
from tachograph_collector.sinks.courier import Courier
from tachograph_collector.sinks.secret import Secret
from tachograph_collector.sinks.telling import NotToldError, Sink, Telling
from tachograph_collector.store import silences
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_rows import incident_row
from tachograph_collector.store.incident_tables import deliveries, incidents
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import runs

S = 1_000_000
RUN = RunKey(1, 77)


def config(kind: Kind = "webhook", name: str = "own", url: str = "http://127.0.0.1:9", **more: Any) -> SinkConfig:
    """A sink's settings."""
    told: dict[str, Any] = {"min_severity": LEAST[kind], "timeout_s": 30.0}
    if kind == "grafana":
        told["token"] = Secret("env", "T", "glsa_secret")
    return SinkConfig(name=name, kind=kind, url=Secret("text", "url", url), **(told | more))


@dataclass
class Ear:
    """A sink that remembers what it was told; ``fails`` are raised first, one a try."""

    heard: list[Telling] = field(default_factory=list)
    fails: list[NotToldError] = field(default_factory=list)

    def tell(self, telling: Telling) -> str | None:
        """Hear, or fail."""
        if self.fails:
            raise self.fails.pop(0)
        self.heard.append(telling)
        return f"remote-{len(self.heard)}"

    def close(self) -> None:
        """Nothing to close."""

    @property
    def events(self) -> list[str]:
        """What it was told, in order."""
        return [each.event for each in self.heard]


class World:
    """A run of the default tenant, its incidents, and time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now_s = 1000.0
        with database.write() as connection:
            now_us = database.now_us(connection)
            row = {"first_received_us": now_us, "last_received_us": now_us, "last_seq": 1, "delay_us": 0}
            connection.execute(insert(runs).values(tenant_id=1, run_id=77, name="llama-1", origin="live", **row))
        self.began_us = now_us

    def courier(
        self, sink: Sink | None = None, told: SinkConfig | None = None, holder: str = "a", **more: Any
    ) -> Courier:
        """One that never waits by chance, and has begun: what is open now it does not tell."""
        made = Courier(
            self.database, told or config(), holder, sink=sink, clock=lambda: self.now_s, chance=lambda: 1.0, **more
        )
        made.turn()
        return made

    def now_us(self) -> int:
        """The database's time."""
        with self.database.read() as connection:
            return self.database.now_us(connection)

    def incident(self, subject: str = "rank 7", *, origin: str = "live", ago_s: float = 60, **more: Any) -> Incident:
        """A new one, open unless ``cleared_us`` says when it was over."""
        one = stored_incidents.incident("llama-1", subject=subject, opened_us=self.began_us - round(ago_s * S), **more)
        with self.database.write() as connection:
            stored_incidents.put(connection, RUN, one, origin=origin, changed_us=self.database.now_us(connection))
        return one

    def change(self, one: Incident, **more: Any) -> Incident:
        """Write it as it is now."""
        changed = replace(one, **more)
        c = incidents.c
        with self.database.write() as connection:
            values = incident_row(changed) | {"changed_us": self.database.now_us(connection)}
            connection.execute(update(incidents).where(c.incident_id == one.incident_id).values(**values))
        return changed

    def clear(self, one: Incident, outcome: str = "recovered") -> Incident:
        """It is over, now."""
        return self.change(one, cleared_us=self.began_us, outcome=outcome)

    def silence(self, **about: Any) -> str:
        """Of these nobody is told for an hour; its id."""
        sides: dict[str, Any] = {"run_pattern": None, "detector": None, "subject": None, "node": None} | about
        with self.database.write() as connection:
            now_us = self.database.now_us(connection)
            made = silences.add_silence(
                connection,
                1,
                from_us=now_us - 1,
                until_us=now_us + 3600 * S,
                author="me",
                why="w",
                now_us=now_us,
                **sides,
            )
        return made.silence_id

    def end_silence(self, silence_id: str) -> None:
        """Take it back."""
        with self.database.write() as connection:
            silences.end_silence(connection, 1, silence_id, now_us=self.database.now_us(connection))

    def hours_pass(self, hours: float = 0.1) -> None:
        """All that is in the outbox is as if it had been so much earlier: waits are over, claims have run out."""
        self.now_s += hours * 3600
        d, us = deliveries.c, round(hours * 3600 * S)
        moved = {name: d[name] - us for name in ("since_us", "next_try_us", "claimed_until_us", "told_at_us")}
        with self.database.write() as connection:
            connection.execute(update(deliveries).values(**moved))

    def row(self, one: Incident, sink: str = "own") -> Any:
        """Its row in the outbox."""
        d = deliveries.c
        with self.database.read() as connection:
            query = select(deliveries).where(d.incident_id == one.incident_id, d.sink == sink)
            return connection.execute(query).one()

    def num_rows(self) -> int:
        """How many rows the outbox has."""
        with self.database.read() as connection:
            return int(connection.execute(select(func.count()).select_from(deliveries)).scalar_one())
