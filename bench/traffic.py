"""What agents send, made before it is sent: requests as bytes, so that sending them costs the machine little.

``paced`` is a large run as it goes: every rank tells every step, every agent flushes what its ranks have told and sends
heartbeats on a connection of its own. ``backlog`` is the same run's steps in large batches, for as fast as it goes.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

RUN = "bench/llama"
RANKS_PER_NODE = 8
LEVEL = 1


class Request(NamedTuple):
    """When it is due, in seconds after the start; over which connection it goes; how many rank-steps are in it."""

    due_s: float
    connection: int
    num_steps: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Pace:
    """A run of ``num_nodes`` with eight ranks each."""

    num_nodes: int
    seconds: float
    step_s: float = 4.0
    flush_s: float = 5.0
    heartbeat_s: float = 5.0
    saves_at_s: Sequence[float] = ()
    """When every rank saves, synchronously, for two seconds."""
    run: str = RUN

    @property
    def num_connections(self) -> int:
        """An agent sends batches and heartbeats over one each."""
        return 2 * self.num_nodes

    @property
    def rank_steps_per_s(self) -> float:
        """How many steps all ranks tell in a second."""
        return self.num_nodes * RANKS_PER_NODE / self.step_s


def request(body: Sequence[bytes], batch_id: str, agent: str, *, origin: str = "live") -> bytes:
    """An HTTP request as the agent makes it."""
    packed = gzip.compress(b"".join(body), LEVEL)
    head = (
        f"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
        f"Content-Encoding: gzip\r\nTachograph-Agent: {agent}/1.0\r\nTachograph-Batch: {batch_id}\r\n"
        f"Tachograph-Origin: {origin}\r\nContent-Length: {len(packed)}\r\n\r\n"
    )
    return head.encode() + packed


def _who(run: str, node: int, rank: int) -> bytes:
    told = {"run": run, "attempt": "1", "node": f"node-{node:05d}", "rank": rank}
    return json.dumps(told, separators=(",", ":"))[1:-1].encode()


def _starts(
    pace: Pace, start_unix_s: float, node: int, whose: Sequence[bytes], rng: random.Random
) -> Iterator[tuple[float, bytes]]:
    """What a node's ranks tell besides steps, each with when, in seconds after the start."""
    world = pace.num_nodes * RANKS_PER_NODE
    if node == 0:
        told = json.dumps({"kind": "run.start", "run": pace.run, "t": start_unix_s, "gpus": world, "world_size": world})
        yield 0.0, told.encode() + b"\n"
    for who in whose:
        at_s = rng.uniform(0.0, 2.0)
        yield (
            at_s,
            b'{"kind":"attempt.start",%s,"t":%.6f,"resume_step":0,"world_size":%d}\n'
            % (
                who,
                start_unix_s + at_s,
                world,
            ),
        )
        for save_s in pace.saves_at_s:
            number = int(save_s / pace.step_s)
            begin_s = number * pace.step_s + rng.uniform(0.06, 0.2)
            t = start_unix_s + begin_s
            yield begin_s, b'{"kind":"checkpoint.start",%s,"t":%.6f,"step":%d,"mode":"async"}\n' % (who, t, number)
            yield (
                begin_s + 2,
                b'{"kind":"checkpoint.saved",%s,"t":%.6f,"step":%d,"mode":"async","dur":2.0}\n'
                % (
                    who,
                    t + 2,
                    number,
                ),
            )


