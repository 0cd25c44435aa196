"""What detectors say whole, what operators say of it, and what others were told of it.

Incidents that are there already were found when they began, in live runs.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "deliveries",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("incident_id", sa.String(length=40), autoincrement=False, nullable=False),
        sa.Column("sink", sa.String(length=100), autoincrement=False, nullable=False),
        sa.Column(
            "state",
            sa.String(length=20),
            nullable=False,
            comment="sent, waiting (to be tried again), skipped, dead (given up)",
        ),
        sa.Column(
            "noted_us", sa.BigInteger(), nullable=False, comment="changed_us of the incident as it was last looked at"
        ),
        sa.Column("sent_us", sa.BigInteger(), nullable=True, comment="changed_us of the incident as it was last told"),
        sa.Column(
            "told",
            sa.String(length=20),
            nullable=True,
            comment="its severity as last told, or cleared; null: never told",
        ),
        sa.Column(
            "told_at_us", sa.BigInteger(), nullable=True, comment="when it was last told, on the database's clock"
        ),
        sa.Column("remote_id", sa.Text(), nullable=True, comment="what the other side calls it"),
        sa.Column(
            "num_tries",
            sa.BigInteger(),
            nullable=False,
            comment="of what is to be told now; the one under way counts",
        ),
        sa.Column("since_us", sa.BigInteger(), nullable=False, comment="since when that is to be told"),
        sa.Column("next_try_us", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True, comment="why the last try failed, or why it is skipped"),
        sa.Column("claimed_by", sa.String(length=100), nullable=True),
        sa.Column("claimed_until_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "incident_id", "sink", name=op.f("deliveries_pkey")),
        comment="What each sink was told of each incident.",
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index("deliveries_state_idx", ["state", "next_try_us"], unique=False)

    op.create_table(
        "detector_states",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("saved_us", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.String(length=50), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", name=op.f("detector_states_pkey")),
        comment="Saved states of the detectors, to go on from after a crash.",
    )
    op.create_table(
        "incident_notes",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("incident_id", sa.String(length=40), autoincrement=False, nullable=False),
        sa.Column("note_id", sa.String(length=32), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False, comment="the token's name, or what the operator said"),
        sa.Column("what", sa.String(length=20), nullable=False, comment="acknowledged, unacknowledged, annotated"),
        sa.Column("text", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "incident_id", "note_id", name=op.f("incident_notes_pkey")),
        comment="What operators said of incidents; only ever added to.",
    )
    op.create_table(
        "sights",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("detector", sa.String(length=50), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False, comment="armed, eligible, blind"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("num_evaluations", sa.BigInteger(), nullable=False),
        sa.Column("num_verdicts", sa.BigInteger(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "detector", name=op.f("sights_pkey")),
        comment="How well each detector sees each run.",
    )
    op.create_table(
        "silences",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("silence_id", sa.String(length=32), autoincrement=False, nullable=False),
        sa.Column("run_pattern", sa.Text(), nullable=True, comment="a shell pattern; null: all runs"),
        sa.Column("detector", sa.String(length=50), nullable=True, comment="null: all"),
        sa.Column("subject", sa.Text(), nullable=True, comment="a shell pattern; null: all"),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True, comment="taken back before its time"),
        sa.PrimaryKeyConstraint("tenant_id", "silence_id", name=op.f("silences_pkey")),
        comment="Of which incidents nobody is to be told, and until when. They are recorded all the same.",
    )
    op.create_table(
        "sinks",
        sa.Column("sink", sa.String(length=100), autoincrement=False, nullable=False),
        sa.Column("first_us", sa.BigInteger(), nullable=False, comment="incidents that were found before are not told"),
        sa.Column(
            "looked_us",
            sa.BigInteger(),
            nullable=False,
            comment="what changed before was looked at; kept up while it runs",
        ),
        sa.PrimaryKeyConstraint("sink", name=op.f("sinks_pkey")),
        comment="Since when each sink is told of incidents.",
    )
    with op.batch_alter_table("incidents", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "origin",
                sa.String(length=20),
                nullable=True,
                comment="the run's: who is paged is told of live ones only",
            )
        )
        batch_op.add_column(sa.Column("found_us", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("outcome", sa.Text(), nullable=True))
        batch_op.add_column(
            sa.Column("cost", DOCUMENT, nullable=True, comment="wall_s, gpu_hours, money, basis; null: unknown")
        )
        batch_op.add_column(sa.Column("advice", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("consequence_of", sa.String(length=40), nullable=True))
        batch_op.add_column(sa.Column("attempt", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("is_replayed", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(
            sa.Column(
                "changed_us",
                sa.BigInteger(),
                nullable=True,
                comment="when this row was last written, on the database's clock",
            )
        )
    op.execute("UPDATE incidents SET origin = 'live', found_us = opened_us, changed_us = updated_us")
    with op.batch_alter_table("incidents", schema=None) as batch_op:
        batch_op.alter_column(
            "origin",
            existing_type=sa.String(length=20),
            nullable=False,
            existing_comment="the run's: who is paged is told of live ones only",
        )
        batch_op.alter_column("found_us", existing_type=sa.BigInteger(), nullable=False)
        batch_op.alter_column(
            "changed_us",
            existing_type=sa.BigInteger(),
            nullable=False,
            existing_comment="when this row was last written, on the database's clock",
        )
        batch_op.create_index("incidents_changed_us_idx", ["changed_us"], unique=False)
        batch_op.create_index("incidents_node_idx", ["tenant_id", "node"], unique=False)
        batch_op.create_index("incidents_fleet_idx", ["tenant_id", "opened_us"], unique=False)
        batch_op.create_index(
            "incidents_open_idx",
            ["tenant_id", "opened_us"],
            unique=False,
            sqlite_where=sa.text("cleared_us IS NULL"),
            postgresql_where=sa.text("cleared_us IS NULL"),
        )
