"""The one place that wires the agent's parts together, runs them, and ends them within five seconds of a signal."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from tachograph_agent.sidecar import quiet_log
from tachograph_agent.sidecar.allocation import Allocation
from tachograph_agent.sidecar.bounds import Keeper
from tachograph_agent.sidecar.clockoffset import ClockOffset
from tachograph_agent.sidecar.config import Config, ConfigError, token_in
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.heartbeat import Heartbeat
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.loop import Loop
from tachograph_agent.sidecar.notices import NoticeFiles
from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.sidecar.parsing import version
from tachograph_agent.sidecar.reachable import reachable_address
from tachograph_agent.sidecar.sender import Sender
from tachograph_agent.sidecar.ship import Shipper
from tachograph_agent.spool.layout import refuse_foreign

if TYPE_CHECKING:
    from tachograph_agent.health.runner import Health
    from tachograph_agent.sidecar.logs import LogFollower

DRAIN_S = 4.0
GOODBYE_S = 0.7
"""Together under the five seconds in which an agent that is told to stop has stopped."""
ASKS_ADDRESS_EVERY_S = 60.0
log = logging.getLogger("tachograph.agent")

Watcher = Callable[[float], None]
"""Something that is given a turn at each look at the spool, with the monotonic time. Must not block or raise."""


def run(config: Config) -> int:
    """Run until SIGTERM or SIGINT; gives the exit status."""
    quiet_log.set_up(config.log_format, config.log_level, config.node)
    try:
        config.spool.mkdir(parents=True, exist_ok=True)
        config.state_directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        refuse_foreign(config.state_directory, directory=True)
        lock = _alone(config)
    except OSError as error:
        advice = "'tachograph-agent check' says what else is in the way"
        log.error("the agent can't start: %s; %s", error, advice)  # noqa: TRY400 - the sentence is enough
        return 2
    if lock is None:
        log.error("another agent serves the spool %s; one is enough, so this one ends", config.spool)
        return 2
    try:
        return Agent(config).run()
    finally:
        os.close(lock)


class Agent:
    """A wired agent. ``watchers`` are given a turn at each look at the spool."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.counters = Counters()
        self.own = OwnEvents(config.spool, config.node)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._metrics_at: tuple[str, int] | None = None
        self._metrics_told: str | None = None
        self._asks_metrics_address_s = 0.0
        self._shipper = self._make_shipper()
        self.loop = Loop(
            config.spool,
            config.state_directory,
            Sender(self._shipper, self._wake),
            config.node,
            own=self.own,
            counters=self.counters,
            flush_s=config.flush_s,
            max_bytes_per_s=config.max_bytes_per_s,
        )
        self._heartbeat = Heartbeat(
            self._make_shipper(),
            config.node,
            lambda: self.loop.status,
            self.counters,
            interval_s=config.heartbeat_s,
            clock_offset_s=lambda: self._shipper.clock_offset_s,
            metrics_address=self._metrics_address,
        )
        self.watchers: list[Watcher] = [
            Keeper(self.loop, config.bounds).watch,
            ClockOffset(self.own, lambda: self._shipper.clock_offset_s, lambda: self.loop.status).watch,
            NoticeFiles(config.notice_files, config.state_directory, self.own, self._live_runs).watch,
        ]
        self._health = self._make_health()
        self._logs = self._make_logs()

    def _make_health(self) -> Health | None:
        """The node's checks, which get their turns as a watcher; None if they are not wanted."""
        told = self.config.health
        if told is None:
            return None
        from tachograph_agent.health.ours import node_checks
        from tachograph_agent.health.runner import Health
        from tachograph_agent.sidecar.nodehealth import NodeHealth

        config = self.config
        checks = node_checks(
            config.spool, config.state_directory, lambda: self._shipper.clock_offset_s, told.disks, told.kernel_log
        )
        health = Health(checks, least_every_s=told.least_every_s)
        self.watchers.append(NodeHealth(self.own, health, lambda: self.loop.status, self.counters).watch)
        return health

    def _make_logs(self) -> list[LogFollower]:
        """The logs that this node's agent is to read. Adapters are imported only where there is one."""
        told = self.config
        if not told.logs:
            return []
        from tachograph_agent.sidecar.logowner import reason_not_to_read
        from tachograph_agent.sidecar.logs import LogFollower

        ours = []
        for options in told.logs:
            reason = reason_not_to_read(options.path, told.node, told.log_owner)
            if reason is None:
                ours.append(LogFollower(options, told.state_directory, self.own.keep))
            else:
                log.warning("%s is not followed here: %s", options.path, reason)
        return ours

    def _live_runs(self) -> list[LiveRun]:
        return [live for live in self.loop.liveness.live_runs().values() if live.alive]

    def _make_shipper(self) -> Shipper:
        told = self.config
        return Shipper(
            told.collector,
            told.node,
            token=told.token,
            new_token=self._new_token,
            encoding=told.encoding,
            ca_file=told.ca_file,
            version=version(),
        )

    def _new_token(self) -> str | None:
        """What the token's file says by now: whoever mounts a secret there replaces it before it ends."""
        if self.config.token_file is None:
            return None
        try:
            return token_in(self.config.token_file)
        except ConfigError as error:
            log.warning("%s", error)
            return None

    def run(self) -> int:
        """Run until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)
        _many_files()
        self._serve_metrics()
        log.info("follows %s and ships to %s", self.config.spool, self.config.collector)
        self._heartbeat.start()
        allocation = Allocation(self.own, self.config.holds_gpus)
        allocation.begin()
        for follower in self._logs:
            follower.start()
        while not self._stop.is_set():
            self._turn()
        for follower in self._logs:
            follower.stop()
        allocation.end()
        self._drain()
        return 0

    def _turn(self, *, drain: bool = False) -> None:
        self._wake.clear()
        now_s = time.monotonic()
        wait_s = self.loop.tick(now_s, drain=drain)
        for watcher in self.watchers:
            watcher(now_s)
        self._wake.wait(wait_s)

    def _drain(self) -> None:
        """Ship what is there and say good-bye; what does not go in time stays in the spool for the next agent."""
        until_s = time.monotonic() + DRAIN_S
        is_heard = False
        ending = threading.Thread(target=self._heartbeat.stop, args=(DRAIN_S + GOODBYE_S,), daemon=True)
        ending.start()
        while time.monotonic() < until_s:
            self._turn(drain=True)
            if self.loop.is_empty and not self.loop.is_waiting:
                is_heard = True  # the good-bye will be, too, and may take what is left of the time
                break
            if self.loop.backoff.num_failures and not self.loop.is_waiting:
                break  # the collector is away: there is nobody to drain to
        left_bytes = self.loop.follower.unconfirmed_bytes()
        self.loop.close()
        ending.join(max(until_s - time.monotonic(), GOODBYE_S) if is_heard else GOODBYE_S)
        log.info("stops; %d bytes stay in the spool for the next agent", left_bytes)

    def _told_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()
        self._wake.set()

    def _serve_metrics(self) -> None:
        if self.config.metrics is None:
            return
        from tachograph_agent.sidecar.metrics import AgentMetrics, serve

        try:
            server = serve(
                AgentMetrics(
                    self.counters,
                    lambda: self.loop.status,
                    lambda: self._shipper.clock_offset_s,
                    health_states=self._health.states if self._health is not None else dict,
                ),
                self.config.metrics,
            )
        except OSError as error:
            host, port = self.config.metrics
            log.warning("metrics can't be served at %s:%d (%s); the agent goes on without", host, port, error)
        else:
            self._metrics_at = self.config.metrics[0], server.server_port

    def _metrics_address(self) -> str | None:
        """Where others reach its metrics: found out once, tried seldom until then, since a name server may be slow."""
        now_s = time.monotonic()
        if self._metrics_told is None and self._metrics_at is not None and now_s >= self._asks_metrics_address_s:
            self._asks_metrics_address_s = now_s + ASKS_ADDRESS_EVERY_S
            self._metrics_told = reachable_address(self._metrics_at, self.config.collector)
        return self._metrics_told


def _alone(config: Config) -> int | None:
    """The lock that makes this agent the spool's only one; None if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(config.spool / ".agent.lock", flags, 0o640)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _many_files() -> None:
    """Every segment is an open file: take as many as the system lets us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
