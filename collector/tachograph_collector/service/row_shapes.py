"""What rows of one run look like, for the OpenAPI: minutes, what was restated, attempts, stops, saves, nodes, steps."""

from __future__ import annotations

from typing import Literal

from tachograph_collector.service.shapes import AccountName, Shape


class OfRun(Shape):
    """Rows of one run, of the books' version; ``next`` is the address of the next page."""

    run: str
    version: int
    next: str | None


class Minute(Shape):
    """A minute, or a longer stretch: as booked now, and as first booked."""

    start: float
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    label: AccountName
    revision: int
    incomplete: bool
    first_booked_at: float
    first_kept_s: float
    first_checkpoint_s: float
    first_lost_s: float
    first_restart_s: float


class Minutes(OfRun):
    """Minutes of a run."""

    every_s: float
    minutes: list[Minute]


class Restated(Shape):
    """A minute that was booked differently."""

    version: int
    start: float
    revision: int
    at: float
    was_kept_s: float
    was_checkpoint_s: float
    was_lost_s: float
    was_restart_s: float
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float


class Revisions(OfRun):
    """Restatements after a version."""

    revisions: list[Restated]


class Attempt(Shape):
    """One incarnation of the run's processes."""

    index: int
    name: str
    start: float
    end: float
    how: str
    category: str | None
    world_size: int | None
    resume_step: int | None
    told_resume_step: int | None
    first_step: int | None
    last_step: int | None
    kept_s: float
    lost_s: float


class Attempts(OfRun):
    """Attempts of a run."""

    attempts: list[Attempt]


class Stop(Shape):
    """One stop of training: what it cost, and the way back by phase."""

    attempt: int
    how: Literal["failure", "planned", "unexplained", "rollback"]
    at: float
    resumed_at: float | None
    category: str | None
    inferred: bool
    node: str | None
    rank: int | None
    detail: str | None
    last_step: int | None
    resume_step: int | None
    cost_s: float
    lost_s: float
    restart_s: float
    phases: dict[str, float]


class Restart(Stop):
    """An interruption and its number, from 0."""

    index: int


class Restarts(OfRun):
    """Interruptions of a run."""

    restarts: list[Restart]


class Save(Shape):
    """One save: what it cost, and whether and when it landed."""

    attempt: int
    step: int
    mode: Literal["sync", "async"]
    state: Literal["landed", "pending", "failed", "abandoned"]
    start: float | None
    end: float | None
    blocking_s: float
    landed_at: float | None
    persist_s: float | None
    bytes: int | None
    tiers: list[str]


class Checkpoint(Save):
    """A save and its number, from 0."""

    index: int


class Checkpoints(OfRun):
    """Saves of a run."""

    checkpoints: list[Checkpoint]


class SegmentShape(Shape):
    """A stretch of time that belongs to one account."""

    start: float
    end: float
    account: AccountName
    sub: str
    attempt: int
    cause: str | None
    by_attempt: int | None
    by_rollback: int | None


class Segments(OfRun):
    """The strip of a run."""

    segments: list[SegmentShape]


class Node(Shape):
    """A node of a run: when it was last heard of."""

    node: str
    state: str
    state_since: float
    first_heard_at: float
    last_heard_at: float
    last_heartbeat_at: float | None
    interval_s: float | None
    step: int | None
    ranks_alive: int | None
    queue_bytes: int | None
    dropped: int | None
    clock_offset_s: float | None
    agent_version: str | None
    metrics_address: str | None


class Nodes(Shape):
    """Nodes of a run, by name."""

    run: str
    nodes: list[Node]
    next: str | None


class StepBucket(Shape):
    """Steps of one rank (or all) in one stretch of time; a metric that nobody told has none or null."""

    rank: int | None
    start: float
    end: float
    first_step: int
    last_step: int
    records: int
    steps: int
    step_s_min: float | None = None
    step_s_mean: float | None = None
    step_s_max: float | None = None
    busy_s_min: float | None = None
    busy_s_mean: float | None = None
    busy_s_max: float | None = None
    wait_s_min: float | None = None
    wait_s_mean: float | None = None
    wait_s_max: float | None = None
    loss_min: float | None = None
    loss_mean: float | None = None
    loss_max: float | None = None
    grad_norm_min: float | None = None
    grad_norm_mean: float | None = None
    grad_norm_max: float | None = None
    tokens_min: float | None = None
    tokens_mean: float | None = None
    tokens_max: float | None = None


class Steps(Shape):
    """Downsampled steps of a run."""

    run: str
    since: float | None
    until: float | None
    records: int
    steps: list[StepBucket]
    next: None
