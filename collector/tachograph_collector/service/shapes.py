"""What answers look like, for the OpenAPI: models that nothing but the documentation (and the tests) runs through.

Answers are written from columns and records; the tests hold every one of them to its model here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

AccountName = Literal["kept", "checkpoint", "lost", "restart"]
StatusName = Literal["running", "completed", "failed", "cancelled", "abandoned"]


class Shape(BaseModel):
    """An object of exactly these members."""

    model_config = ConfigDict(extra="forbid")


class ProblemShape(BaseModel):
    """RFC 9457: what was wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str


class Accounts(Shape):
    """Seconds, or shares of minutes, by account."""

    kept: float
    checkpoint: float
    lost: float
    restart: float


class GpuAccounts(Accounts):
    """GPU-hours or money by account; ``idle`` is held outside an attempt's world, ``held`` the sum."""

    idle: float
    held: float


class MinuteCounts(Shape):
    """Number of minutes by label."""

    kept: int
    checkpoint: int
    lost: int
    restart: int


class RunNumbers(Shape):
    """One run in numbers; the keys of ``replay --json``."""

    run: str
    start: float
    end: float
    status: StatusName
    wall_s: float
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    at_risk_s: float | None
    goodput: float | None
    goodput_low: float | None
    attempts: int
    failures: int
    planned_stops: int
    unexplained_stops: int
    steps: int | None
    minutes: MinuteCounts


class RunLine(RunNumbers):
    """One run in the list of runs."""

    origin: str
    world_size: int | None
    as_of: float
    last_heard: float
    version: int
    revision: int
    open_incidents: int


class RunList(Shape):
    """A page of the list of runs, the latest start first."""

    runs: list[RunLine]
    next: str | None


class Stored(Shape):
    """As of when the books stand, and their version."""

    as_of: float
    version: int
    folded_seq: int
    revision: int
    frozen_at: float | None
    digest: str | None


class WindowShape(Shape):
    """The window that was asked for."""

    since: float | None
    until: float | None


class Span(Shape):
    """A stretch of the run's own time."""

    start: float
    end: float
    status: StatusName


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


class AnomalyShape(Shape):
    """What in the log doesn't add up."""

    kind: str
    at: float | None
    detail: str


class Skip(Shape):
    """A line that could not be read."""

    file: str
    line_number: int
    reason: str


class Details(Shape):
    """The rest of a run's summary."""

    verdict: str
    format: str | None
    clock: Literal["wall", "durations"]
    origin: str | None
    window: WindowShape | None
    spans: list[Span]
    labels: dict[str, str]
    world_size: int | None
    rollbacks: int
    checkpoints_seen: bool
    planned_mtbf_s: float | None
    planned_interval_s: float | None
    gpu_hours: GpuAccounts | None
    gpu_goodput: float | None
    price_per_gpu_hour: float | None
    money: GpuAccounts | None
    sub_accounts: dict[str, float]
    lost_by_cause: dict[str, float]
    incomplete_minutes: int
    attempts_detail: list[Attempt]
    interruptions: list[Stop]
    checkpoints_detail: list[Save]
    anomalies: list[AnomalyShape]
    notes: list[str]
    skips: list[Skip]


class Finding(Shape):
    """Something that the model found."""

    kind: str
    level: str
    sentence: str
    points: float | None
    gpu_hours_per_day: float | None
    money_per_day: float | None


class Model(BaseModel):
    """The run held against the checkpoint model; every key is in docs/replay-json.md."""

    sentence: str
    level: str
    findings: list[Finding]
    measured: dict[str, Any]
    goodput: dict[str, float | bool | None]
    best: dict[str, Any] | None
    rate: dict[str, Any] | None
    memorylessness: dict[str, float | None]
    waste: list[dict[str, Any]]


class Summary(RunNumbers):
    """One run, with the keys of one entry of ``replay --json``, and ``stored``."""

    skipped_lines: int
    model: Model | None
    details: Details
    stored: Stored


class ModelAnswer(Shape):
    """The judgement alone; null for a run of no length."""

    run: str
    version: int
    model: Model | None


class Gate(Shape):
    """Whether the run keeps up with a goodput that is asked of it."""

    run: str
    passes: bool = Field(alias="pass")
    goodput: float | None
    min_goodput: float
    run_status: StatusName
    since: float | None
    until: float | None
    as_of: float
    version: int
    sentence: str


class GateClosed(Gate):
    """The same, as the problem that a closed gate is."""

    type: str
    title: str
    status: int
    detail: str


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


class Attempts(OfRun):
    """Attempts of a run."""

    attempts: list[Attempt]


class Restarts(OfRun):
    """Interruptions of a run."""

    restarts: list[Restart]


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


class Cause(Shape):
    """Time of the fleet in one account, for one cause."""

    account: AccountName | Literal["idle"]
    sub: str
    cause: str | None
    wall_s: float
    gpu_hours: float
    money: float


class Fleet(Shape):
    """Totals of all runs in a window."""

    since: float | None
    until: float | None
    origins: list[str]
    runs: int
    wall_s: float
    accounts_s: Accounts
    gpu_hours: GpuAccounts
    gpu_goodput: float | None
    money: GpuAccounts
    causes: list[Cause]
    runs_without_gpus: int
    runs_without_price: int
    unknown_runs: list[str]
    next: None


class PlanPoint(Shape):
    """What becomes of the time at one interval."""

    interval_s: float
    goodput: float
    shares: Accounts
    year_h: Accounts


class Curve(Shape):
    """Goodput over the interval, point by point."""

    interval_s: list[float]
    goodput: list[float]


class PlanCurve(Shape):
    """The checkpoint model over all intervals, and at the one asked for."""

    checkpoint_s: float
    restart_s: float
    mtbf_s: float
    persist_s: float
    at: PlanPoint
    best: PlanPoint
    flat_top_s: list[float]
    young_s: float
    daly_s: float
    curve: Curve
