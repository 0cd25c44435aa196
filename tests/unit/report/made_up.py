"""Made-up runs for the reports' tests: consistent books and details, built from a list of stretches."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from tachograph_agent.trainers.base import SkippedLine
from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Account,
    Anomaly,
    AttemptRecord,
    Books,
    CheckpointRecord,
    Details,
    GpuHours,
    Interruption,
    Minute,
    RunSpan,
    Segment,
)
from tachograph_collector.report.model import RunReport

S = 1_000_000
MIN = 60 * S
HOUR = 60 * MIN
START = 1_772_323_200 * S  # 2026-03-01 00:00:00 UTC

HOSTILE = "<script>alert('x')</script>[bold red]pwn[/]\x1b[31m\nline2 $\\frac{1}{0}$ \u202egnp.exe & \"q\" ' 😀"

Stretch = tuple[int, Account, str, int, str | None]
"""(length in microseconds, account, sub-account, attempt, cause)"""


def segments_of(stretches: list[Stretch], start_us: int = START) -> list[Segment]:
    out = []
    at = start_us
    for length, account, sub, attempt, cause in stretches:
        out.append(Segment(at, at + length, account, sub, attempt, cause))
        at += length
    return out


def minutes_of(segments: list[Segment]) -> list[Minute]:
    cells: dict[int, Counter[Account]] = {}
    for segment in segments:
        at = segment.start_us
        while at < segment.end_us:
            minute = at // MIN * MIN
            end = min(segment.end_us, minute + MIN)
            cells.setdefault(minute, Counter())[segment.account] += end - at
            at = end
    return [
        Minute(
            start_us=start,
            kept_us=cell["kept"],
            checkpoint_us=cell["checkpoint"],
            lost_us=cell["lost"],
            restart_us=cell["restart"],
            label=max(("lost", "restart", "checkpoint", "kept"), key=lambda a: cell[a]),
            revision=0,
            incomplete=False,
        )
        for start, cell in sorted(cells.items())
    ]


def books_of(segments: list[Segment], minutes: list[Minute], run: str, world: int | None, **changes: object) -> Books:
    accounts: Counter[str] = Counter()
    subs: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for segment in segments:
        length = segment.end_us - segment.start_us
        accounts[segment.account] += length
        subs[f"{segment.account}/{segment.sub}"] += length
        if segment.account == "lost":
            causes[segment.cause or "unknown"] += length
    start, end = segments[0].start_us, segments[-1].end_us
    labels = Counter(minute.label for minute in minutes)
    values: dict[str, object] = {
        "run": run,
        "status": "completed",
        "start_us": start,
        "end_us": end,
        "spans": [RunSpan(start, end, "completed")],
        "wall_us": sum(accounts.values()),
        "accounts_us": {a: accounts[a] for a in ACCOUNTS},
        "subs_us": {f"{a}/{s}": subs[f"{a}/{s}"] for a in ACCOUNTS for s in SUB_ACCOUNTS[a]},
        "lost_by_cause_us": dict(causes),
        "at_risk_us": 0,
        "num_attempts": 1,
        "num_failures": 0,
        "num_planned_stops": 0,
        "num_unexplained_stops": 0,
        "num_rollbacks": 0,
        "steps": 0,
        "num_minutes": {a: labels[a] for a in ACCOUNTS},
        "gpu": None
        if world is None
        else GpuHours(
            held=world * sum(accounts.values()),
            kept=world * accounts["kept"],
            checkpoint=world * accounts["checkpoint"],
            lost=world * accounts["lost"],
            restart=world * accounts["restart"],
            idle=0,
        ),
        "price_per_gpu_hour": None,
        "origin": None,
        "checkpoints_seen": True,
        "planned_mtbf_s": None,
        "planned_interval_s": None,
        "world_size": world,
    }
    return Books(**{**values, **changes})  # type: ignore[arg-type]  # fields by name


def three_attempts(run: str = "gpt-7b") -> RunReport:
    """11 h: a failure after 4 h, an elastic second attempt with a loss spike, a planned stop, and a third attempt."""
    stretches: list[Stretch] = [
        (10 * MIN, "restart", "startup", 0, None),
        (170 * MIN, "kept", "train", 0, None),
        (2 * MIN, "checkpoint", "save", 0, None),
        (55 * MIN, "lost", "rollback", 0, "gpu"),
        (3 * S, "lost", "in_flight", 0, "gpu"),
        (4 * MIN, "restart", "detect", 0, None),
        (11 * MIN, "restart", "replace", 1, None),
        (6 * MIN + 57 * S, "restart", "reload", 1, None),
        (2 * MIN, "restart", "warmup", 1, None),
        (120 * MIN, "kept", "train", 1, None),
        (90 * S, "checkpoint", "save", 1, None),
        (20 * MIN + 30 * S, "lost", "rollback", 1, "loss_spike"),
        (3 * MIN, "restart", "other", 1, None),
        (60 * MIN, "kept", "train", 1, None),
        (8 * MIN, "kept", "eval", 1, None),
        (2 * MIN, "checkpoint", "save", 1, None),
        (15 * MIN, "restart", "planned", 1, None),
        (5 * MIN, "restart", "queued", 2, None),
        (5 * MIN + 250_000, "restart", "reload", 2, None),
        (150 * MIN, "kept", "train", 2, None),
        (90 * S, "checkpoint", "save", 2, None),
        (8 * MIN, "kept", "train", 2, None),
        (12 * S, "restart", "shutdown", 2, None),
    ]
    segments = segments_of(stretches)
    minutes = minutes_of(segments)
    base = books_of(segments, minutes, run, 64)
    world = {0: 64, 1: 48, 2: 64}
    used: Counter[str] = Counter()
    for segment in segments:
        used[segment.account] += (segment.end_us - segment.start_us) * world[segment.attempt]
    held = 64 * base.wall_us
    books = books_of(
        segments,
        minutes,
        run,
        64,
        num_attempts=3,
        num_failures=1,
        num_planned_stops=1,
        num_rollbacks=1,
        steps=9_120,
        at_risk_us=8 * MIN,
        status="running",
        spans=[RunSpan(base.start_us, base.end_us, "running")],
        gpu=GpuHours(held=held, idle=held - sum(used.values()), **{a: used[a] for a in ACCOUNTS}),
        price_per_gpu_hour=2.5,
        planned_interval_s=3600.0,
        labels={"team": HOSTILE},
    )
    failed, spiked, stopped = segments[5].start_us, segments[12].start_us, segments[16].start_us
    ends = [segments[6].start_us, segments[17].start_us, base.end_us]
    starts = [base.start_us, segments[6].start_us, segments[17].start_us]
    details = Details(
        attempts=[
            AttemptRecord(
                0, "0", starts[0], ends[0], "failure", 64, 0, 0, 1, 4_500, "gpu", 170 * MIN, 55 * MIN + 3 * S
            ),
            AttemptRecord(
                1, HOSTILE, starts[1], ends[1], "planned", 48, 3_400, 3_400, 3_401, 6_300, None, 188 * MIN, 0
            ),
            AttemptRecord(2, "2", starts[2], ends[2], "running", None, 6_300, None, 6_301, 9_120, None, 158 * MIN, 0),
        ],
        interruptions=[
            Interruption(
                attempt=0,
                how="failure",
                at_us=failed,
                category="gpu",
                node=HOSTILE,
                rank=17,
                detail=f"Xid 79: GPU has fallen off the bus {HOSTILE}",
                resumed_at_us=segments[9].start_us,
                resume_step=3_400,
                last_step=4_500,
                lost_us=55 * MIN + 3 * S,
                restart_us=23 * MIN + 57 * S,
                phases_us={"detect": 4 * MIN, "replace": 11 * MIN, "reload": 417 * S, "warmup": 2 * MIN},
            ),
            Interruption(
                attempt=1,
                how="rollback",
                at_us=spiked,
                category="loss_spike",
                node=None,
                rank=None,
                detail=None,
                resumed_at_us=segments[13].start_us,
                resume_step=5_000,
                last_step=5_400,
                lost_us=20 * MIN + 30 * S,
                restart_us=3 * MIN,
                phases_us={"other": 3 * MIN},
            ),
            Interruption(
                attempt=1,
                how="planned",
                at_us=stopped,
                category=None,
                node=None,
                rank=None,
                detail="maintenance",
                resumed_at_us=segments[19].start_us,
                resume_step=6_300,
                last_step=6_300,
                lost_us=0,
                restart_us=25 * MIN + 250_000,
                phases_us={"planned": 15 * MIN, "queued": 5 * MIN, "reload": 5 * MIN + 250_000},
            ),
        ],
        checkpoints=[
            CheckpointRecord(
                0,
                3_400,
                "sync",
                segments[2].start_us,
                segments[2].end_us,
                2 * MIN,
                segments[2].end_us,
                None,
                80_000_000_000,
                "landed",
                ("storage",),
            ),
            CheckpointRecord(
                1,
                5_000,
                "async",
                segments[10].start_us,
                segments[10].end_us,
                90 * S,
                segments[10].end_us + 40 * S,
                130 * S,
                None,
                "landed",
                ("storage", HOSTILE),
            ),
            CheckpointRecord(
                1,
                6_300,
                "sync",
                segments[15].start_us,
                segments[15].end_us,
                2 * MIN,
                segments[15].end_us,
                None,
                None,
                "landed",
                ("storage",),
            ),
            CheckpointRecord(
                2, 9_000, "async", segments[20].start_us, segments[20].end_us, 90 * S, None, None, None, "pending"
            ),
        ],
        anomalies=[
            Anomaly("resume_step", segments[9].start_us, f"attempt {HOSTILE} told another step than it resumed")
        ],
        minutes=minutes,
        segments=segments,
    )
    return RunReport(
        books=books,
        details=details,
        notes=(f"times had no zone; UTC was taken for {HOSTILE}",),
        skipped_lines=2,
        skips=(SkippedLine(HOSTILE, 7, f"not JSON {HOSTILE}"), SkippedLine("b.log", 9, "not JSON")),
        format="events",
        loss_points=losses(segments, 2_000),
    )


def losses(segments: list[Segment], num: int) -> list[tuple[int, int, float]]:
    rng = random.Random(7)
    working = [s for s in segments if s.account in {"kept", "lost"}]
    total = sum(s.end_us - s.start_us for s in working)
    points: list[tuple[int, int, float]] = []
    for segment in working:
        share = max(1, num * (segment.end_us - segment.start_us) // total)
        for i in range(share):
            n = len(points)
            t = segment.start_us + (segment.end_us - segment.start_us) * i // share
            loss = 2.0 + 8.0 / (1 + n * 40 / num) + rng.gauss(0, 0.08)
            if segment.cause == "loss_spike" and i > share * 0.8:
                loss += (i / share - 0.8) * 30
            points.append((t, n + 1, loss))
    points[len(points) // 2] = (*points[len(points) // 2][:2], float("nan"))
    return points


def clean(run: str = "clean", world: int | None = None) -> RunReport:
    """Two hours without a stop, and nothing known of GPUs, losses or saves."""
    segments = segments_of([(MIN, "restart", "startup", 0, None), (119 * MIN, "kept", "train", 0, None)])
    minutes = minutes_of(segments)
    books = books_of(segments, minutes, run, world, steps=700, at_risk_us=None, checkpoints_seen=False)
    attempt = AttemptRecord(
        0, "0", books.start_us, books.end_us, "completed", world, 0, None, 1, 700, None, 119 * MIN, 0
    )
    return RunReport(books=books, details=Details([attempt], [], [], [], minutes, segments))


def month(num_interruptions: int = 200, num_losses: int = 1_000_000, **changes: object) -> RunReport:
    """43,200 minutes with many failures, and as many loss points as a long run has."""
    rng = random.Random(3)
    total = 30 * 24 * HOUR
    stretches: list[Stretch] = [(9 * MIN, "restart", "startup", 0, None)]
    interruptions: list[Interruption] = []
    checkpoints: list[CheckpointRecord] = []
    attempts: list[AttemptRecord] = []
    at = START + 9 * MIN
    cut = sorted(rng.sample(range(30, 43_100), num_interruptions))
    bounds = [c * MIN for c in cut] + [total]
    for index, bound in enumerate(bounds):
        began = at
        while at < START + bound - 45 * MIN:
            stretches += [(40 * MIN, "kept", "train", index, None), (50 * S, "checkpoint", "save", index, None)]
            at += 40 * MIN
            checkpoints.append(
                CheckpointRecord(
                    index,
                    len(checkpoints) * 100,
                    "sync",
                    at,
                    at + 50 * S,
                    50 * S,
                    at + 50 * S,
                    None,
                    None,
                    "landed",
                    ("storage",),
                )
            )
            at += 50 * S
        last = index == len(bounds) - 1
        rest = max(S, START + bound - at)
        cause = rng.choice(["gpu", "network", "host", "software", "unknown"])
        stretches.append((rest, "kept", "train", index, None) if last else (rest, "lost", "rollback", index, cause))
        at += rest
        attempts.append(
            AttemptRecord(
                index,
                str(index),
                began,
                at,
                "completed" if last else "failure",
                1024,
                0,
                0,
                1,
                2,
                None if last else cause,
                0,
                0,
            )
        )
        if last:
            break
        phases = {
            name: int(rng.expovariate(1 / mean)) * S + S
            for name, mean in (("detect", 120), ("replace", 300), ("reload", 180), ("warmup", 60))
        }
        interruptions.append(
            Interruption(
                attempt=index,
                how="failure",
                at_us=at,
                category=cause,
                node=f"node{rng.randrange(128):03}",
                rank=rng.randrange(1024),
                detail="something broke and here is a sentence about it",
                resumed_at_us=at + sum(phases.values()),
                resume_step=1,
                last_step=2,
                lost_us=rest,
                restart_us=sum(phases.values()),
                phases_us=phases,
            )
        )
        for name, us in phases.items():
            stretches.append((us, "restart", name, index, None))
            at += us
    segments = segments_of(stretches)
    assert all(a.end_us == b.start_us for a, b in pairwise(segments))
    minutes = minutes_of(segments)
    books = books_of(
        segments,
        minutes,
        "a-month-on-1024",
        1024,
        steps=120_000,
        num_attempts=len(attempts),
        num_failures=num_interruptions,
        price_per_gpu_hour=2.0,
        **changes,
    )
    details = Details(attempts, interruptions, checkpoints, [], minutes, segments)
    return RunReport(books=books, details=details, loss_points=losses(segments, num_losses))
