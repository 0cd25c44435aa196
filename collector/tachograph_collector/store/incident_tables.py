"""The tables of what was flagged: incidents, who was told of them and who need not be, and how well detectors see.

As schema.py's, they begin their key with the tenant, and what belongs to a run goes on with the run.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, String, Table, Text, false, text

from tachograph_collector.store.metadata import Document, key, may, metadata, need

incidents = Table(
    "incidents",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("incident_id", String(40)),
    Column("origin", String(20), nullable=False, comment="the run's: who is paged is told of live ones only"),
    need("detector", String(50)),
    need("subject", Text),
    need("severity", String(20)),
    need("opened_us"),
    need("found_us"),
    need("updated_us"),
    may("cleared_us"),
    may("outcome", Text),
    need("summary", Text),
    Column("evidence", Document, nullable=False),
    Column("cost", Document, nullable=True, comment="wall_s, gpu_hours, money, basis; null: unknown"),
    may("advice", Text),
    may("consequence_of", String(40)),
    may("attempt", Text),
    may("node", Text),
    may("rank"),
    Column("is_replayed", Boolean, nullable=False, server_default=false()),
    Column("changed_us", BigInteger, nullable=False, comment="when this row was last written, on the database's clock"),
    Index("incidents_opened_us_idx", "tenant_id", "run_id", "opened_us"),
    Index("incidents_node_idx", "tenant_id", "node"),
    Index("incidents_changed_us_idx", "changed_us"),
    Index("incidents_fleet_idx", "tenant_id", "opened_us"),
    Index(
        "incidents_open_idx",
        "tenant_id",
        "opened_us",
        sqlite_where=text("cleared_us IS NULL"),
        postgresql_where=text("cleared_us IS NULL"),
    ),
    comment="What was flagged: one row while it is open and after.",
)

incident_notes = Table(
    "incident_notes",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("incident_id", String(40)),
    key("note_id", String(32)),
    need("at_us"),
    Column("author", Text, nullable=False, comment="the token's name, or what the operator said"),
    Column("what", String(20), nullable=False, comment="acknowledged, unacknowledged, annotated"),
    may("text", Text),
    comment="What operators said of incidents; only ever added to.",
)

silences = Table(
    "silences",
    metadata,
    key("tenant_id"),
    key("silence_id", String(32)),
    Column("run_pattern", Text, nullable=True, comment="a shell pattern; null: all runs"),
    Column("detector", String(50), nullable=True, comment="null: all"),
    Column("subject", Text, nullable=True, comment="a shell pattern; null: all"),
    may("node", Text),
    need("from_us"),
    need("until_us"),
    need("author", Text),
    need("why", Text),
    need("created_us"),
    Column("ended_us", BigInteger, nullable=True, comment="taken back before its time"),
    comment="Of which incidents nobody is to be told, and until when. They are recorded all the same.",
)

deliveries = Table(
    "deliveries",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("incident_id", String(40)),
    key("sink", String(100)),
    Column("state", String(20), nullable=False, comment="sent, waiting (to be tried again), skipped, dead (given up)"),
    Column("noted_us", BigInteger, nullable=False, comment="changed_us of the incident as it was last looked at"),
    Column("sent_us", BigInteger, nullable=True, comment="changed_us of the incident as it was last told"),
    Column("told", String(20), nullable=True, comment="its severity as last told, or cleared; null: never told"),
    Column("told_at_us", BigInteger, nullable=True, comment="when it was last told, on the database's clock"),
    Column("remote_id", Text, nullable=True, comment="what the other side calls it"),
    Column("num_tries", BigInteger, nullable=False, comment="of what is to be told now; the one under way counts"),
    Column("since_us", BigInteger, nullable=False, comment="since when that is to be told"),
    may("next_try_us"),
    Column("error", Text, nullable=True, comment="why the last try failed, or why it is skipped"),
    may("claimed_by", String(100)),
    may("claimed_until_us"),
    Index("deliveries_state_idx", "state", "next_try_us"),
    comment="What each sink was told of each incident.",
)

sinks = Table(
    "sinks",
    metadata,
    key("sink", String(100)),
    Column("first_us", BigInteger, nullable=False, comment="incidents that were found before are not told"),
    Column("looked_us", BigInteger, nullable=False, comment="what changed before was looked at; kept up while it runs"),
    comment="Since when each sink is told of incidents.",
)

detector_states = Table(
    "detector_states",
    metadata,
    key("tenant_id"),
    key("run_id"),
    need("seq"),
    need("saved_us"),
    need("version", String(50)),
    need("data", LargeBinary),
    comment="Saved states of the detectors, to go on from after a crash.",
)

sights = Table(
    "sights",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("detector", String(50)),
    Column("state", String(20), nullable=False, comment="armed, eligible, blind"),
    need("reason", Text),
    need("num_evaluations"),
    need("num_verdicts"),
    need("at_us"),
    comment="How well each detector sees each run.",
)
