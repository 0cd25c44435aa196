"""What answers about runs as a whole look like, for the OpenAPI: the list, the summary, the judgement and the gate."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from tachograph_collector.service.row_shapes import Attempt, Save, Stop
from tachograph_collector.service.shapes import GpuAccounts, Shape, StatusName


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