def paced(pace: Pace, start_unix_s: float, seed: int = 11) -> list[Request]:
    """Every request of the run's first ``seconds``, in the order in which they are due."""
    rng = random.Random(seed)
    requests: list[Request] = []
    for node in range(pace.num_nodes):
        name = f"node-{node:05d}"
        whose = [_who(pace.run, node, node * RANKS_PER_NODE + rank) for rank in range(RANKS_PER_NODE)]
        told = [(at_s, 0, line) for at_s, line in _starts(pace, start_unix_s, node, whose, rng)]
        for number in range(1, int(pace.seconds / pace.step_s) + 1):
            loss = 2.0 + 8.0 / (1.0 + number * 0.001)
            for who in whose:
                dur_s = pace.step_s + rng.uniform(-0.02, 0.02)
                at_s = number * pace.step_s + rng.uniform(0.0, 0.05)
                line = b'{"kind":"step",%s,"t":%.6f,"step":%d,"dur":%.6f,"loss":%.6f}\n' % (
                    who,
                    start_unix_s + at_s,
                    number,
                    dur_s,
                    loss,
                )
                told.append((at_s, 1, line))
        told.sort(key=lambda each: each[0])
        requests += _flushes(pace, node, name, told, rng)
        requests += _heartbeats(pace, start_unix_s, node, name, rng)
    requests.sort()
    return requests


def _flushes(
    pace: Pace, node: int, name: str, told: Sequence[tuple[float, int, bytes]], rng: random.Random
) -> Iterator[Request]:
    due_s = rng.uniform(0.0, pace.flush_s)
    first = number = 0
    while due_s <= pace.seconds:
        after = first
        while after < len(told) and told[after][0] <= due_s:
            after += 1
        if after > first:
            body = [line for _, _, line in told[first:after]]
            num_steps = sum(is_step for _, is_step, _ in told[first:after])
            yield Request(due_s, 2 * node, num_steps, request(body, f"{name}-{number}-{rng.getrandbits(64):x}", name))
            number += 1
        first = after
        due_s += pace.flush_s * rng.uniform(0.9, 1.1)


def _heartbeats(pace: Pace, start_unix_s: float, node: int, name: str, rng: random.Random) -> Iterator[Request]:
    due_s = rng.uniform(0.0, pace.heartbeat_s)
    number = 0
    ranks = [node * RANKS_PER_NODE + rank for rank in range(RANKS_PER_NODE)]
    while due_s <= pace.seconds:
        number += 1
        event = {
            "kind": "heartbeat",
            "t": round(start_unix_s + due_s, 6),
            "run": pace.run,
            "attempt": "1",
            "node": name,
            "seq": number,
            "interval_s": pace.heartbeat_s,
            "ranks_alive": RANKS_PER_NODE,
            "ranks": ranks,
            "step": int(due_s / pace.step_s),
            "queue_bytes": 0,
            "dropped": 0,
            "clock_offset_s": 0.0004,
        }
        body = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        yield Request(due_s, 2 * node + 1, 0, request([body], f"beat-{rng.getrandbits(64):x}-{number}", name))
        due_s += pace.heartbeat_s


def backlog(
    start_unix_s: float,
    num_batches: int,
    *,
    run: str,
    steps_per_rank: int = 64,
    num_nodes: int = 64,
    seed: int = 11,
) -> list[Request]:
    """Batches of eight ranks' next ``steps_per_rank`` steps, of one node after another; all are due at once."""
    rng = random.Random(seed)
    requests: list[Request] = []
    for number in range(num_batches):
        node, stretch = number % num_nodes, number // num_nodes
        whose = [_who(run, node, node * RANKS_PER_NODE + rank) for rank in range(RANKS_PER_NODE)]
        body = [
            b'{"kind":"step",%s,"t":%.6f,"step":%d,"dur":%.6f,"loss":%.6f}\n'
            % (
                who,
                start_unix_s + step + rng.uniform(0.0, 0.05),
                step,
                rng.uniform(0.98, 1.02),
                2.0 + 8.0 / (1.0 + step * 0.001),
            )
            for step in range(stretch * steps_per_rank + 1, (stretch + 1) * steps_per_rank + 1)
            for who in whose
        ]
        data = request(body, f"{run}-{number}-{rng.getrandbits(64):x}", f"node-{node:05d}")
        requests.append(Request(0.0, node, len(body), data))
    return requests
