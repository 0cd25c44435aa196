"""What the collector answers, as typed records. Instants are Unix seconds, durations seconds, unknown is None.

Every field that a newer collector adds is left out; one that an older collector lacks has its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from msgspec import Meta, Struct, field

if TYPE_CHECKING:
    import pandas as pd

TIME: Final = "time"
UnixSeconds = Annotated[float, Meta(extra={"is": TIME})]
"""Seconds since 1970 (UTC); a column of instants in a frame."""

T = TypeVar("T", bound=Struct)


class Records(list[T]):
    """A list of records that can be had as a pandas frame. ``kind`` is what they are, also where there are none."""

    def __init__(self, kind: type[T], rows: list[T]) -> None:
        super().__init__(rows)
        self.kind = kind

    def frame(self) -> pd.DataFrame:
        """One row a record, instants as UTC timestamps. Raises ``MissingExtraError`` without pandas."""
        from tachograph_collector.client.frames import frame_of

        return frame_of(self.kind, self)


class Numbers(Struct, frozen=True, kw_only=True):
    """The numbers of one run, with the keys of ``tachograph replay --json``."""

    run: str
    start: UnixSeconds
    end: UnixSeconds
    status: str
    wall_s: float
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    at_risk_s: float | None = None
    goodput: float | None = None
    goodput_low: float | None = None
    attempts: int
    failures: int
    planned_stops: int = 0
    unexplained_stops: int = 0
    steps: int | None = None
    minutes: dict[str, int] = field(default_factory=dict)


class RunLine(Numbers, frozen=True, kw_only=True):
    """One line of the list of runs."""

    origin: str | None = None
    world_size: int | None = None
    as_of: UnixSeconds | None = None
    """The time as of which the books stand."""
    last_heard: UnixSeconds | None = None
    """When the newest event of it came in."""
    version: int = 0
    revision: int = 0
    open_incidents: int | None = None
    """How many of its incidents are open."""


class Span(Struct, frozen=True):
    """One stretch of the run's own time."""

    start: UnixSeconds
    end: UnixSeconds
    status: str


class Attempt(Struct, frozen=True, kw_only=True):
    """One incarnation of the run's processes."""

    index: int
    name: str
    start: UnixSeconds
    end: UnixSeconds
    how: str
    category: str | None = None
    world_size: int | None = None
    resume_step: int | None = None
    told_resume_step: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    kept_s: float
    lost_s: float


class Restart(Struct, frozen=True, kw_only=True):
    """One interruption of training: what it cost, and the way back by phase."""

    index: int | None = None
    attempt: int
    how: str
    at: UnixSeconds
    resumed_at: UnixSeconds | None = None
    category: str | None = None
    inferred: bool = False
    node: str | None = None
    rank: int | None = None
    detail: str | None = None
    last_step: int | None = None
    resume_step: int | None = None
    cost_s: float
    lost_s: float
    restart_s: float
    phases: dict[str, float] = field(default_factory=dict)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """One save."""

    index: int | None = None
    attempt: int
    step: int
    mode: str
    state: str
    start: UnixSeconds | None = None
    end: UnixSeconds | None = None
    blocking_s: float
    landed_at: UnixSeconds | None = None
    persist_s: float | None = None
    bytes: int | None = None
    tiers: list[str] = field(default_factory=list)


class Anomaly(Struct, frozen=True):
    """What in the log doesn't add up."""

    kind: str
    at: UnixSeconds | None
    detail: str


class Details(Struct, frozen=True, kw_only=True):
    """The rest of a run's summary."""

    verdict: str = ""
    origin: str | None = None
    spans: list[Span] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    world_size: int | None = None
    rollbacks: int = 0
    checkpoints_seen: bool = True
    planned_mtbf_s: float | None = None
    planned_interval_s: float | None = None
    gpu_hours: dict[str, float] | None = None
    gpu_goodput: float | None = None
    price_per_gpu_hour: float | None = None
    money: dict[str, float] | None = None
    sub_accounts: dict[str, float] = field(default_factory=dict)
    lost_by_cause: dict[str, float] = field(default_factory=dict)
    incomplete_minutes: int = 0
    attempts_detail: list[Attempt] = field(default_factory=list)
    interruptions: list[Restart] = field(default_factory=list)
    checkpoints_detail: list[Checkpoint] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Stored(Struct, frozen=True, kw_only=True):
    """As of when the books stand, and their version."""

    as_of: UnixSeconds
    version: int
    folded_seq: int = 0
    revision: int = 0
    frozen_at: UnixSeconds | None = None
    digest: str | None = None


