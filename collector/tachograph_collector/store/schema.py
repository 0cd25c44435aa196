"""The tables, for SQLite and PostgreSQL alike. ``migrations/`` brings a database here, one revision at a time.

Every table but ``tenants`` begins its key with the tenant, and what belongs to a run goes on with the run, so that the
database can be distributed by them. Times are whole microseconds since 1970 (``_us``), as in the ledger.

Two halves. What was **received** is never changed by what is concluded from it: ``batches``, ``events``, ``samples``,
``rejected``. What was **folded** from it can be made anew at any time, and says up to which sequence number it was
folded (``folded_seq``): ``books`` and everything below it.

On PostgreSQL, ``events`` and ``samples`` are partitioned by the week in which they came in (partitions.py); that is why
``received_us`` stands in their keys, though ``seq`` alone is unique within a run.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

metadata: Final = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

Kind = TypeEngine[Any] | type[TypeEngine[Any]]

Document: Final[TypeEngine[Any]] = JSON().with_variant(JSONB(), "postgresql")


def _key(name: str, kind: Kind = BigInteger) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _need(name: str, kind: Kind = BigInteger) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _may(name: str, kind: Kind = BigInteger) -> Column[Any]:
    return Column(name, kind, nullable=True)


# -- who ------------------------------------------------------------------------------------------------------------

tenants = Table(
    "tenants",
    metadata,
    _key("tenant_id"),
    Column("name", String(200), nullable=False, unique=True),
)

tokens = Table(
    "tokens",
    metadata,
    _key("tenant_id"),
    _key("token_id", String(32)),
    _need("name", String(200)),
    Column("secret_hash", LargeBinary, nullable=False, comment="SHA-256 of a random 256-bit secret"),
    Column("scopes", Document, nullable=False, comment='a list of "ingest", "read", "operate", "admin"'),
    Column("run_patterns", Document, nullable=True, comment="shell patterns of runs it may write to; null: all"),
    _need("created_us"),
    _may("expires_us"),
    _may("revoked_us"),
)

replicas = Table(
    "replicas",
    metadata,
    _key("replica", String(100)),
    _need("started_us"),
    _need("seen_us"),
    _need("version", String(50)),
    comment="Collectors that share this database; one not seen for a while is gone.",
)

# -- received -------------------------------------------------------------------------------------------------------

runs = Table(
    "runs",
    metadata,
    _key("tenant_id"),
    Column("run_id", BigInteger, primary_key=True, autoincrement=False, comment="random, drawn by who first stores it"),
    _need("name", Text),
    Column("origin", String(20), nullable=False, server_default="live", comment="live, replay or rehearsal"),
    _need("first_received_us"),
    _need("last_received_us"),
    Column("last_seq", BigInteger, nullable=False, comment="raised under this row's lock, by who stores events"),
    Column("delay_us", BigInteger, nullable=True, comment="how late the newest events came, from t to arrival"),
    UniqueConstraint("tenant_id", "name"),
)

batches = Table(
    "batches",
    metadata,
    _key("tenant_id"),
    _key("batch_id", String(200)),
    _need("received_us"),
    _need("num_accepted"),
    _need("num_rejected"),
    Index("batches_received_us_idx", "received_us", postgresql_using="brin"),
    comment="What a repeated batch is recognised by; not partitioned, so that the key holds everywhere.",
)

events = Table(
    "events",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _key("seq"),
    _key("received_us"),
    _need("kind", String(100)),
    _need("t_us"),
    _may("attempt", Text),
    _may("node", Text),
    _may("rank"),
    _may("step"),
    Column("body", Text, nullable=False, comment="the event as one JSON object, unknown fields included"),
    Index("events_kind_idx", "tenant_id", "run_id", "kind", "t_us"),
    comment="Everything but steps and heartbeats, a row each.",
    postgresql_partition_by="RANGE (received_us)",
)

samples = Table(
    "samples",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    Column("seq", BigInteger, primary_key=True, autoincrement=False, comment="the last of those packed in it"),
    Column("first_seq", BigInteger, nullable=False, comment="= seq until stretches are packed together"),
    _key("received_us"),
    Column("kind", String(20), nullable=False, comment="step or heartbeat"),
    _may("attempt", Text),
    _may("node", Text),
    _need("start_us"),
    _need("end_us"),
    _may("min_step"),
    _may("max_step"),
    _need("num"),
    Column("data", LargeBinary, nullable=False, comment="columns, packed; store/packing.py"),
    Index("samples_end_us_idx", "tenant_id", "run_id", "kind", "end_us"),
    comment="Steps and heartbeats, packed per run, attempt, node and stretch of time.",
    postgresql_partition_by="RANGE (received_us)",
)

rejected = Table(
    "rejected",
    metadata,
    _key("tenant_id"),
    _key("rejected_id"),
    _need("received_us"),
    _need("batch_id", String(200)),
    _may("agent", Text),
    _need("line_number"),
    _need("reason", Text),
    Column("line", LargeBinary, nullable=False, comment="its first 4 KiB"),
    Index("rejected_received_us_idx", "received_us"),
)

prunings = Table(
    "prunings",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    Column("kind", String(20), primary_key=True, comment="step, heartbeat or event"),
    Column("before_us", BigInteger, nullable=False, comment="what came in before this is gone"),
    _need("at_us"),
    comment="What was pruned of a run, so that nobody takes what is left for all there was.",
)

# -- folding --------------------------------------------------------------------------------------------------------

leases = Table(
    "leases",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _may("holder", String(100)),
    Column("fence", BigInteger, nullable=False, comment="raised when the lease changes hands; checked by each writer"),
    _need("until_us"),
    Column("folded_seq", BigInteger, nullable=False, comment="derived tables stand as of this sequence number"),
    Column("folded_until_us", BigInteger, nullable=False, comment="minutes that end before this are booked"),
    _may("next_look_us"),
    Index("leases_until_us_idx", "until_us"),
    comment="Who folds a run. Apart from runs, so that storing and folding don't wait for each other.",
)

ledger_states = Table(
    "ledger_states",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _need("seq"),
    _need("saved_us"),
    _need("version", String(50)),
    _need("data", LargeBinary),
    Column("compacted_us", BigInteger, nullable=True, comment="stretches that ended before this are packed together"),
    comment="The ledger's own saved state, to go on from after a crash.",
)

# -- folded ---------------------------------------------------------------------------------------------------------

books = Table(
    "books",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    Column("generation", SmallInteger, primary_key=True, autoincrement=False, comment="1, or 2 for name#2 ..."),
    _need("name", Text),
    _need("origin", String(20)),
    _need("folded_seq"),
    Column("now_us", BigInteger, nullable=False, comment="the time as of which it stands"),
    Column("version", BigInteger, nullable=False, comment="raised with every change of this run's derived rows"),
    _need("status", String(20)),
    _need("start_us"),
    _need("end_us"),
    _need("wall_us"),
    _need("kept_us"),
    _need("checkpoint_us"),
    _need("lost_us"),
    _need("restart_us"),
    _may("at_risk_us"),
    _need("num_attempts"),
    _need("num_failures"),
    _need("steps"),
    _may("world_size"),
    _may("price_per_gpu_hour", Float),
    Column("gpu_us", Document, nullable=True, comment="held, kept, checkpoint, lost, restart, idle; null: unknown"),
    Column("data", Text, nullable=False, comment="the ledger's Books, as JSON"),
    Column("anomalies", Text, nullable=False, comment="the ledger's Anomaly records, as JSON"),
    _may("digest", String(64)),
    Column("frozen_us", BigInteger, nullable=True, comment="when a finished run was last frozen"),
    _need("revision"),
    UniqueConstraint("tenant_id", "name", "generation", name="books_tenant_id_name_key"),
    comment="One row a run, as it stands.",
)


def _folded(name: str, *columns: Column[Any] | Index, comment: str) -> Table:
    """A table of what was folded, by run and generation, and by version for who reads what changed since."""
    return Table(
        name,
        metadata,
        _key("tenant_id"),
        _key("run_id"),
        Column("generation", SmallInteger, primary_key=True, autoincrement=False),
        Column("folded_seq", BigInteger, nullable=False),
        Column("version", BigInteger, nullable=False, comment="that of books when this row was last written"),
        *columns,
        Index(f"{name}_version_idx", "tenant_id", "run_id", "generation", "version"),
        comment=comment,
    )


minutes = _folded(
    "minutes",
    _key("start_us"),
    _need("kept_us"),
    _need("checkpoint_us"),
    _need("lost_us"),
    _need("restart_us"),
    _need("label", String(20)),
    _need("revision"),
    Column("incomplete", Boolean, nullable=False, server_default=false()),
    _need("first_booked_us"),
    _need("first_kept_us"),
    _need("first_checkpoint_us"),
    _need("first_lost_us"),
    _need("first_restart_us"),
    comment="One row a minute: as first booked, and as booked now. All four 0: it belongs to the run no longer.",
)

revisions = _folded(
    "revisions",
    _key("start_us"),
    Column("revision", BigInteger, primary_key=True, autoincrement=False, comment="2 is the first restatement"),
    _need("at_us"),
    _need("was_kept_us"),
    _need("was_checkpoint_us"),
    _need("was_lost_us"),
    _need("was_restart_us"),
    _need("kept_us"),
    _need("checkpoint_us"),
    _need("lost_us"),
    _need("restart_us"),
    comment="Each time that a booked minute was booked differently.",
)

segments = _folded(
    "segments",
    _key("start_us"),
    _need("end_us"),
    _need("account", String(20)),
    _need("sub", String(40)),
    _need("attempt"),
    _may("cause", Text),
    _may("by_attempt"),
    _may("by_rollback"),
    comment="The strip of the run: sorted, disjoint, without a gap.",
)

attempts = _folded(
    "attempts",
    Column("attempt_index", BigInteger, primary_key=True, autoincrement=False),
    _need("name", Text),
    _need("start_us"),
    _need("end_us"),
    _need("how", String(20)),
    _may("world_size"),
    _may("resume_step"),
    _may("told_resume_step"),
    _may("first_step"),
    _may("last_step"),
    _may("category", Text),
    _need("kept_us"),
    _need("lost_us"),
    comment="One row an attempt.",
)

restarts = _folded(
    "restarts",
    Column("restart_index", BigInteger, primary_key=True, autoincrement=False),
    _need("attempt"),
    _need("how", String(20)),
    _need("at_us"),
    _may("category", Text),
    _may("node", Text),
    _may("rank"),
    _may("detail", Text),
    _may("resumed_at_us"),
    _may("resume_step"),
    _may("last_step"),
    _need("lost_us"),
    _need("restart_us"),
    Column("phases_us", Document, nullable=False),
    Column("inferred", Boolean, nullable=False, server_default=false()),
    comment="One row an interruption: what it cost, and the way back by phase.",
)

checkpoints = _folded(
    "checkpoints",
    Column("checkpoint_index", BigInteger, primary_key=True, autoincrement=False),
    _need("attempt"),
    _need("step"),
    _need("mode", String(10)),
    _may("start_us"),
    _may("end_us"),
    _need("blocking_us"),
    _may("landed_us"),
    _may("persist_us"),
    _may("bytes"),
    _need("state", String(20)),
    Column("tiers", Document, nullable=False),
    comment="One row a save.",
)

nodes = Table(
    "nodes",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _key("node", Text),
    _need("first_heard_us"),
    Column("last_heard_us", BigInteger, nullable=False, comment="by arrival, on the database's clock"),
    _may("last_heartbeat_us"),
    _may("interval_us"),
    Column("state", String(20), nullable=False, comment="alive, suspect, dead, lost (agent only), gone (good-bye)"),
    _need("state_since_us"),
    _may("step"),
    _may("ranks_alive"),
    _may("queue_bytes"),
    _may("dropped"),
    _may("clock_offset_s", Float),
    _may("agent_version", String(50)),
    _may("metrics_address", Text),
    comment="One row a node of a run: when it was last heard of.",
)

incidents = Table(
    "incidents",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _key("incident_id", String(40)),
    Column("origin", String(20), nullable=False, comment="the run's: who is paged is told of live ones only"),
    _need("detector", String(50)),
    _need("subject", Text),
    _need("severity", String(20)),
    _need("opened_us"),
    _need("found_us"),
    _need("updated_us"),
    _may("cleared_us"),
    _may("outcome", Text),
    _need("summary", Text),
    Column("evidence", Document, nullable=False),
    Column("cost", Document, nullable=True, comment="wall_s, gpu_hours, money, basis; null: unknown"),
    _may("advice", Text),
    _may("consequence_of", String(40)),
    _may("attempt", Text),
    _may("node", Text),
    _may("rank"),
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
    _key("tenant_id"),
    _key("run_id"),
    _key("incident_id", String(40)),
    _key("note_id", String(32)),
    _need("at_us"),
    Column("author", Text, nullable=False, comment="the token's name, or what the operator said"),
    Column("what", String(20), nullable=False, comment="acknowledged, unacknowledged, annotated"),
    _may("text", Text),
    comment="What operators said of incidents; only ever added to.",
)

silences = Table(
    "silences",
    metadata,
    _key("tenant_id"),
    _key("silence_id", String(32)),
    Column("run_pattern", Text, nullable=True, comment="a shell pattern; null: all runs"),
    Column("detector", String(50), nullable=True, comment="null: all"),
    Column("subject", Text, nullable=True, comment="a shell pattern; null: all"),
    _may("node", Text),
    _need("from_us"),
    _need("until_us"),
    _need("author", Text),
    _need("why", Text),
    _need("created_us"),
    Column("ended_us", BigInteger, nullable=True, comment="taken back before its time"),
    comment="Of which incidents nobody is to be told, and until when. They are recorded all the same.",
)

deliveries = Table(
    "deliveries",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _key("incident_id", String(40)),
    _key("sink", String(100)),
    Column("state", String(20), nullable=False, comment="sent, waiting (to be tried again), skipped, dead (given up)"),
    Column("noted_us", BigInteger, nullable=False, comment="changed_us of the incident as it was last looked at"),
    Column("sent_us", BigInteger, nullable=True, comment="changed_us of the incident as it was last told"),
    Column("told", String(20), nullable=True, comment="its severity as last told, or cleared; null: never told"),
    Column("told_at_us", BigInteger, nullable=True, comment="when it was last told, on the database's clock"),
    Column("remote_id", Text, nullable=True, comment="what the other side calls it"),
    Column("num_tries", BigInteger, nullable=False, comment="of what is to be told now; the one under way counts"),
    Column("since_us", BigInteger, nullable=False, comment="since when that is to be told"),
    _may("next_try_us"),
    Column("error", Text, nullable=True, comment="why the last try failed, or why it is skipped"),
    _may("claimed_by", String(100)),
    _may("claimed_until_us"),
    Index("deliveries_state_idx", "state", "next_try_us"),
    comment="What each sink was told of each incident.",
)

sinks = Table(
    "sinks",
    metadata,
    _key("sink", String(100)),
    Column("first_us", BigInteger, nullable=False, comment="incidents that were found before are not told"),
    Column("looked_us", BigInteger, nullable=False, comment="what changed before was looked at; kept up while it runs"),
    comment="Since when each sink is told of incidents.",
)

detector_states = Table(
    "detector_states",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _need("seq"),
    _need("saved_us"),
    _need("version", String(50)),
    _need("data", LargeBinary),
    comment="Saved states of the detectors, to go on from after a crash.",
)

sights = Table(
    "sights",
    metadata,
    _key("tenant_id"),
    _key("run_id"),
    _key("detector", String(50)),
    Column("state", String(20), nullable=False, comment="armed, eligible, blind"),
    _need("reason", Text),
    _need("num_evaluations"),
    _need("num_verdicts"),
    _need("at_us"),
    comment="How well each detector sees each run.",
)

FOLDED: Final = (books, minutes, revisions, segments, attempts, restarts, checkpoints)
"""Tables that ``tachograph db rebuild`` makes anew."""
