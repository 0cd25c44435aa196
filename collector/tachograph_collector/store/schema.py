"""The tables of what was received and folded, for SQLite and PostgreSQL alike; ``migrations/`` brings a database here.

Every table but ``tenants`` begins its key with the tenant, and what belongs to a run goes on with the run, so that the
database can be distributed by them. Times are whole microseconds since 1970 (``_us``), as in the ledger.

Two halves. What was **received** is never changed by what is concluded from it: ``batches``, ``events``, ``samples``,
``rejected``. What was **folded** from it can be made anew at any time, and says up to which sequence number it was
folded (``folded_seq``): ``books`` and everything below it. What was flagged has its tables in incident_tables.py.

On PostgreSQL, ``events`` and ``samples`` are partitioned by the week in which they came in (partitions.py); that is why
``received_us`` stands in their keys, though ``seq`` alone is unique within a run.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    LargeBinary,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from tachograph_collector.store.metadata import Document, key, may, metadata, need

# -- who ------------------------------------------------------------------------------------------------------------

tenants = Table(
    "tenants",
    metadata,
    key("tenant_id"),
    Column("name", String(200), nullable=False, unique=True),
)

tokens = Table(
    "tokens",
    metadata,
    key("tenant_id"),
    key("token_id", String(32)),
    need("name", String(200)),
    Column("secret_hash", LargeBinary, nullable=False, comment="SHA-256 of a random 256-bit secret"),
    Column("scopes", Document, nullable=False, comment='a list of "ingest", "read", "operate", "admin"'),
    Column("run_patterns", Document, nullable=True, comment="shell patterns of runs it may write to; null: all"),
    need("created_us"),
    may("expires_us"),
    may("revoked_us"),
)

replicas = Table(
    "replicas",
    metadata,
    key("replica", String(100)),
    need("started_us"),
    need("seen_us"),
    need("version", String(50)),
    comment="Collectors that share this database; one not seen for a while is gone.",
)

# -- received -------------------------------------------------------------------------------------------------------

runs = Table(
    "runs",
    metadata,
    key("tenant_id"),
    Column("run_id", BigInteger, primary_key=True, autoincrement=False, comment="random, drawn by who first stores it"),
    need("name", Text),
    Column("origin", String(20), nullable=False, server_default="live", comment="live, replay or rehearsal"),
    need("first_received_us"),
    need("last_received_us"),
    Column("last_seq", BigInteger, nullable=False, comment="raised under this row's lock, by who stores events"),
    Column("delay_us", BigInteger, nullable=True, comment="how late the newest events came, from t to arrival"),
    UniqueConstraint("tenant_id", "name"),
)

batches = Table(
    "batches",
    metadata,
    key("tenant_id"),
    key("batch_id", String(200)),
    need("received_us"),
    need("num_accepted"),
    need("num_rejected"),
    Index("batches_received_us_idx", "received_us", postgresql_using="brin"),
    comment="What a repeated batch is recognised by; not partitioned, so that the key holds everywhere.",
)

events = Table(
    "events",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("seq"),
    key("received_us"),
    need("kind", String(100)),
    need("t_us"),
    may("attempt", Text),
    may("node", Text),
    may("rank"),
    may("step"),
    Column("body", Text, nullable=False, comment="the event as one JSON object, unknown fields included"),
    Index("events_kind_idx", "tenant_id", "run_id", "kind", "t_us"),
    comment="Everything but steps and heartbeats, a row each.",
    postgresql_partition_by="RANGE (received_us)",
)

samples = Table(
    "samples",
    metadata,
    key("tenant_id"),
    key("run_id"),
    Column("seq", BigInteger, primary_key=True, autoincrement=False, comment="the last of those packed in it"),
    Column("first_seq", BigInteger, nullable=False, comment="= seq until stretches are packed together"),
    key("received_us"),
    Column("kind", String(20), nullable=False, comment="step or heartbeat"),
    may("attempt", Text),
    may("node", Text),
    need("start_us"),
    need("end_us"),
    may("min_step"),
    may("max_step"),
    need("num"),
    Column("data", LargeBinary, nullable=False, comment="columns, packed; store/packing.py"),
    Index("samples_end_us_idx", "tenant_id", "run_id", "kind", "end_us"),
    comment="Steps and heartbeats, packed per run, attempt, node and stretch of time.",
    postgresql_partition_by="RANGE (received_us)",
)

rejected = Table(
    "rejected",
    metadata,
    key("tenant_id"),
    key("rejected_id"),
    need("received_us"),
    need("batch_id", String(200)),
    may("agent", Text),
    need("line_number"),
    need("reason", Text),
    Column("line", LargeBinary, nullable=False, comment="its first 4 KiB"),
    Index("rejected_received_us_idx", "received_us"),
)

prunings = Table(
    "prunings",
    metadata,
    key("tenant_id"),
    key("run_id"),
    Column("kind", String(20), primary_key=True, comment="step, heartbeat or event"),
    Column("before_us", BigInteger, nullable=False, comment="what came in before this is gone"),
    need("at_us"),
    comment="What was pruned of a run, so that nobody takes what is left for all there was.",
)

# -- folding --------------------------------------------------------------------------------------------------------

leases = Table(
    "leases",
    metadata,
    key("tenant_id"),
    key("run_id"),
    may("holder", String(100)),
    Column("fence", BigInteger, nullable=False, comment="raised when the lease changes hands; checked by each writer"),
    need("until_us"),
    Column("folded_seq", BigInteger, nullable=False, comment="derived tables stand as of this sequence number"),
    Column("folded_until_us", BigInteger, nullable=False, comment="minutes that end before this are booked"),
    may("next_look_us"),
    Index("leases_until_us_idx", "until_us"),
    comment="Who folds a run. Apart from runs, so that storing and folding don't wait for each other.",
)

ledger_states = Table(
    "ledger_states",
    metadata,
    key("tenant_id"),
    key("run_id"),
    need("seq"),
    need("saved_us"),
    need("version", String(50)),
    need("data", LargeBinary),
    Column("compacted_us", BigInteger, nullable=True, comment="stretches that ended before this are packed together"),
    comment="The ledger's own saved state, to go on from after a crash.",
)

# -- folded ---------------------------------------------------------------------------------------------------------

books = Table(
    "books",
    metadata,
    key("tenant_id"),
    key("run_id"),
    Column("generation", SmallInteger, primary_key=True, autoincrement=False, comment="1, or 2 for name#2 ..."),
    need("name", Text),
    need("origin", String(20)),
    need("folded_seq"),
    Column("now_us", BigInteger, nullable=False, comment="the time as of which it stands"),
    Column("version", BigInteger, nullable=False, comment="raised with every change of this run's derived rows"),
    need("status", String(20)),
    need("start_us"),
    need("end_us"),
    need("wall_us"),
    need("kept_us"),
    need("checkpoint_us"),
    need("lost_us"),
    need("restart_us"),
    may("at_risk_us"),
    need("num_attempts"),
    need("num_failures"),
    need("steps"),
    may("world_size"),
    may("price_per_gpu_hour", Float),
    Column("gpu_us", Document, nullable=True, comment="held, kept, checkpoint, lost, restart, idle; null: unknown"),
    Column("data", Text, nullable=False, comment="the ledger's Books, as JSON"),
    Column("anomalies", Text, nullable=False, comment="the ledger's Anomaly records, as JSON"),
    may("digest", String(64)),
    Column("frozen_us", BigInteger, nullable=True, comment="when a finished run was last frozen"),
    need("revision"),
    UniqueConstraint("tenant_id", "name", "generation", name="books_tenant_id_name_key"),
    comment="One row a run, as it stands.",
)


def _folded(name: str, *columns: Column[Any] | Index, comment: str) -> Table:
    """A table of what was folded, by run and generation, and by version for who reads what changed since."""
    return Table(
        name,
        metadata,
        key("tenant_id"),
        key("run_id"),
        Column("generation", SmallInteger, primary_key=True, autoincrement=False),
        Column("folded_seq", BigInteger, nullable=False),
        Column("version", BigInteger, nullable=False, comment="that of books when this row was last written"),
        *columns,
        Index(f"{name}_version_idx", "tenant_id", "run_id", "generation", "version"),
        comment=comment,
    )


minutes = _folded(
    "minutes",
    key("start_us"),
    need("kept_us"),
    need("checkpoint_us"),
    need("lost_us"),
    need("restart_us"),
    need("label", String(20)),
    need("revision"),
    Column("incomplete", Boolean, nullable=False, server_default=false()),
    need("first_booked_us"),
    need("first_kept_us"),
    need("first_checkpoint_us"),
    need("first_lost_us"),
    need("first_restart_us"),
    comment="One row a minute: as first booked, and as booked now. All four 0: it belongs to the run no longer.",
)

revisions = _folded(
    "revisions",
    key("start_us"),
    Column("revision", BigInteger, primary_key=True, autoincrement=False, comment="2 is the first restatement"),
    need("at_us"),
    need("was_kept_us"),
    need("was_checkpoint_us"),
    need("was_lost_us"),
    need("was_restart_us"),
    need("kept_us"),
    need("checkpoint_us"),
    need("lost_us"),
    need("restart_us"),
    comment="Each time that a booked minute was booked differently.",
)

segments = _folded(
    "segments",
    key("start_us"),
    need("end_us"),
    need("account", String(20)),
    need("sub", String(40)),
    need("attempt"),
    may("cause", Text),
    may("by_attempt"),
    may("by_rollback"),
    comment="The strip of the run: sorted, disjoint, without a gap.",
)

attempts = _folded(
    "attempts",
    Column("attempt_index", BigInteger, primary_key=True, autoincrement=False),
    need("name", Text),
    need("start_us"),
    need("end_us"),
    need("how", String(20)),
    may("world_size"),
    may("resume_step"),
    may("told_resume_step"),
    may("first_step"),
    may("last_step"),
    may("category", Text),
    need("kept_us"),
    need("lost_us"),
    comment="One row an attempt.",
)

restarts = _folded(
    "restarts",
    Column("restart_index", BigInteger, primary_key=True, autoincrement=False),
    need("attempt"),
    need("how", String(20)),
    need("at_us"),
    may("category", Text),
    may("node", Text),
    may("rank"),
    may("detail", Text),
    may("resumed_at_us"),
    may("resume_step"),
    may("last_step"),
    need("lost_us"),
    need("restart_us"),
    Column("phases_us", Document, nullable=False),
    Column("inferred", Boolean, nullable=False, server_default=false()),
    comment="One row an interruption: what it cost, and the way back by phase.",
)

checkpoints = _folded(
    "checkpoints",
    Column("checkpoint_index", BigInteger, primary_key=True, autoincrement=False),
    need("attempt"),
    need("step"),
    need("mode", String(10)),
    may("start_us"),
    may("end_us"),
    need("blocking_us"),
    may("landed_us"),
    may("persist_us"),
    may("bytes"),
    need("state", String(20)),
    Column("tiers", Document, nullable=False),
    comment="One row a save.",
)

nodes = Table(
    "nodes",
    metadata,
    key("tenant_id"),
    key("run_id"),
    key("node", Text),
    need("first_heard_us"),
    Column("last_heard_us", BigInteger, nullable=False, comment="by arrival, on the database's clock"),
    may("last_heartbeat_us"),
    may("interval_us"),
    Column("state", String(20), nullable=False, comment="alive, suspect, dead, lost (agent only), gone (good-bye)"),
    need("state_since_us"),
    may("step"),
    may("ranks_alive"),
    may("queue_bytes"),
    may("dropped"),
    may("clock_offset_s", Float),
    may("agent_version", String(50)),
    may("metrics_address", Text),
    comment="One row a node of a run: when it was last heard of.",
)

FOLDED: Final = (books, minutes, revisions, segments, attempts, restarts, checkpoints)
"""Tables that ``tachograph db rebuild`` makes anew."""
