"""What a run's own books say of the model's numbers, each with how many samples stand behind it.

``cost`` C is what a save blocks, ``persist`` what an asynchronous one needs from then on until it has landed,
``restart`` R from a failure until training goes on, ``tau`` training time between landed saves, and M the mean time
between failures, raw and in incidents. Seconds throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tachograph_collector.ledger.books import Books, CheckpointRecord, Details
from tachograph_collector.model.check import Floats
from tachograph_collector.model.incidents import Incident, Stop, incidents
from tachograph_collector.model.mtbf import Mtbf, RateBelief, mtbf, rate_belief
from tachograph_collector.model.recorded import Recorded, recorded
from tachograph_collector.model.theory import optimum

RESTART_PARTS: Final = ("detect", "replace", "reload", "warmup")
MOST_OF_A_GAP: Final = 0.1
"""An interval up to this share of the mean gap groups few failures by chance."""


SHORTEST_MTBF_S: Final = 1e-6
"""Times are whole microseconds: nobody plans with failures that come faster, and a run that says so says nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Measurements of one number, in seconds. Its statistics are None where there is none."""

    values_s: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def num(self) -> int:
        """How many."""
        return self.values_s.size

    @property
    def mean_s(self) -> float | None:
        """Their mean."""
        return float(self.values_s.mean()) if self.num else None

    @property
    def median_s(self) -> float | None:
        """Their median."""
        return float(np.median(self.values_s)) if self.num else None

    @property
    def range_s(self) -> tuple[float, float] | None:
        """The least and the greatest."""
        return (float(self.values_s.min()), float(self.values_s.max())) if self.num else None


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The numbers of one run."""

    cost: Samples
    persist: Samples
    """Of asynchronous saves, beyond their blocking part; without any samples saves are synchronous, or never landed."""
    tau: Samples
    restart: Samples
    """Restarts after which training went on, one a failure."""
    restart_parts: dict[str, float]
    """Mean seconds of a restart by part (``detect``, ``replace``, ``reload``, ``warmup``, ``other``)."""
    incident_down: Samples
    """How long incidents took, follow-up failures and the work between them included."""
    startup_s: float
    """Time before the first step of the run, queueing left out."""
    exposure_s: float
    """Wall time without planned down time and queueing."""
    failures: Sequence[Stop]
    """On the exposure clock."""
    incidents: Sequence[Incident]
    """On the exposure clock."""
    raw_mtbf: Mtbf
    incident_mtbf: Mtbf
    belief: RateBelief
    """Of the rate of incidents; a planned MTBF is in it as a prior worth one."""
    planned_mtbf_s: float | None
    planned_interval_s: float | None
    saves_seen: bool
    is_async: bool

    @property
    def interval_s(self) -> float | None:
        """The interval in use: the median of ``tau``, which a save before a planned stop doesn't move."""
        return self.tau.median_s

    @property
    def mean_cost_s(self) -> float | None:
        """C: the mean, since slow saves take time too. None where no save's time is known."""
        return self.cost.mean_s or None

    @property
    def mean_persist_s(self) -> float:
        """What a save needs to land beyond its blocking part; 0 where saves are synchronous."""
        return self.persist.mean_s or 0.0

    @property
    def mtbf_s(self) -> float | None:
        """M, from incidents: T/K, with a planned MTBF (T + planned)/(K + 1). None without failure and plan."""
        return self.belief.mtbf_s if self.belief.has_plan else self.incident_mtbf.mean_s

    @property
    def mtbf_interval_s(self) -> tuple[float, float]:
        """M's 95 % interval: exact, or where there is a plan that of the belief."""
        if self.belief.has_plan:
            return self.belief.interval_s()
        return self.incident_mtbf.low_s, self.incident_mtbf.high_s

    @property
    def restarts_s(self) -> Floats:
        """R as the model takes it: how long incidents took; before any, the start-up stands in."""
        return self.incident_down.values_s if self.incident_down.num else np.array([self.startup_s])

    @property
    def restart_is_guess(self) -> bool:
        """True where no restart was seen and the start-up stands in for one."""
        return self.incident_down.num == 0


def measure(books: Books, details: Details, *, planned_mtbf_s: float | None = None) -> Measured | None:
    """What one run's books and details say; None for a run of no length.

    ``planned_mtbf_s`` goes before the one that the run's start told.
    """
    if not details.segments:
        return None
    return measure_recorded(recorded(details), books, details, planned_mtbf_s=planned_mtbf_s)


