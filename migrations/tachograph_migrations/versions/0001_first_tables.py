"""The first tables.

PostgreSQL's partitions of a week are made beside the schema, ahead of time; what has none goes to the default one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Bring an empty database here."""
    op.create_table(
        "attempts",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("attempt_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("how", sa.String(length=20), nullable=False),
        sa.Column("world_size", sa.BigInteger(), nullable=True),
        sa.Column("resume_step", sa.BigInteger(), nullable=True),
        sa.Column("told_resume_step", sa.BigInteger(), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("kept_us", sa.BigInteger(), nullable=False),
        sa.Column("lost_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", "attempt_index", name=op.f("attempts_pkey")),
        comment="One row an attempt.",
    )
    op.create_index("attempts_version_idx", "attempts", ["tenant_id", "run_id", "generation", "version"], unique=False)
    op.create_table(
        "batches",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.String(length=200), autoincrement=False, nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("num_accepted", sa.BigInteger(), nullable=False),
        sa.Column("num_rejected", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "batch_id", name=op.f("batches_pkey")),
        comment="What a repeated batch is recognised by; not partitioned, so that the key holds everywhere.",
    )
    op.create_index("batches_received_us_idx", "batches", ["received_us"], unique=False, postgresql_using="brin")
    op.create_table(
        "books",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "generation", sa.SmallInteger(), autoincrement=False, nullable=False, comment="1, or 2 for name#2 ..."
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=20), nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("now_us", sa.BigInteger(), nullable=False, comment="the time as of which it stands"),
        sa.Column(
            "version", sa.BigInteger(), nullable=False, comment="raised with every change of this run's derived rows"
        ),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        sa.Column("kept_us", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint_us", sa.BigInteger(), nullable=False),
        sa.Column("lost_us", sa.BigInteger(), nullable=False),
        sa.Column("restart_us", sa.BigInteger(), nullable=False),
        sa.Column("at_risk_us", sa.BigInteger(), nullable=True),
        sa.Column("num_attempts", sa.BigInteger(), nullable=False),
        sa.Column("num_failures", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("world_size", sa.BigInteger(), nullable=True),
        sa.Column("price_per_gpu_hour", sa.Float(), nullable=True),
        sa.Column(
            "gpu_us", DOCUMENT, nullable=True, comment="held, kept, checkpoint, lost, restart, idle; null: unknown"
        ),
        sa.Column("data", sa.Text(), nullable=False, comment="the ledger's Books, as JSON"),
        sa.Column("anomalies", sa.Text(), nullable=False, comment="the ledger's Anomaly records, as JSON"),
        sa.Column("digest", sa.String(length=64), nullable=True),
        sa.Column("frozen_us", sa.BigInteger(), nullable=True, comment="when a finished run was last frozen"),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", name=op.f("books_pkey")),
        sa.UniqueConstraint("tenant_id", "name", "generation", name="books_tenant_id_name_key"),
        comment="One row a run, as it stands.",
    )
    op.create_table(
        "checkpoints",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("checkpoint_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.String(length=10), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=True),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("blocking_us", sa.BigInteger(), nullable=False),
        sa.Column("landed_us", sa.BigInteger(), nullable=True),
        sa.Column("persist_us", sa.BigInteger(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("tiers", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", "checkpoint_index", name=op.f("checkpoints_pkey")),
        comment="One row a save.",
    )
    op.create_index(
        "checkpoints_version_idx", "checkpoints", ["tenant_id", "run_id", "generation", "version"], unique=False
    )
    op.create_table(
        "events",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=100), nullable=False),
        sa.Column("t_us", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False, comment="the event as one JSON object, unknown fields included"),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "seq", "received_us", name=op.f("events_pkey")),
        comment="Everything but steps and heartbeats, a row each.",
        postgresql_partition_by="RANGE (received_us)",
    )
    op.create_index("events_kind_idx", "events", ["tenant_id", "run_id", "kind", "t_us"], unique=False)
    op.create_table(
        "incidents",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("incident_id", sa.String(length=40), autoincrement=False, nullable=False),
        sa.Column("detector", sa.String(length=50), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("severity", sa.String(length=20), nullable=False),
        sa.Column("opened_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("cleared_us", sa.BigInteger(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("evidence", DOCUMENT, nullable=False),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "incident_id", name=op.f("incidents_pkey")),
        comment="What was flagged: one row while it is open and after.",
    )
    op.create_index("incidents_opened_us_idx", "incidents", ["tenant_id", "run_id", "opened_us"], unique=False)
    op.create_table(
        "leases",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=100), nullable=True),
        sa.Column(
            "fence",
            sa.BigInteger(),
            nullable=False,
            comment="raised when the lease changes hands; checked by each writer",
        ),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column(
            "folded_seq", sa.BigInteger(), nullable=False, comment="derived tables stand as of this sequence number"
        ),
        sa.Column(
            "folded_until_us", sa.BigInteger(), nullable=False, comment="minutes that end before this are booked"
        ),
        sa.Column("next_look_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", name=op.f("leases_pkey")),
        comment="Who folds a run. Apart from runs, so that storing and folding don't wait for each other.",
    )
    op.create_index("leases_until_us_idx", "leases", ["until_us"], unique=False)
    op.create_table(
        "ledger_states",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("saved_us", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.String(length=50), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column(
            "compacted_us",
            sa.BigInteger(),
            nullable=True,
            comment="stretches that ended before this are packed together",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", name=op.f("ledger_states_pkey")),
        comment="The ledger's own saved state, to go on from after a crash.",
    )
    op.create_table(
        "minutes",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kept_us", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint_us", sa.BigInteger(), nullable=False),
        sa.Column("lost_us", sa.BigInteger(), nullable=False),
        sa.Column("restart_us", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.String(length=20), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("incomplete", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("first_booked_us", sa.BigInteger(), nullable=False),
        sa.Column("first_kept_us", sa.BigInteger(), nullable=False),
        sa.Column("first_checkpoint_us", sa.BigInteger(), nullable=False),
        sa.Column("first_lost_us", sa.BigInteger(), nullable=False),
        sa.Column("first_restart_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", "start_us", name=op.f("minutes_pkey")),
        comment="One row a minute: as first booked, and as booked now. All four 0: it belongs to the run no longer.",
    )
    op.create_index("minutes_version_idx", "minutes", ["tenant_id", "run_id", "generation", "version"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("first_heard_us", sa.BigInteger(), nullable=False),
        sa.Column("last_heard_us", sa.BigInteger(), nullable=False, comment="by arrival, on the database's clock"),
        sa.Column("last_heartbeat_us", sa.BigInteger(), nullable=True),
        sa.Column("interval_us", sa.BigInteger(), nullable=True),
        sa.Column(
            "state",
            sa.String(length=20),
            nullable=False,
            comment="alive, suspect, dead, lost (agent only), gone (good-bye)",
        ),
        sa.Column("state_since_us", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("ranks_alive", sa.BigInteger(), nullable=True),
        sa.Column("queue_bytes", sa.BigInteger(), nullable=True),
        sa.Column("dropped", sa.BigInteger(), nullable=True),
        sa.Column("clock_offset_s", sa.Float(), nullable=True),
        sa.Column("agent_version", sa.String(length=50), nullable=True),
        sa.Column("metrics_address", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "node", name=op.f("nodes_pkey")),
        comment="One row a node of a run: when it was last heard of.",
    )
    op.create_table(
        "prunings",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False, comment="step, heartbeat or event"),
        sa.Column("before_us", sa.BigInteger(), nullable=False, comment="what came in before this is gone"),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "kind", name=op.f("prunings_pkey")),
        comment="What was pruned of a run, so that nobody takes what is left for all there was.",
    )
    op.create_table(
        "rejected",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rejected_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.String(length=200), nullable=False),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("line_number", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False, comment="its first 4 KiB"),
        sa.PrimaryKeyConstraint("tenant_id", "rejected_id", name=op.f("rejected_pkey")),
    )
    op.create_index("rejected_received_us_idx", "rejected", ["received_us"], unique=False)
    op.create_table(
        "replicas",
        sa.Column("replica", sa.String(length=100), autoincrement=False, nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.String(length=50), nullable=False),
        sa.PrimaryKeyConstraint("replica", name=op.f("replicas_pkey")),
        comment="Collectors that share this database; one not seen for a while is gone.",
    )
    op.create_table(
        "restarts",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("restart_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("how", sa.String(length=20), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("resumed_at_us", sa.BigInteger(), nullable=True),
        sa.Column("resume_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("lost_us", sa.BigInteger(), nullable=False),
        sa.Column("restart_us", sa.BigInteger(), nullable=False),
        sa.Column("phases_us", DOCUMENT, nullable=False),
        sa.Column("inferred", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", "restart_index", name=op.f("restarts_pkey")),
        comment="One row an interruption: what it cost, and the way back by phase.",
    )
    op.create_index("restarts_version_idx", "restarts", ["tenant_id", "run_id", "generation", "version"], unique=False)
    op.create_table(
        "revisions",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "revision", sa.BigInteger(), autoincrement=False, nullable=False, comment="2 is the first restatement"
        ),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("was_kept_us", sa.BigInteger(), nullable=False),
        sa.Column("was_checkpoint_us", sa.BigInteger(), nullable=False),
        sa.Column("was_lost_us", sa.BigInteger(), nullable=False),
        sa.Column("was_restart_us", sa.BigInteger(), nullable=False),
        sa.Column("kept_us", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint_us", sa.BigInteger(), nullable=False),
        sa.Column("lost_us", sa.BigInteger(), nullable=False),
        sa.Column("restart_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tenant_id", "run_id", "generation", "start_us", "revision", name=op.f("revisions_pkey")
        ),
        comment="Each time that a booked minute was booked differently.",
    )
    op.create_index(
        "revisions_version_idx", "revisions", ["tenant_id", "run_id", "generation", "version"], unique=False
    )
    op.create_table(
        "runs",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "run_id",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="random, drawn by who first stores it",
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "origin", sa.String(length=20), server_default="live", nullable=False, comment="live, replay or rehearsal"
        ),
        sa.Column("first_received_us", sa.BigInteger(), nullable=False),
        sa.Column("last_received_us", sa.BigInteger(), nullable=False),
        sa.Column(
            "last_seq", sa.BigInteger(), nullable=False, comment="raised under this row's lock, by who stores events"
        ),
        sa.Column(
            "delay_us", sa.BigInteger(), nullable=True, comment="how late the newest events came, from t to arrival"
        ),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", name=op.f("runs_pkey")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("runs_tenant_id_key")),
    )
    op.create_table(
        "samples",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "seq", sa.BigInteger(), autoincrement=False, nullable=False, comment="the last of those packed in it"
        ),
        sa.Column("first_seq", sa.BigInteger(), nullable=False, comment="= seq until stretches are packed together"),
        sa.Column("received_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False, comment="step or heartbeat"),
        sa.Column("attempt", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("min_step", sa.BigInteger(), nullable=True),
        sa.Column("max_step", sa.BigInteger(), nullable=True),
        sa.Column("num", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False, comment="columns, packed; store/packing.py"),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "seq", "received_us", name=op.f("samples_pkey")),
        comment="Steps and heartbeats, packed per run, attempt, node and stretch of time.",
        postgresql_partition_by="RANGE (received_us)",
    )
    op.create_index("samples_end_us_idx", "samples", ["tenant_id", "run_id", "kind", "end_us"], unique=False)
    op.create_table(
        "segments",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("folded_seq", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="that of books when this row was last written"),
        sa.Column("start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.String(length=20), nullable=False),
        sa.Column("sub", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("by_attempt", sa.BigInteger(), nullable=True),
        sa.Column("by_rollback", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "generation", "start_us", name=op.f("segments_pkey")),
        comment="The strip of the run: sorted, disjoint, without a gap.",
    )
    op.create_index("segments_version_idx", "segments", ["tenant_id", "run_id", "generation", "version"], unique=False)
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("tenants_pkey")),
        sa.UniqueConstraint("name", name=op.f("tenants_name_key")),
    )
    op.create_table(
        "tokens",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token_id", sa.String(length=32), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of a random 256-bit secret"),
        sa.Column("scopes", DOCUMENT, nullable=False, comment='a list of "ingest", "read", "operate", "admin"'),
        sa.Column("run_patterns", DOCUMENT, nullable=True, comment="shell patterns of runs it may write to; null: all"),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.Column("revoked_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "token_id", name=op.f("tokens_pkey")),
    )
    op.execute("INSERT INTO tenants (tenant_id, name) VALUES (1, 'default')")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE events_default PARTITION OF events DEFAULT")
        op.execute("CREATE TABLE samples_default PARTITION OF samples DEFAULT")
        # It is compressed already; without this PostgreSQL would try once more, at every row, for nothing.
        op.execute("ALTER TABLE samples ALTER COLUMN data SET STORAGE EXTERNAL")
