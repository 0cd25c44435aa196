"""Grafana's role on PostgreSQL: it reads what boards show of one tenant, and can write nothing.

Privileges say which tables it may read, row-level security which rows. Who owns the tables is not held by row-level
security; for any other role but Grafana's a policy lets all through, so a collector that isn't the owner works on.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.exc import ProgrammingError

from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.incident_tables import incident_notes, incidents, sights, silences
from tachograph_collector.store.schema import (
    attempts,
    books,
    checkpoints,
    minutes,
    nodes,
    restarts,
    revisions,
    runs,
    segments,
)
from tachograph_collector.store.tokens import tenant_named

ROLE: Final = "tachograph_grafana"
"""Names of such roles begin so."""
TABLES: Final[tuple[Table, ...]] = (
    *(runs, books, minutes, revisions, segments, attempts, restarts, checkpoints),
    *(nodes, incidents, incident_notes, silences, sights),
)
"""What it may read: nothing of tokens, nothing as it was received."""
OTHERS: Final = "tachograph_others"
"""The policy for everybody else."""
_MAX_QUERY: Final = "60s"
_NAME: Final = re.compile(rf"{ROLE}[a-z0-9_]{{0,40}}")


def make_role(database: Database, tenant: str, password: str, role: str = ROLE) -> list[str]:
    """Make the role, or make it what it should be; what was changed, a phrase each.

    Raises ``StoreError`` for SQLite, a tenant that isn't there, a name that doesn't begin with ``ROLE``, a role that
    may more than read, and where the database's user may not make roles.
    """
    if database.dialect != "postgresql":
        raise StoreError(f"{database} has no roles; Grafana reads PostgreSQL. On SQLite use boards without the ledger")
    if not _NAME.fullmatch(role):
        raise StoreError(f"role {role!r}: expected {ROLE} or {ROLE}_ and lower-case letters, digits or _")
    if not password:
        raise StoreError("an empty password can't be used")
    try:
        with database.write() as connection:
            tenant_id = tenant_named(connection, tenant)
            done = _role(connection, role, password)
            done += _privileges(connection, role)
            for table in TABLES:
                done += _rows(connection, role, table.name, tenant_id)
            return done
    except ProgrammingError as error:
        reason = str(error.orig).strip().splitlines()[0] if error.orig else "it was refused"
        raise StoreError(
            f"{database}: {reason}; it takes the tables' owner with the right to make roles (ALTER ROLE ... CREATEROLE)"
        ) from error


def _run(connection: Connection, statement: str) -> Any:
    return connection.exec_driver_sql(statement)


def _one(connection: Connection, query: str) -> Any:
    return _run(connection, query).first()


def _role(connection: Connection, role: str, password: str) -> list[str]:
    driver: Any = connection.connection.driver_connection
    # Made here, so that the password itself is in no statement that a server may log.
    verifier = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    found = _one(connection, f"SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = '{role}'")  # noqa: S608 # a name of our own
    if found is not None and found[0]:
        raise StoreError(f"role {role} may more than read (superuser, BYPASSRLS or CREATEROLE); drop it, and try again")
    if found is None:
        _run(connection, f"CREATE ROLE {role} LOGIN PASSWORD '{verifier}'")
    else:
        _run(connection, f"ALTER ROLE {role} LOGIN PASSWORD '{verifier}'")
    _run(connection, f"ALTER ROLE {role} SET default_transaction_read_only = on")
    _run(connection, f"ALTER ROLE {role} SET statement_timeout = '{_MAX_QUERY}'")
    return [f"made role {role}" if found is None else f"set the password of role {role}"]


def _privileges(connection: Connection, role: str) -> list[str]:
    database, schema = _one(connection, "SELECT quote_ident(current_database()), quote_ident(current_schema())")
    _run(connection, f"GRANT CONNECT ON DATABASE {database} TO {role}")
    _run(connection, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    _run(connection, f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}")
    _run(connection, f"GRANT SELECT ON {', '.join(table.name for table in TABLES)} TO {role}")
    may_create = f"SELECT has_schema_privilege('{role}', current_schema(), 'CREATE')"
    if _one(connection, may_create)[0]:  # before PostgreSQL 15 anybody could in the schema "public"
        _run(connection, f"GRANT CREATE ON SCHEMA {schema} TO CURRENT_USER")
        _run(connection, f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, {role}")
        if _one(connection, may_create)[0]:
            raise StoreError(f"anybody may make tables in schema {schema}; its owner types: REVOKE CREATE ON SCHEMA "
                             f"{schema} FROM PUBLIC")  # fmt: skip
        return [f"took from everybody the right to make tables in schema {schema}"]
    return []


def _rows(connection: Connection, role: str, table: str, tenant_id: int) -> list[str]:
    """Row-level security of one table. Changes lock it for a moment, so what is right already is left alone."""
    done = []
    policies = f"SELECT policyname, qual FROM pg_policies WHERE schemaname = current_schema() AND tablename = '{table}'"  # noqa: S608 # a name of our own
    known = {str(row[0]): row[1] for row in _run(connection, policies)}
    if OTHERS not in known:
        everybody = f"left(current_user::text, {len(ROLE)}) <> '{ROLE}'"
        _run(connection, f"CREATE POLICY {OTHERS} ON {table} USING ({everybody}) WITH CHECK ({everybody})")
    if known.get(role) != f"(tenant_id = {tenant_id})":
        _run(connection, f"DROP POLICY IF EXISTS {role} ON {table}")
        _run(connection, f"CREATE POLICY {role} ON {table} FOR SELECT TO {role} USING (tenant_id = {tenant_id})")
        done.append(f"{table}: rows of one tenant")
    if not _one(connection, f"SELECT relrowsecurity FROM pg_class WHERE oid = '{table}'::regclass")[0]:  # noqa: S608 # a name of our own
        _run(connection, f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    return done
