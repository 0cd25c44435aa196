"""The load generator: a process of its own that sends prepared requests over kept connections and times the answers.

python bench/load.py '{"port": 8420, "kind": "paced", "num_nodes": 64, "seconds": 20}'

It says ``ready`` when everything is made and connected and the run begins, then sends, and ends with one JSON object:
what was sent and answered, how long answers took from when the request was *due* (so that a server which falls behind
is not spared), and what the sending itself took of the processor.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import cast

import traffic
import uvloop
from traffic import Request

GIVE_UP_S = 60.0
SOON_S = 0.005
AGAIN_S = 0.5


@dataclass
class Told:
    """What became of the requests."""

    count_from_s: float = 0.0
    """Times of answers count for requests that are due no sooner."""
    latencies_s: list[float] = field(default_factory=list)
    num_answered: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    num_steps: int = 0
    bytes_sent: int = 0
    num_closed: int = 0
    first_s: float = 0.0
    last_s: float = 0.0


class Connection(asyncio.Protocol):
    """One kept connection with one request on its way at a time; the others wait for it.

    One that the server has closed while nothing was on its way is opened again, as agents do.
    """

    def __init__(self, told: Told, port: int, begin_s: list[float]) -> None:
        self._told = told
        self._port = port
        self._begin_s = begin_s
        self._waiting: deque[Request] = deque()
        self._on_its_way: Request | None = None
        self._got = b""
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, and send what waits."""
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)
        self._opening = None
        self._next()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """What was on its way is lost; it is counted as status 0."""
        self._transport = None
        self._told.num_closed += 1
        self._told.statuses[0] += self._on_its_way is not None
        self._on_its_way = None
        if self._waiting:
            self._again()

    def put(self, request: Request) -> None:
        """Send it now, or after those before it."""
        self._waiting.append(request)
        if self._transport is None:
            self._again()
        elif self._on_its_way is None:
            self._next()

    def _again(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self.open())

    def _next(self) -> None:
        if not self._waiting or self._transport is None:
            self._on_its_way = None
            return
        self._on_its_way = request = self._waiting.popleft()
        self._told.bytes_sent += len(request.data)
        self._transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        """Some or all of an answer."""
        self._got += data
        head, blank, body = self._got.partition(b"\r\n\r\n")
        if not blank:
            return
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(body) < length:
            return
        self._got = b""
        self._answered(int(head[9:12]))

    def _answered(self, status: int) -> None:
        request = self._on_its_way
        if request is None:
            return
        self._told.statuses[status] += 1
        if status in (429, 503):
            asyncio.get_running_loop().call_later(AGAIN_S, self._retry, request)
            return
        now_s = time.monotonic()
        self._told.num_answered += 1
        if request.due_s >= self._told.count_from_s:
            self._told.latencies_s.append(now_s - self._begin_s[0] - request.due_s)
        self._told.last_s = now_s - self._begin_s[0]
        if status == 200:
            self._told.num_steps += request.num_steps
        self._next()

    def _retry(self, request: Request) -> None:
        self._waiting.appendleft(request)
        self._next()


async def send(port: int, requests: list[Request], start_unix_s: float | None, count_from_s: float = 0.0) -> Told:
    """Send each request when it is due, counted from ``start_unix_s`` (None: at once), and wait for all answers."""
    told, begin_s = Told(count_from_s), [0.0]
    connections = [Connection(told, port, begin_s) for _ in range(max(each.connection for each in requests) + 1)]
    for each in connections:
        await each.open()
    if start_unix_s is not None:
        await asyncio.sleep(start_unix_s - time.time())
    print("ready", flush=True)
    begin_s[0] = time.monotonic()
    for request in requests:
        while (wait_s := request.due_s - (time.monotonic() - begin_s[0])) > 0:
            await asyncio.sleep(max(wait_s, SOON_S))
        connections[request.connection].put(request)
    give_up_s = time.monotonic() + GIVE_UP_S
    while told.num_answered + told.statuses[0] < len(requests) and time.monotonic() < give_up_s:
        await asyncio.sleep(0.02)
    return told


def _summary(told: Told, requests: list[Request], before_s: float) -> dict[str, object]:
    ordered = sorted(told.latencies_s) or [float("nan")]
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "requests": len(requests),
        "answered": told.num_answered,
        "statuses": dict(told.statuses),
        "num_steps": told.num_steps,
        "bytes_sent": told.bytes_sent,
        "closed": told.num_closed,
        "took_s": told.last_s,
        "median_s": ordered[len(ordered) // 2],
        "p99_s": ordered[int(len(ordered) * 0.99)],
        "worst_s": ordered[-1],
        "cpu_s": used.ru_utime + used.ru_stime - before_s,
    }


def main() -> None:
    """Make the requests, send them, say what happened."""
    told = json.loads(sys.argv[1])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    start_unix_s: float | None = None
    if told["kind"] == "paced":
        pace = traffic.Pace(told["num_nodes"], told["seconds"], saves_at_s=told.get("saves_at_s", ()))
        num_requests = pace.num_connections * pace.seconds / pace.flush_s
        start_unix_s = time.time() + 3.0 + told.get("making_s", num_requests * 500e-6)
        requests = traffic.paced(pace, start_unix_s)
        if time.time() > start_unix_s - 1.0:
            sys.exit(f"making the requests took too long: {time.time() - start_unix_s + 3.0:.1f} s too many")
    else:
        made = traffic.backlog(
            time.time() - 86_400.0,
            told["num_batches"],
            steps_per_rank=told.get("steps_per_rank", 64),
            num_nodes=told.get("num_nodes", 64),
            run=told["run"],
        )
        num_connections = told.get("num_connections", 32)
        requests = [each._replace(connection=index % num_connections) for index, each in enumerate(made)]
    used = resource.getrusage(resource.RUSAGE_SELF)
    outcome = uvloop.run(send(told["port"], requests, start_unix_s, told.get("count_from_s", 0.0)))
    print(json.dumps(_summary(outcome, requests, used.ru_utime + used.ru_stime)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
