"""Runs the revisions on the connection that ``tachograph_collector.store.upgrade`` hands over."""

from __future__ import annotations

from typing import Any

from alembic import context

connection = context.config.attributes["connection"]
metadata = context.config.attributes.get("metadata")


def _is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Partitions come and go with the weeks; the schema is about the tables that they are parts of."""
    return kind != "table" or name is None or not name.startswith(("events_", "samples_"))


context.configure(
    connection=connection,
    target_metadata=metadata,
    include_name=_is_ours,
    compare_type=True,
    compare_server_default=True,
    transactional_ddl=True,
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
