"""Runs one collector until it is told to stop: opens what it needs, serves, and lets go of everything in order."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

import uvicorn

from tachograph_collector.detect import SettingsError
from tachograph_collector.live.keeper import Keeper
from tachograph_collector.live.thresholds import ThresholdsFile
from tachograph_collector.service import logs
from tachograph_collector.service.app import create_app
from tachograph_collector.service.protocol import BoundedProtocol
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.single import only_one
from tachograph_collector.service.state import Service
from tachograph_collector.store.database import Database
from tachograph_collector.store.tokens import list_tokens
from tachograph_collector.store.upgrade import prepare

GIL_SWITCH_S = 0.0005
"""A thread that comes back from the database or the network waits so long for one that computes, not 5 ms each time."""
GC_THRESHOLDS = (5_000, 2, 200)
"""A full collection holds up every thread while it looks through all that is held, for a tenth of a second with 2,048
nodes. By default it came every few seconds; now it comes once for two million objects made and kept. Nearly all that is
let go is freed without it."""
BACKLOG = 4096
KEEP_ALIVE_S = 75
FILES_BESIDE = 256
ENDS_WITHIN = 2
"""Times the settings' ``stop_timeout_s``: once for the requests, once for everything else."""

log = logging.getLogger("tachograph.service")


class ServeError(Exception):
    """The collector can't run as it was told; the sentence says what keeps it and what to do."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises ``ServeError``, and ``StoreError`` for the database."""
    sys.setswitchinterval(GIL_SWITCH_S)
    logs.set_up(settings.log_format, settings.log_level)
    _check_tls(settings)
    thresholds = _thresholds(settings)
    _raise_file_limit(settings.max_connections)
    with ExitStack() as stack:
        database = Database(settings.database_url)
        stack.callback(database.close)
        stack.enter_context(only_one(database))
        prepare(database)
        _check_open(settings, database)
        listener = stack.enter_context(_listener(settings))
        keeper = Keeper(database, settings.replica, thresholds=thresholds)
        app = create_app(settings, database, keeper)
        server = _Server(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=BoundedProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # what a client says of itself is no proof; --public-url is for a proxy in front
                limit_concurrency=settings.max_connections,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=round(settings.stop_timeout_s),
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
            )
        )
        server.stops = lambda: _stop(app.state.service)
        port = listener.getsockname()[1]
        scheme = "https" if settings.has_tls else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        server.says = f"serving {scheme}://{host}:{port}, database {database}, version {version('tachograph')}"
        server.run(sockets=[listener])
        log.info("stopped")


def _raise_file_limit(num_connections: int) -> None:
    """Each connection takes a file descriptor, and a shell gives 1,024 of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = num_connections + FILES_BESIDE
    if soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def _check_open(settings: Settings, database: Database) -> None:
    """Refuse an address that others can reach while there is no token that they could be asked for."""
    if settings.is_loopback or settings.insecure:
        return
    with database.read() as connection:
        now_us = database.now_us(connection)
        if any(token.state(now_us) == "active" for token in list_tokens(connection)):
            return
    raise ServeError(
        f"--host {settings.host} can be reached by others, and there is no token that they could be asked for; "
        "make one with 'tachograph token create NAME', or add --insecure to let everybody in, or keep to 127.0.0.1"
    )


def _thresholds(settings: Settings) -> ThresholdsFile | None:
    try:
        return None if settings.thresholds is None else ThresholdsFile(settings.thresholds)
    except SettingsError as error:
        raise ServeError(f"--thresholds: {error}") from error


def _check_tls(settings: Settings) -> None:
    """Refuse a certificate or a key that can't be used before anything is opened."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    where = f"--tls-cert {settings.tls_cert} --tls-key {settings.tls_key}"
    for path in (settings.tls_cert, settings.tls_key):
        try:
            Path(path).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ServeError(f"{where}: {path} can't be read: {reason}") from error
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")  # rather than asking
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ServeError(
            f"{where}: not a certificate chain and its key, both PEM and the key without a password ({reason})"
        ) from error


@contextmanager
def _listener(settings: Settings) -> Generator[socket.socket, None, None]:
    where = f"--host {settings.host} --port {settings.port}"
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ServeError(f"{where}: that host has no address here ({error}); give one of this machine") from error
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            advice = {
                errno.EADDRINUSE: "something listens there already; stop it, or give another --port",
                errno.EACCES: "this user may not; give a --port above 1023",
                errno.EADDRNOTAVAIL: "that is no address of this machine; give one with --host",
            }.get(error.errno or 0, (error.strerror or str(error)).lower())
            raise ServeError(f"{where}: {advice}") from error
        yield listener


def _stop(service: Service) -> None:
    """Take nothing more from here on, and see to it that there is an end, whatever hangs."""
    service.is_stopping = True
    within_s = ENDS_WITHIN * service.settings.stop_timeout_s
    last = threading.Timer(within_s, _end_at_once, [within_s])
    last.daemon = True
    last.start()


def _end_at_once(within_s: float) -> None:
    """Threads that wait for a database that hangs can't be ended otherwise; what was answered is stored."""
    log.error("did not end within %g s, since something does not answer; ends as it is", within_s)
    os._exit(0)


class _Server(uvicorn.Server):
    """uvicorn, ended by SIGTERM and SIGINT without dying of them, so that everything is let go in order."""

    says = ""
    stops: Callable[[], None] = staticmethod(lambda: None)
    """Called once, when it is told to stop."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        told = (signal.SIGTERM, signal.SIGINT)
        for number in told:
            loop.add_signal_handler(number, self._told_to_stop, number)
        try:
            yield
        finally:
            for number in told:
                loop.remove_signal_handler(number)

    def _told_to_stop(self, number: int) -> None:
        log.info("told to stop by %s", signal.Signals(number).name)
        self.force_exit = self.should_exit and number == signal.SIGINT
        if not self.should_exit:
            self.stops()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _set_apart_what_stays()
        log.info(self.says)


def _set_apart_what_stays() -> None:
    """Keep the garbage collector from looking through the program itself, which is 160,000 objects or so, again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
