"""Attempts, interruptions, checkpoints and anomalies as records of their own, read off outline and booking."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Literal

from tachograph_agent.events import Failure

from tachograph_collector.ledger.booking import Booking
from tachograph_collector.ledger.books import Anomaly, AttemptRecord, CheckpointRecord, Interruption
from tachograph_collector.ledger.legs import Leg
from tachograph_collector.ledger.outline import Generation, Outing, Verdict, cause_of, leg_end


def attempts(generation: Generation, booking: Booking) -> list[AttemptRecord]:
    """One record an attempt, in the order in which they began."""
    return [
        AttemptRecord(
            index=number,
            name=outing.name,
            start_us=outing.begin_us,
            end_us=outing.end_us,
            how=outing.how,
            world_size=outing.world_size,
            resume_step=outing.resume,
            told_resume_step=outing.legs[0].told,
            first_step=next((leg.first_step for leg in outing.legs if leg.stepped), None),
            last_step=outing.last_step if outing.stepped else None,
            category=cause_of(outing) if outing.how == "failure" else None,
            kept_us=booking.attempts_us[number, "kept"],
            lost_us=booking.attempts_us[number, "lost"],
        )
        for number, outing in enumerate(generation.outings)
    ]


def interruptions(generation: Generation, booking: Booking) -> list[Interruption]:
    """Each stop of training with its cost: rollbacks, and attempts that ended by failure, plan or without a word."""
    lost: Counter[tuple[int, int]] = Counter()
    for segment in booking.segments:
        if segment.account == "lost" and segment.by is not None:
            lost[segment.by] += segment.end_us - segment.start_us
    found: list[Interruption] = []
    outings = generation.outings
    for number, outing in enumerate(outings):
        for place, leg in enumerate(outing.legs[:-1]):
            following = outing.legs[place + 1]
            found.append(_rollback(number, place, leg, following, booking, lost))
        if outing.how in ("failure", "planned", "unexplained"):
            found.append(_stop(number, outing, outings, booking, lost))
    return found


def _rollback(
    number: int, place: int, leg: Leg, following: Leg, booking: Booking, lost: Counter[tuple[int, int]]
) -> Interruption:
    resumed = following.work_begin_us if following.stepped else None
    restart = _restart_between(booking, leg.last_us, resumed)
    return Interruption(
        attempt=number,
        how="rollback",
        at_us=following.begin_us,
        category=following.rollback_reason,
        node=None,
        rank=None,
        detail=None,
        resumed_at_us=resumed,
        resume_step=following.resume if following.stepped else following.told,
        last_step=leg.known_step,
        lost_us=lost[number, place],
        restart_us=sum(restart.values()),
        phases_us=dict(restart),
    )


def _stop(
    number: int, outing: Outing, outings: list[Outing], booking: Booking, lost: Counter[tuple[int, int]]
) -> Interruption:
    following = outings[number + 1] if number + 1 < len(outings) else None
    resumed = following.work_begin_us if following is not None else None
    until = resumed
    if following is not None and resumed is None:
        until = following.end_us
    restart = _restart_between(booking, outing.own_last_us, until)
    cause = outing.cause
    failure = cause if isinstance(cause, Failure) else None
    how: Literal["failure", "planned", "unexplained"] = (
        "failure" if outing.how == "failure" else "planned" if outing.how == "planned" else "unexplained"
    )
    detail = failure.detail if failure is not None else getattr(cause, "reason", None)
    return Interruption(
        attempt=number,
        how=how,
        at_us=outing.own_last_us,
        category=cause_of(outing) if how == "failure" else None,
        node=failure.node if failure is not None else None,
        rank=failure.rank if failure is not None else None,
        detail=detail,
        resumed_at_us=resumed,
        resume_step=following.resume if following is not None else None,
        last_step=outing.last_step if outing.stepped else None,
        lost_us=lost[number, len(outing.legs) - 1],
        restart_us=sum(restart.values()),
        phases_us=dict(restart),
        inferred=failure.inferred if failure is not None else False,
    )


def _restart_between(booking: Booking, low_us: int, high_us: int | None) -> Counter[str]:
    """Restart time by sub-account in [low, high); to the end if nothing has resumed."""
    segments = booking.segments
    place = bisect_left(segments, low_us + 1, key=lambda segment: segment.end_us)
    found: Counter[str] = Counter()
    for segment in segments[place:]:
        if high_us is not None and segment.start_us >= high_us:
            break
        if segment.account == "restart":
            end = segment.end_us if high_us is None else min(segment.end_us, high_us)
            found[segment.sub] += end - max(segment.start_us, low_us)
    return found


def checkpoints(generation: Generation, verdict: Verdict) -> list[CheckpointRecord]:
    """Every save in time order, with what it cost and what became of it."""
    found: list[CheckpointRecord] = []
    for lineage in verdict.lineages:
        outing, leg = generation.outings[lineage.outing], lineage.leg
        saves = outing.track.lifecycle.saves
        place = bisect_left(saves, leg.saves_from_us, key=lambda save: save.begin_us)
        until = leg_end(outing, leg)
        limit = lineage.limit
        for save in saves[place:]:
            if save.begin_us >= until:
                break
            state: Literal["landed", "pending", "failed", "abandoned"]
            if save.failed:
                state = "failed"
            elif limit is not None and save.step > limit:
                state = "abandoned"
            else:
                state = "landed" if save.landed else "pending"
            landed_us = save.landed_us
            blocking_end = save.end_us if save.end_us is not None else None
            found.append(
                CheckpointRecord(
                    attempt=lineage.outing,
                    step=save.step,
                    mode=save.mode,
                    start_us=save.begin_us if save.timed else None,
                    end_us=blocking_end if save.timed else None,
                    blocking_us=max(0, blocking_end - save.begin_us) if save.timed and blocking_end else 0,
                    landed_us=landed_us,
                    persist_us=landed_us - save.begin_us
                    if landed_us is not None and save.mode == "async" and save.timed
                    else None,
                    bytes=save.bytes,
                    state=state,
                    tiers=save.tiers,
                )
            )
    return found


def anomalies(generation: Generation) -> list[Anomaly]:
    """What in the log doesn't add up."""
    found: list[Anomaly] = []
    for number, outing in enumerate(generation.outings):
        for leg in outing.legs:
            if leg.disbelieved:
                what = "resume step" if leg.rollback_reason is None else "rollback's step"
                found.append(
                    Anomaly(
                        "resume_step_not_believed",
                        leg.begin_us,
                        f"attempt {outing.name}: the {what} told is {leg.told}, but its first record, step "
                        f"{leg.first_step}, works on from step {leg.resume}; the record is believed",
                    )
                )
        last = generation.outings[number - 1] if number else None
        if last is not None and last.own_last_us > outing.begin_us:
            found.append(
                Anomaly(
                    "attempts_overlap",
                    outing.begin_us,
                    f"attempt {last.name} still reported work {(last.own_last_us - outing.begin_us) / 1e6:.3f} s after "
                    f"attempt {outing.name} had begun; that time belongs to the later attempt",
                )
            )
    return found
