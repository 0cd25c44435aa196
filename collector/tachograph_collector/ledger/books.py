"""What the ledger answers: the books of one run, as plain records.

Times are whole microseconds since 1970 (``_us``), durations likewise, so that sums are exact; the reports turn them
into seconds. ``None`` means unknown and is never shown as 0.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field

Account = Literal["kept", "checkpoint", "lost", "restart"]
ACCOUNTS: Final[tuple[Account, ...]] = ("kept", "checkpoint", "lost", "restart")

SUB_ACCOUNTS: Final[dict[Account, tuple[str, ...]]] = {
    "kept": ("train", "eval", "data_wait"),
    "checkpoint": ("save", "aborted"),
    "lost": ("rollback", "in_flight"),
    "restart": (
        "startup",
        "queued",
        "detect",
        "replace",
        "reload",
        "warmup",
        "stall",
        "planned",
        "shutdown",
        "other",
    ),
}

Status = Literal["running", "completed", "failed", "cancelled", "abandoned"]
How = Literal["failure", "planned", "unexplained", "completed", "cancelled", "failed", "running", "continued"]
"""How an attempt ended: ``completed``, ``cancelled``, ``failed`` with its run; ``continued`` in a further segment."""


class Minute(Struct, frozen=True, gc=False):
    """One UTC minute of the run. The four accounts sum to the run's time in that minute (60 s inside the run)."""

    start_us: int
    kept_us: int
    checkpoint_us: int
    lost_us: int
    restart_us: int
    label: Account
    revision: int
    incomplete: bool


class Segment(Struct, frozen=True, gc=False):
    """A stretch of time that belongs to one account; segments are sorted, disjoint and fill the run's time."""

    start_us: int
    end_us: int
    account: Account
    sub: str
    attempt: int
    cause: str | None = None
    """For lost time, what made it lost: a failure's category, or a rollback's reason."""
    by: tuple[int, int] | None = None
    """For lost time, which interruption: the attempt that was interrupted, and how many rollbacks it had had."""


class RunSpan(Struct, frozen=True):
    """One stretch of the run's own time, from a start to an end (or to now)."""

    start_us: int
    end_us: int
    status: Status


class AttemptRecord(Struct, frozen=True):
    """One incarnation of the run's processes."""

    index: int
    name: str
    start_us: int
    end_us: int
    how: How
    world_size: int | None
    resume_step: int | None
    """The step after which its first record works on, from the evidence; None if it never stepped."""
    told_resume_step: int | None
    first_step: int | None
    last_step: int | None
    category: str | None
    """The failure's category, if it ended by one."""
    kept_us: int
    lost_us: int


class Interruption(Struct, frozen=True):
    """One stop of training: what ended it, what it cost, and how long each part of the way back took."""

    attempt: int
    """Index of the attempt that was interrupted."""
    how: Literal["failure", "planned", "unexplained", "rollback"]
    at_us: int
    """When training stopped: the end of the last step or save before it."""
    category: str | None
    """The failure's category or the rollback's reason; None if nobody said."""
    node: str | None
    rank: int | None
    detail: str | None
    resumed_at_us: int | None
    """When the first step after it began; None if nothing has stepped since."""
    resume_step: int | None
    last_step: int | None
    lost_us: int
    """Work lost to it, the step in flight included."""
    restart_us: int
    phases_us: dict[str, int]
    """Restart time by sub-account: ``detect``, ``replace``, ``reload``, ``warmup`` ..."""
    inferred: bool = False


class CheckpointRecord(Struct, frozen=True):
    """One save: what it cost, whether and when it landed, and whether the run as it now stands descends from it."""

    attempt: int
    step: int
    mode: Literal["sync", "async"]
    start_us: int | None
    end_us: int | None
    """End of the blocking part; None if never told."""
    blocking_us: int
    landed_us: int | None
    persist_us: int | None
    """From the start of the save to its landing, of an asynchronous one."""
    bytes: int | None
    state: Literal["landed", "pending", "failed", "abandoned"]
    """``pending``: not landed yet; ``abandoned``: the run went on from an earlier step."""
    tiers: tuple[str, ...] = ()


class Anomaly(Struct, frozen=True):
    """Something in the log that doesn't add up, in one sentence, with the time it concerns."""

    kind: str
    at_us: int | None
    detail: str


class GpuHours(Struct, frozen=True):
    """GPU time in whole GPU-microseconds; the accounts and ``idle`` sum to ``held``."""

    held: int
    kept: int
    checkpoint: int
    lost: int
    restart: int
    idle: int
    """Held but outside the attempt's world: an elastic run at half size leaves the other half idle."""


class Books(Struct, frozen=True):
    """The books of one run at one time."""

    run: str
    status: Status
    start_us: int
    end_us: int
    spans: list[RunSpan]
    wall_us: int
    accounts_us: dict[Account, int]
    subs_us: dict[str, int]
    """Keys such as ``kept/train``; every sub-account of ``SUB_ACCOUNTS`` is there, 0 if nothing was booked."""
    lost_by_cause_us: dict[str, int]
    at_risk_us: int | None
    """None where the source can't show saves."""
    num_attempts: int
    num_failures: int
    num_planned_stops: int
    num_unexplained_stops: int
    num_rollbacks: int
    steps: int
    """The last step that the run as it now stands has done, counted from 0; 0 before the first."""
    num_minutes: dict[Account, int]
    """Minutes by label."""
    gpu: GpuHours | None
    price_per_gpu_hour: float | None
    origin: str | None
    checkpoints_seen: bool
    planned_mtbf_s: float | None
    planned_interval_s: float | None
    world_size: int | None
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def goodput(self) -> float | None:
        """Kept over wall-clock, 0 to 1; None for a run of no length."""
        return self.accounts_us["kept"] / self.wall_us if self.wall_us else None

    @property
    def goodput_low(self) -> float | None:
        """Goodput if everything at risk were lost now; None where saves are unseen."""
        if not self.wall_us or self.at_risk_us is None:
            return None
        return (self.accounts_us["kept"] - self.at_risk_us) / self.wall_us

    @property
    def gpu_goodput(self) -> float | None:
        """Kept over held GPU-hours, 0 to 1; None where nobody says how many GPUs."""
        return self.gpu.kept / self.gpu.held if self.gpu and self.gpu.held else None


class Details(Struct, frozen=True):
    """The records behind one run's books."""

    attempts: list[AttemptRecord]
    interruptions: list[Interruption]
    checkpoints: list[CheckpointRecord]
    anomalies: list[Anomaly]
    minutes: list[Minute]
    segments: list[Segment]


class Restated(Struct, frozen=True):
    """A minute that had been booked and is booked differently now."""

    run: str
    start_us: int
    was: Minute
    now: Minute | None
    """None if the minute no longer belongs to the run."""


class Changes(Struct, frozen=True):
    """What of one run's books differs from what stood when changes were last asked for."""

    run: str
    generation: int
    """1, or 2 for ``name#2`` ..."""
    minutes: list[Minute]
    """Booked for the first time, or differently, in time order."""
    gone: list[int]
    """Starts of minutes that no longer belong to the run."""
    since_us: int | None
    """Segments that begin before this stand; None if all do."""
    segments: list[Segment]
    """Those that begin at or after ``since_us``, as they are now."""
