"""One database, SQLite or PostgreSQL: how it is opened, and how one reads and writes in it.

Writing is durable: PostgreSQL commits with fsync (``synchronous_commit=on``), SQLite with ``synchronous=FULL``. SQLite
has one writer, so writers of this process wait for each other here rather than in its busy handler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S: Final = 30
"""How long SQLite waits for a writer in another process (a second collector on one file is refused elsewhere)."""

RETRY_AFTER_S: Final = 2.0
_MADE_AFTER: Final = "tachograph_made_after_num_closed"


class StoreError(Exception):
    """The database can't be used as it is; the sentence says which, why and what to do."""


class StoreUnavailableError(StoreError):
    """The database does not answer, or answers that it can't now. Worth another try after ``retry_after_s``."""

    def __init__(self, message: str, retry_after_s: float = RETRY_AFTER_S) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Database:
    """Connections to one database. Thread-safe; ``write`` and ``read`` each hold one connection of the pool.

    Raises ``StoreError`` for an address that is none, ``StoreUnavailableError`` where the database is away.
    """

    def __init__(self, url: str, *, pool_size: int = 8) -> None:
        self.url: Final = _parse(url)
        self.dialect: Final[Literal["sqlite", "postgresql"]] = (
            "sqlite" if self.url.get_backend_name() == "sqlite" else "postgresql"
        )
        self._file: tuple[int, int] | None = None
        """Which file SQLite has open: device and inode."""
        self.engine: Final = self._sqlite(pool_size) if self.dialect == "sqlite" else self._postgresql(pool_size)
        self._num_closed = 0
        self._close_those_that_come_back_late()
        self._writing = threading.Lock()

    def __str__(self) -> str:
        return self.url.set(drivername=self.dialect).render_as_string(hide_password=True)

    def _sqlite(self, pool_size: int) -> Engine:
        if self.url.database:
            Path(self.url.database).expanduser().parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=pool_size,
            connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False, "isolation_level": None},
        )

        @event.listens_for(engine, "do_connect")
        def _(*_: object) -> None:
            self._check_file()  # or SQLite makes an empty one in the place of one that was taken away

        @event.listens_for(engine, "connect")
        def _(connection: Any, _record: object) -> None:
            for pragma in (
                "journal_mode=WAL",
                "synchronous=FULL",
                "foreign_keys=ON",
                "temp_store=MEMORY",
                "cache_size=-65536",
            ):
                connection.execute(f"PRAGMA {pragma}")
            self._file = self._file or self._found_file()

        return engine

    def _found_file(self) -> tuple[int, int] | None:
        """What lies where SQLite's file should be; None where there is nothing, or it is in memory."""
        path = self.url.database
        if not path or path == ":memory:":
            return None
        try:
            found = Path(path).expanduser().stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_file(self) -> None:
        """A file that is removed or replaced while it is open goes on to be written, and nobody finds it again."""
        if self._file is not None and self._found_file() != self._file:
            raise StoreUnavailableError(
                f"{self} was removed or replaced while it was in use; put it back, or start the collector again"
            )

    def _postgresql(self, pool_size: int) -> Engine:
        return create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": 5,
                "application_name": "tachograph",
                "options": "-c synchronous_commit=on -c lock_timeout=10s -c idle_in_transaction_session_timeout=60s",
            },
        )

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that is durable when the block has ended. Any exception rolls all of it back."""
        with _told(self):
            if self.dialect == "sqlite":
                with self._writing, self.engine.connect() as connection:
                    yield from _transaction(connection, "BEGIN IMMEDIATE", self._check_file)
            else:
                with self.engine.begin() as connection:
                    yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One snapshot: what is read in the block is of one moment."""
        with _told(self):
            if self.dialect == "sqlite":
                self._check_file()
                with self.engine.connect() as connection:
                    yield from _transaction(connection, "BEGIN")
            else:
                with self.engine.connect() as connection:
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                    with connection.begin():
                        yield connection

    def now_us(self, connection: Connection) -> int:
        """The database's clock, in microseconds since 1970: the one clock that all collectors share."""
        if self.dialect == "sqlite":
            return time.time_ns() // 1000  # the database is this process, and so is its clock
        query = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
        return int(connection.execute(text(query)).scalar_one())

    def close(self) -> None:
        """Close all connections; those that a thread still uses when it gives them back."""
        self._num_closed += 1
        self.engine.dispose()

    def _close_those_that_come_back_late(self) -> None:
        @event.listens_for(self.engine, "connect")
        def _(_connection: Any, record: ConnectionPoolEntry) -> None:
            record.info[_MADE_AFTER] = self._num_closed

        @event.listens_for(self.engine, "checkin")
        def _(_connection: Any, record: ConnectionPoolEntry) -> None:
            if record.info.get(_MADE_AFTER) != self._num_closed:
                record.invalidate()  # or it lies open in a pool that nobody has any more


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            f"{url!r} is no database address; expected sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return parsed.set(drivername="sqlite+pysqlite")
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"{backend} is no database that Tachograph knows; expected sqlite or postgresql")


def _transaction(
    connection: Connection, begin: str, before_commit: Callable[[], None] = lambda: None
) -> Iterator[Connection]:
    connection.exec_driver_sql(begin)
    try:
        yield connection
        before_commit()
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


@contextmanager
def _told(database: Database) -> Iterator[None]:
    """What the driver raises when the database is away, in our words and without its password."""
    try:
        yield
    except (OperationalError, InterfaceError, InternalError, PoolTimeoutError) as error:
        # Internal is what PostgreSQL's driver calls a server that only reads, as one does that was a standby just now.
        reason = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
        raise StoreUnavailableError(f"{database} does not answer: {reason[0] if reason else error!r}") from error
    except DatabaseError as error:
        if type(error) is not DatabaseError:
            raise
        # What SQLite says of a file that is none of its own, or is broken.
        raise StoreError(f"{database} can't be used: {error.orig}") from error
