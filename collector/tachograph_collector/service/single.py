"""One collector a SQLite file: a second one would fold the same runs beside it, and wait for its every write."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tachograph_collector.store.database import Database, StoreError


@contextmanager
def only_one(database: Database) -> Generator[None, None, None]:
    """Hold the lock beside the database's file; raises ``StoreError`` where another process holds it.

    The lock dies with its process, so nothing is left to clear up. PostgreSQL needs none.
    """
    path = database.url.database
    if database.dialect != "sqlite" or not path or path == ":memory:":
        yield
        return
    lock = Path(f"{path}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"{lock}: {(error.strerror or str(error)).lower()}; the database can't be used there"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                f"another collector uses {path}; stop it, or give this one another --database-url "
                "(several collectors share a PostgreSQL, not a file)"
            ) from error
        yield
    finally:
        os.close(descriptor)
