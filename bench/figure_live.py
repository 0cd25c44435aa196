"""A run of 16,384 GPUs as it goes, on one collector: what it takes, how late its books are, what a scrape costs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import collected
from collected import Running, Watch
from figure import Figure, Row, Setting
from traffic import RUN

NUM_NODES = 2048
WARM_S = 15.0
SCRAPE_EVERY_S = 5.0
MOST_SHARE = 0.5
MOST_CORES = 1.0
MOST_LAG_S = 5.0
MOST_ACCEPTED_S = 1.0
MOST_SCRAPE_S = 0.05
MOST_SERIES = 600
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass
class _Seen:
    took_s: float
    cpu_s: dict[str, float]
    lags_s: list[float]
    scrapes_s: list[float]
    num_series: int
    load: dict[str, Any]
    resident_bytes: int
    stored_bytes: dict[str, int]
    wal_bytes: int
    wal_syncs: int


def measure(setting: Setting) -> Figure:
    """The same run on SQLite and on PostgreSQL."""
    num_nodes, seconds = (128, 30.0) if setting.quick else (NUM_NODES, 90.0)
    seen = {}
    for kind in NAMES:
        with collected.running(setting.scratch, kind) as running:
            seen[kind] = _run(running, num_nodes, seconds)
    load_share = max(each.load["cpu_s"] / each.load["took_s"] for each in seen.values())
    return Figure(
        "A Llama-3-sized run, live",
        f"{num_nodes:,} nodes of 8 ranks, a step every 4 s told by every rank, in real time for {seconds:.0f} s, of "
        f"which the first {WARM_S:.0f} s, with the start of every rank, are not counted. Every agent flushes every 5 s "
        "(about 10 rank-steps, gzip) and sends a heartbeat every 5 s, over a connection of its own each; the load "
        f"generator is another process on the same machine and takes {load_share:.0%} of a core. Processor time is the "
        "kernel's count of the collector's process and of all of PostgreSQL's, over that of the machine's "
        f"{os.cpu_count()} cores. The ledger's lag: looked at ten times a second, for how long the oldest event that "
        "is not in the books has been stored. An answer's time counts from when the request was due. `/metrics` is "
        "fetched every 5 s meanwhile. Both databases are durable before an answer is sent.",
        [row for kind, each in seen.items() for row in _rows(NAMES[kind], each)],
        "Another program on the same cores shows here first: a scrape and an answer wait for their turn.",
    )


def _run(running: Running, num_nodes: int, seconds: float) -> _Seen:
    with (
        collected.load(running, kind="paced", num_nodes=num_nodes, seconds=seconds, count_from_s=WARM_S) as child,
        Watch(running, RUN) as watch,
    ):
        time.sleep(WARM_S)
        began_s, before, wal = time.monotonic(), running.cpu_s(), (running.wal_bytes(), running.wal_syncs())
        scrapes_s, num_series = [], 0
        while time.monotonic() < began_s + seconds - WARM_S:
            took_s, body = running.get("/metrics")
            scrapes_s.append(took_s)
            lines = body.splitlines()
            num_series = max(num_series, sum(1 for line in lines if line and not line.startswith(b"#")))
            time.sleep(SCRAPE_EVERY_S)
        after, took_s = running.cpu_s(), time.monotonic() - began_s
        wal = (running.wal_bytes() - wal[0], running.wal_syncs() - wal[1])
        told = collected.outcome(child)
    used = {who: after[who] - before[who] for who in after}
    return _Seen(
        took_s,
        used,
        watch.lags_s(began_s),
        scrapes_s,
        num_series,
        told,
        running.resident_bytes(),
        running.stored_bytes(),
        *wal,
    )


def _rows(name: str, seen: _Seen) -> list[Row]:
    cores = {who: used / seen.took_s for who, used in seen.cpu_s.items()}
    share = sum(cores.values()) / (os.cpu_count() or 1)
    whose = " and ".join(f"{each:.2f} cores {who}" for who, each in cores.items())
    lag_s = max(seen.lags_s, default=float("inf"))
    told = seen.load
    refused = {status: number for status, number in told["statuses"].items() if number and status != "200"}
    is_taken = not refused and told["answered"] == told["requests"]
    stored = sum(seen.stored_bytes.values())
    return [
        Row(f"{name}: of the machine", f"{share:.0%} ({whose})", f"≤ {MOST_SHARE:.0%}", share <= MOST_SHARE),
        Row(
            f"{name}: the ledger's lag, at its most",
            f"{lag_s:.1f} s (median {median(seen.lags_s):.1f} s)",
            f"< {MOST_LAG_S:g} s",
            lag_s < MOST_LAG_S,
        ),
        Row(
            f"{name}: batches and heartbeats accepted, at the latest",
            f"{told['worst_s']:.2f} s (median {told['median_s'] * 1e3:.0f} ms, "
            f"99 % within {told['p99_s'] * 1e3:.0f} ms; {told['requests'] / told['took_s']:.0f} a second"
            f"{f'; others {refused}' if refused else ''}), the collector at {cores['collector']:.2f} cores",
            f"< {MOST_ACCEPTED_S:g} s at < {MOST_CORES:g} core",
            is_taken and told["worst_s"] < MOST_ACCEPTED_S and cores["collector"] < MOST_CORES,
        ),
        Row(
            f"{name}: `/metrics`, at its slowest",
            f"{max(seen.scrapes_s) * 1e3:.0f} ms (median {median(seen.scrapes_s) * 1e3:.0f} ms), "
            f"{seen.num_series} series",
            f"< {MOST_SCRAPE_S * 1e3:.0f} ms, < {MOST_SERIES} series",
            max(seen.scrapes_s) < MOST_SCRAPE_S and 0 < seen.num_series < MOST_SERIES,
        ),
        Row(
            f"{name}: for scale: stored, and the collector's memory",
            f"{stored / max(told['num_steps'], 1):.0f} bytes a rank-step, all tables, heartbeats and starts in, before "
            f"stretches are packed together; {seen.resident_bytes / 1e6:.0f} MB resident"
            + (
                f"; log of {seen.wal_bytes / seen.took_s / 1e6:.2f} MB/s, {seen.wal_syncs / seen.took_s:.0f} syncs/s"
                if seen.wal_bytes
                else ""
            ),
        ),
    ]
