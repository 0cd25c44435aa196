"""Brings a database to the schema of this version, and tells who may not go on because it is another's.

The embedded SQLite is upgraded when it is opened. PostgreSQL is upgraded by ``tachograph db upgrade`` only: replicas of
two versions may share it for a while, and its owner decides when the older ones end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import tachograph_migrations
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from tachograph_collector.store import incident_tables, schema  # noqa: F401  # they put their tables into metadata
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.metadata import metadata
from tachograph_collector.store.partitions import NAME, make_partitions

_UPGRADE_LOCK: Final = 0x7AC0_6BA9
"""Transaction-bound, so it is safe behind a pooler."""


class SchemaError(StoreError):
    """The database is at another schema than this version; the sentence says which and what to do."""


def newest() -> str:
    """The revision that this version works with."""
    head = _scripts(_config()).get_current_head()
    assert head is not None, "the wheel carries no revisions"
    return head


def revisions() -> list[str]:
    """Every revision, the first one first."""
    return [script.revision for script in _scripts(_config()).walk_revisions()][::-1]


def revision(database: Database) -> str | None:
    """The revision that the database is at; None for one without a table of ours. Raises ``StoreUnavailableError``."""
    with database.read() as connection:
        return _revision(connection)


def check_schema(database: Database) -> None:
    """Raise ``SchemaError`` unless the database is at this version's schema; needs it to answer."""
    found, wanted = revision(database), newest()
    if found == wanted:
        return
    if found is None:
        raise SchemaError(f"{database} has no tables of Tachograph yet; type: tachograph db upgrade --database-url ...")
    if found in revisions():
        raise SchemaError(
            f"{database} is at schema {found}, and this version needs {wanted}; "
            "type: tachograph db upgrade --database-url ..."
        )
    raise SchemaError(
        f"{database} is at schema {found}, which this version does not know (its own is {wanted}): a newer Tachograph "
        "upgraded it; install that version"
    )


def upgrade(database: Database, to: str | None = None) -> list[str]:
    """Bring the database to the newest schema, or to revision ``to``, in one transaction; the revisions gone through.

    Makes PostgreSQL's partitions too. Raises ``SchemaError`` for a newer schema, ``StoreUnavailableError``.
    """
    known = revisions()
    with database.write() as connection:
        if database.dialect == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
        found = _revision(connection)
        if found is not None and found not in known:
            raise SchemaError(
                f"{database} is at schema {found}, which is newer than this version's {known[-1]}; install that version"
            )
        command.upgrade(_config(connection), to or "head")
    if to is None:
        make_partitions(database)
    first = 0 if found is None else known.index(found) + 1
    last = len(known) if to is None else known.index(to) + 1
    return known[first:last]


def prepare(database: Database) -> None:
    """Make the database ready for a collector, or say why it can't be.

    SQLite is upgraded; PostgreSQL has to be at this version's schema, and gets its next partitions. Raises
    ``SchemaError``, ``StoreUnavailableError``.
    """
    if database.dialect == "sqlite":
        if (found := revision(database)) != newest():
            if found is not None and found not in revisions():
                check_schema(database)
            upgrade(database)
        return
    check_schema(database)
    make_partitions(database)


def differences(database: Database) -> list[str]:
    """How the database's tables differ from what this version expects, a line each; empty if they don't."""
    with database.read() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: kind != "table" or not NAME.fullmatch(name or ""),
            },
        )
        return [str(each) for each in compare_metadata(context, metadata)]


def new_revision(database: Database, message: str) -> Path:
    """Write a revision module of what ``differences`` tells, numbered after the newest; for ``migrations/``."""
    number = f"{int(newest()) + 1:04d}"
    with database.write() as connection:
        made = command.revision(_config(connection), message, autogenerate=True, rev_id=number)
    assert isinstance(made, Script)
    return Path(made.path)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(tachograph_migrations.__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    config.attributes["metadata"] = metadata
    return config


def _scripts(config: Config) -> ScriptDirectory:
    return ScriptDirectory.from_config(config)