def measure_recorded(
    run: Recorded, books: Books, details: Details, *, planned_mtbf_s: float | None = None
) -> Measured | None:
    """``measure`` of details that are arrays already."""
    exposure_s = float(run.exposure(run.end_s[-1:])[0])
    if exposure_s <= 0:
        return None
    planned = planned_mtbf_s or books.planned_mtbf_s or None
    if planned is not None and planned < SHORTEST_MTBF_S:
        planned = None
    saves, is_async = _saves(details.checkpoints)
    cost = Samples(np.array([save.blocking_us * 1e-6 for save in saves if save.start_us is not None]))
    persist = Samples(
        np.array([(save.persist_us - save.blocking_us) * 1e-6 for save in saves if save.persist_us is not None])
    )
    tau = _intervals(run, details.checkpoints)
    stops = run.failures()
    grouped = incidents(stops, _whole_interval_s(tau, cost, persist, len(stops), exposure_s))
    restarts, parts = _restarts(run)
    on_exposure = _on_exposure(run, stops)
    grouped = _regroup(grouped, on_exposure)
    down = [one.down_s for one in grouped if one.down_s is not None]
    return Measured(
        cost=cost,
        persist=persist,
        tau=tau,
        restart=restarts,
        restart_parts=parts,
        incident_down=Samples(np.array(down, dtype=np.float64)),
        startup_s=_startup_s(run),
        exposure_s=exposure_s,
        failures=on_exposure,
        incidents=grouped,
        raw_mtbf=mtbf(len(stops), exposure_s),
        incident_mtbf=mtbf(len(grouped), exposure_s),
        belief=rate_belief(len(grouped), exposure_s, planned),
        planned_mtbf_s=planned,
        planned_interval_s=books.planned_interval_s or None,
        saves_seen=books.checkpoints_seen,
        is_async=is_async,
    )


def _saves(checkpoints: Sequence[CheckpointRecord]) -> tuple[list[CheckpointRecord], bool]:
    """The saves that landed, of the mode that most of them have: a last synchronous save is another thing."""
    landed = [save for save in checkpoints if save.landed_us is not None]
    if not landed:
        return [], False
    is_async = 2 * sum([save.mode == "async" for save in landed]) > len(landed)
    mode = "async" if is_async else "sync"
    return [save for save in landed if save.mode == mode], is_async


def _whole_interval_s(
    tau: Samples, cost: Samples, persist: Samples, num_failures: int, exposure_s: float
) -> float | None:
    """What must be banked after a restart before the next failure is an incident of its own.

    That is a full interval with its save. One that is so long that chance alone puts many failures into it must not
    make one incident of them: beyond a tenth of the mean gap the best interval counts, if that is longer still.
    """
    interval_s, cost_s = tau.median_s, cost.mean_s or 0.0
    if interval_s is None:
        return None
    if cost_s > 0 and num_failures:
        gap_s = exposure_s / num_failures
        interval_s = min(interval_s, max(float(optimum(cost_s, gap_s)), MOST_OF_A_GAP * gap_s))
    return interval_s + cost_s + (persist.mean_s or 0.0)


def _intervals(run: Recorded, checkpoints: Sequence[CheckpointRecord]) -> Samples:
    """Training time between saves that landed without an interruption between them, and from a restart to the first."""
    landed = [save for save in checkpoints if save.landed_us is not None]
    begin_us = [save.landed_us if save.start_us is None else save.start_us for save in landed]
    end_us = [save.landed_us if save.end_us is None else save.end_us for save in landed]
    begin = np.asarray((np.array(begin_us, dtype=np.int64) - run.origin_us) * 1e-6, np.float64)
    end = np.asarray((np.array(end_us, dtype=np.int64) - run.origin_us) * 1e-6, np.float64)
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    if not begin.size:
        return Samples()
    stopped = np.array([run.seconds(it.at_us) for it in run.interruptions])
    # An interval begins where the save before it ended, or where work went on after the last interruption.
    resumed = np.array(
        [run.seconds(it.resumed_at_us if it.resumed_at_us is not None else it.at_us) for it in run.interruptions]
    )
    before = np.searchsorted(stopped, begin, side="right") - 1
    since = np.concatenate(([0.0], end[:-1]))
    if stopped.size:
        since = np.where(before >= 0, np.maximum(since, resumed[before]), since)
    lengths = run.work(begin) - run.work(since)
    return Samples(lengths[lengths > 0])


def _restarts(run: Recorded) -> tuple[Samples, dict[str, float]]:
    """How long each way back took from a failure that struck at work, and the mean of its parts."""
    done = [
        it
        for it in run.interruptions
        if it.how == "failure" and it.resumed_at_us is not None and it.last_step is not None
    ]
    parts: Counter[str] = Counter()
    for it in done:
        for name, us in it.phases_us.items():
            if name != "queued":
                parts[name if name in RESTART_PARTS else "other"] += us
    values = [(it.restart_us - it.phases_us.get("queued", 0)) * 1e-6 for it in done]
    return Samples(np.array(values, dtype=np.float64)), {
        name: us * 1e-6 / len(done) for name, us in parts.items() if us
    }


def _startup_s(run: Recorded) -> float:
    first = int(np.argmax(run.is_work)) if run.is_work.any() else 0
    return float(run.exposure(run.begin_s[first : first + 1])[0])


def _on_exposure(run: Recorded, stops: Sequence[Stop]) -> list[Stop]:
    struck = run.exposure(np.array([stop.struck_s for stop in stops], dtype=np.float64)).tolist()
    resumed = run.exposure(
        np.array([stop.struck_s if stop.resumed_s is None else stop.resumed_s for stop in stops], dtype=np.float64)
    ).tolist()
    return [
        Stop(at, None if stop.resumed_s is None else until, stop.category, stop.at_work)
        for stop, at, until in zip(stops, struck, resumed, strict=True)
    ]


def _regroup(grouped: Sequence[Incident], stops: Sequence[Stop]) -> list[Incident]:
    """The same groups, of the same failures on another clock."""
    left = iter(stops)
    return [Incident(tuple(next(left) for _ in one.stops)) for one in grouped]
