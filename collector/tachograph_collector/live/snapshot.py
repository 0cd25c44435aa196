"""How the runs stand that this collector folds, prepared for whoever asks without a database: metrics, health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.heard_nodes import State
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.ledger import Books
from tachograph_collector.store.folded import Booked
from tachograph_collector.store.keys import RunKey


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One run (``name``, or ``name#2``) as it stood after its last fold. Never changed, only replaced."""

    run: RunKey
    generation: int
    name: str
    origin: str
    books: Books
    at_us: int
    """When it was folded, on the database's clock."""
    watermark_us: int
    """Minutes that end before this are booked."""
    booked: Booked
    """What booking has come to behind the watermark: sums that never fall, also from one collector to the next."""
    lag_us: int
    """How long the newest event that was folded had waited for it."""
    delay_us: int
    """How late agents tell things, as measured; minutes wait so long."""
    nodes: Mapping[State, int]
    """How many nodes are alive, suspect, dead, lost and gone."""
    revision: int
    frozen_us: int | None
    incidents: tuple[Incident, ...] = ()
    """Open ones, of the newest generation: incidents are the run's, by name."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """How well each detector sees the run, and how often it judged; with the newest generation."""
    detectors_fault: str | None = None
    """Why this run's detectors were set aside; None: they look."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the detectors' thresholds are from, and whether its newest state could be read."""

    path: str | None = None
    """None: the defaults hold, no file was named."""
    read_us: int | None = None
    """When the thresholds that hold now were read."""
    fault: str | None = None
    """What is wrong with the file as it is now; the thresholds that were read before it hold."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One turn of a run: when it began (Unix nanoseconds), how long it took, and what came of it."""

    run: RunKey
    name: str
    began_unix_ns: int
    took_s: float
    num_events: int
    num_minutes: int
    num_revised: int
    has_failed: bool


@dataclass(frozen=True, slots=True)
class SetAside:
    """A run that could not be folded: why, how often it was tried, and when it will be next."""

    run: RunKey
    name: str
    reason: str
    num_tries: int
    retry_at_us: int


@dataclass(frozen=True, slots=True)
class LiveCounters:
    """What a collector has done since it started; none of these falls."""

    folds: int = 0
    events: int = 0
    leases_taken: int = 0
    leases_lost: int = 0
    states_saved: int = 0
    states_refused: int = 0
    """Saved states that could not be used, so that their run was folded from its first event on."""
    minutes_booked: int = 0
    minutes_revised: int = 0
    runs_frozen: int = 0
    runs_set_aside: int = 0
    failures_inferred: int = 0
    failures_withdrawn: int = 0
    incidents_opened: int = 0
    detectors_failed: int = 0
    """How often a run's detectors were set aside because one of them raised."""
    detector_states_refused: int = 0
    """Saved states of detectors that could not be used, so that they began afresh."""
    thresholds_refused: int = 0
    """How often the file of thresholds had changed and could not be used."""
    database_errors: int = 0


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """All of it, at one time."""

    at_us: int = 0
    runs: dict[RunKey, tuple[LiveRun, ...]] = field(default_factory=dict)
    set_aside: dict[RunKey, SetAside] = field(default_factory=dict)
    counters: LiveCounters = field(default_factory=LiveCounters)
    num_waiting: int = 0
    """Runs that have something to fold and that this collector has no room for."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    beat_us: int = 0
    """When the keeper last went round; it hangs if that was long ago."""
