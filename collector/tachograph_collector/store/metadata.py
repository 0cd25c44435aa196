"""What all tables are made of: the one collection that holds them, and the usual columns.

It holds the tables of the modules that have been imported: all of them are schema.py's and incident_tables.py's.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import JSON, BigInteger, Column, MetaData
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


def key(name: str, kind: Kind = BigInteger) -> Column[Any]:
    """A column of the primary key."""
    return Column(name, kind, primary_key=True, autoincrement=False)


def need(name: str, kind: Kind = BigInteger) -> Column[Any]:
    """A column that every row has."""
    return Column(name, kind, nullable=False)


def may(name: str, kind: Kind = BigInteger) -> Column[Any]:
    """A column that is null where it is unknown."""
    return Column(name, kind, nullable=True)