class RunSummary(Numbers, frozen=True, kw_only=True):
    """One run as it stands."""

    details: Details
    stored: Stored
    model: dict[str, Any] | None = None
    """The run held against the checkpoint model, if asked for; ``docs/replay-json.md`` describes it."""


class Minute(Struct, frozen=True, kw_only=True):
    """One minute, or a longer stretch: as booked now, and as first booked."""

    start: UnixSeconds
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    label: str
    revision: int
    incomplete: bool
    first_booked_at: UnixSeconds | None = None
    first_kept_s: float | None = None
    first_checkpoint_s: float | None = None
    first_lost_s: float | None = None
    first_restart_s: float | None = None


class Segment(Struct, frozen=True, kw_only=True):
    """A stretch of time that belongs to one account."""

    start: UnixSeconds
    end: UnixSeconds
    account: str
    sub: str
    attempt: int
    cause: str | None = None
    by_attempt: int | None = None
    by_rollback: int | None = None


class Revision(Struct, frozen=True, kw_only=True):
    """One time that a booked minute was booked differently."""

    version: int
    start: UnixSeconds
    revision: int
    at: UnixSeconds
    was_kept_s: float
    was_checkpoint_s: float
    was_lost_s: float
    was_restart_s: float
    kept_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float


class StepBucket(Struct, frozen=True, kw_only=True):
    """Steps of one rank, or of all, in a stretch of time."""

    rank: int | None = None
    start: UnixSeconds
    end: UnixSeconds
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


class Node(Struct, frozen=True, kw_only=True):
    """A node of a run: when it was last heard of."""

    node: str
    state: str
    state_since: UnixSeconds
    first_heard_at: UnixSeconds
    last_heard_at: UnixSeconds
    last_heartbeat_at: UnixSeconds | None = None
    interval_s: float | None = None
    step: int | None = None
    ranks_alive: int | None = None
    queue_bytes: int | None = None
    dropped: int | None = None
    clock_offset_s: float | None = None
    agent_version: str | None = None
    metrics_address: str | None = None


class Cause(Struct, frozen=True, kw_only=True):
    """Time of the fleet in one account, for one cause."""

    account: str
    sub: str
    cause: str | None = None
    wall_s: float
    gpu_hours: float
    money: float


class Fleet(Struct, frozen=True, kw_only=True):
    """What all runs did together in a window."""

    since: UnixSeconds | None = None
    until: UnixSeconds | None = None
    origins: list[str] = field(default_factory=list)
    runs: int
    wall_s: float
    accounts_s: dict[str, float]
    gpu_hours: dict[str, float]
    gpu_goodput: float | None = None
    money: dict[str, float]
    causes: list[Cause]
    runs_without_gpus: int = 0
    """Runs of which nobody says how many GPUs; they are in the seconds only."""
    runs_without_price: int = 0
    unknown_runs: list[str] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """One row a cause."""
        return Records(Cause, self.causes).frame()


class Gate(Struct, frozen=True, kw_only=True, rename={"passes": "pass"}):
    """Whether a run keeps up with a goodput that is asked of it."""

    run: str
    passes: bool
    goodput: float | None
    min_goodput: float
    run_status: str = ""
    sentence: str = ""
    as_of: UnixSeconds | None = None


class Place(Struct, frozen=True):
    """How far a run is: the newest event that is stored, and the newest one that is booked."""

    origin: str
    """``live``, ``replay`` or ``rehearsal``."""
    last_seq: int
    folded_seq: int
    pruned: str = ""
    """Kinds of events of which older ones are gone, such as ``heartbeat, step``."""

    @property
    def is_booked(self) -> bool:
        """Whether the books tell of all that is stored."""
        return self.folded_seq >= self.last_seq


class Sent(Struct, frozen=True, kw_only=True):
    """What became of a batch of events."""

    accepted: int
    rejected: int
    duplicate: bool = False
    reasons: list[str] = field(default_factory=list)
