"""Rules 8 and 10, and one claim for each moment: painting, minutes, GPU time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tachograph_agent.events import AllocationEnd, AllocationStart, AnyEvent, Gap, Heartbeat, RunStart

from ledger_oracle.attempts import MINUTE
from ledger_oracle.order import SECOND, at_us
from ledger_oracle.story import ACCOUNTS, PRIORITY, TIES, Claim, OracleMinute, Run


def paint(run: Run) -> list[Claim]:
    """One claim for each moment of the run: by account, then weight; sorted, disjoint, filling the segments."""
    claims = [c for c in run.claims if c.start < c.end]
    order = {id(c): (PRIORITY[c.account], c.weight, -c.attempt, -n) for n, c in enumerate(claims)}
    edges = sorted({t for c in claims for t in (c.start, c.end)} | {t for s in run.spans for t in (s.start, s.end)})
    starts: dict[int, list[Claim]] = {}
    for c in claims:
        starts.setdefault(c.start, []).append(c)
    active: list[Claim] = []
    painted: list[Claim] = []
    for start, end in pairwise(edges):
        active = [c for c in active if c.end > start] + starts.get(start, [])
        inside = any(s.start <= start < s.end for s in run.spans)
        if not inside:
            continue
        top = max(active, key=lambda c: order[id(c)], default=Claim(start, end, "restart", "other", 0))
        previous = painted[-1] if painted else None
        same = (
            previous is not None
            and previous.end == start
            and (
                (previous.account, previous.sub, previous.attempt, previous.cause, previous.at_risk)
                == (top.account, top.sub, top.attempt, top.cause, top.at_risk)
            )
        )
        if same and previous is not None:
            previous.end = end
        else:
            painted.append(Claim(start, end, top.account, top.sub, top.attempt, top.cause, top.at_risk))
    return painted


def minutes_of(run: Run, painted: list[Claim]) -> list[OracleMinute]:
    """Rule 8: UTC minutes with their seconds in each account, a label, and whether something is missing."""
    minutes: dict[int, dict[str, int]] = {}
    for c in painted:
        start = c.start
        while start < c.end:
            minute = start // MINUTE * MINUTE
            end = min(c.end, minute + MINUTE)
            us = minutes.setdefault(minute, dict.fromkeys(ACCOUNTS, 0))
            us[c.account] += end - start
            start = end
    gaps: set[int] = set()
    for event in run.events:
        if isinstance(event, Gap):
            since = at_us(event) if event.since is None else min(round(event.since * SECOND), at_us(event))
            gaps |= set(range(since // MINUTE * MINUTE, at_us(event) + 1, MINUTE))
    agents = any(isinstance(e, Heartbeat) for e in run.events)
    heard = {at_us(e) // MINUTE * MINUTE for e in run.events}
    return [
        OracleMinute(
            minute,
            us,
            max(TIES, key=lambda account: us[account]),  # the first of equals
            minute in gaps or (agents and minute not in heard),
        )
        for minute, us in sorted(minutes.items())
    ]


def gpu_microseconds(run: Run, painted: list[Claim]) -> dict[str, int] | None:
    """Rule 10: GPU time by account and ``idle``, in GPU-microseconds; None where nobody says how many."""
    start = next((e for s in run.spans for e in s.events if isinstance(e, RunStart)), None)
    default = None
    if start is not None:
        default = start.world_size if start.world_size is not None else start.gpus
    allocations = [e for e in run.events if isinstance(e, (AllocationStart, AllocationEnd))]
    edges = sorted({at_us(e) for e in allocations} | {a.begin for a in run.attempts})
    total = dict.fromkeys([*ACCOUNTS, "idle", "held"], 0)
    if not painted:
        return None
    for c in painted:
        inner = [c.start, *[t for t in edges if c.start < t < c.end], c.end]
        for s, e in pairwise(inner):
            world = world_at(run, s, default)
            held = held_at(allocations, s, world) if allocations else world
            if held is None:
                return None
            # Where nothing is trained, all that is held waits for it.
            used = held if world is None or c.account == "restart" else min(world, held)
            total[c.account] += used * (e - s)
            total["idle"] += (held - used) * (e - s)
            total["held"] += held * (e - s)
    return total


def world_at(run: Run, t: int, default: int | None) -> int | None:
    """Rule 10: the world of the attempt at ``t``: the one that began last, the first one before any."""
    worlds = [run.attempts[0].world_size] if run.attempts else []
    worlds = [a.world_size for a in run.attempts if a.begin <= t] or worlds
    if worlds and worlds[-1] is not None:
        return worlds[-1]
    if default is not None:
        return default
    return next((world for world in reversed(worlds) if world is not None), None)


def held_at(allocations: Sequence[AnyEvent], t: int, world: int | None) -> int | None:
    """Rule 10: how many GPUs the allocations held at ``t`` have; one of no number counts as the attempt's world."""
    by_node: dict[str | None, int | None] = {}
    for event in allocations:
        if at_us(event) > t:
            break
        node = event.node
        if isinstance(event, AllocationStart):
            by_node[node] = event.gpus
        elif isinstance(event, AllocationEnd) and node in by_node:
            before = by_node.pop(node)
            if before is not None and event.gpus is not None and event.gpus < before:
                by_node[node] = before - event.gpus  # a part of it was taken back
        elif node is None:
            by_node.clear()
    held = list(by_node.values())
    if any(g is None for g in held):
        return world
    return sum(g for g in held if g is not None)
