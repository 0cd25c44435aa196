"""What a run's books say live: goodput that failures leave unexplained, an interval, a restart's longest part."""

from __future__ import annotations

import sys
from bisect import bisect_right
from pathlib import Path

import pytest
from tachograph_agent.events import RunStart
from tachograph_collector.detect import Detectors, Incident, settings_from
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.judge import judge

sys.path.append(str(Path(__file__).parents[1] / "model"))

from event_runs import DAY, RUN, START, Design, booked, events  # a room's made-up runs, shared with the judge's tests

PRICED = RunStart(t=START, run=RUN, gpus=1_000, world_size=1_000, price_per_gpu_hour=2.0)


def at_the_end(design: Design, seed: int = 0, thresholds: dict | None = None) -> list[Incident]:
    """Read once, as a recording is."""
    books, details = booked(design, seed)
    detectors = Detectors(settings_from(thresholds or {}))
    detectors.add(events(design, seed))
    detectors.look()
    detectors.judge(RUN, books, details, books.end_us, is_final=True)
    return [one for one in detectors.incidents() if one.detector in ("unexplained_loss", "interval", "restart_phase")]


def looked_at(log: list, days: list[float], *, restarted: bool = False) -> Detectors:
    """Judged at these moments of the run, live: the ledger has what was told until then."""
    log = sorted(log, key=lambda one: one.t)
    ledger, detectors, begin = Ledger(), Detectors(), 0
    detectors.add(log[:2])
    for day in days:
        now = START + day * DAY
        end = bisect_right(log, now, key=lambda one: one.t)
        ledger.add(log[begin:end])
        begin, now_us = end, round(now * 1e6)
        detectors.judge(RUN, ledger.books(RUN, now_us), ledger.details(RUN, now_us), now_us)
        if restarted:
            saved, detectors = detectors.save(), Detectors()
            detectors.restore(saved)
    return detectors


def kinds(incidents: list[Incident]) -> list[str]:
    return [one.detector for one in incidents]


def test_time_that_failures_do_not_explain_is_one_incident_in_the_judges_words() -> None:
    design = Design(stall_a_day=6_000.0, start=PRICED)
    (one,) = [each for each in at_the_end(design, seed=2) if each.detector == "unexplained_loss"]
    told = judge(*booked(design, 2))
    assert told is not None
    assert (one.detector, one.severity, one.outcome) == ("unexplained_loss", "warning", "run ended")
    assert one.summary == told.sentence.rstrip(".")
    assert one.evidence.more["missing_points"] == pytest.approx(told.findings[0].points)
    assert one.cost.wall_s == pytest.approx(one.evidence.more["missing_s"])
    assert one.cost.money == pytest.approx(one.cost.wall_s / 3600 * 1_000 * 2.0)


def test_a_run_that_its_failures_explain_has_none_of_these() -> None:
    assert [at_the_end(Design(restart=300), seed) for seed in range(10)] == [[]] * 10


def test_an_interval_far_off_the_best_says_the_new_one_and_what_it_brings() -> None:
    design = Design(tau=20_000.0, start=PRICED)
    (one,) = [each for each in at_the_end(design) if each.detector == "interval"]
    told = judge(*booked(design))
    assert told is not None
    assert told.advice is not None
    assert one.evidence.value == told.advice.in_use.tau_s
    assert one.evidence.baseline == told.advice.best.tau_s
    assert one.evidence.more["gain_points"] == pytest.approx(told.advice.gain_points)
    assert f"save every {told.advice.best.tau_s / 60:.3g} min instead of every" in one.advice
    assert one.cost.wall_s == pytest.approx(told.advice.gain_points / 100 * 7 * DAY, rel=0.01)


def test_an_interval_that_costs_less_than_a_point_is_left_alone() -> None:
    assert at_the_end(Design(tau=3_000.0, restart=300)) == []
    pays = at_the_end(Design(tau=20_000.0), thresholds={"interval": {"least_points": 30.0}})
    assert "interval" not in kinds(pays)


def test_the_phase_that_restarts_mostly_consist_of_says_what_halving_it_brings() -> None:
    design = Design(days=14, restart=7_200.0, start=PRICED)
    (one,) = [each for each in at_the_end(design) if each.detector == "restart_phase"]
    told = judge(*booked(design))
    assert told is not None
    part = max(told.measured.restart_parts, key=told.measured.restart_parts.__getitem__)
    num, seconds = told.measured.restart.num, told.measured.restart_parts[part]
    assert (one.subject, one.severity) == (f"phase {part}", "info")
    assert one.evidence.more["halving_points"] == pytest.approx(100 * num * seconds / 2 / (14 * DAY), rel=0.01)
    assert f"shorten {part} first" in one.advice
    assert one.cost.wall_s == pytest.approx(num * seconds)


def test_two_restarts_name_no_phase() -> None:
    assert at_the_end(Design(days=3, restart=7_200.0, failures=[0.5 * DAY, 1.5 * DAY])) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_live_it_is_raised_once_renewed_and_begins_where_time_went_missing(restarted: bool) -> None:
    design = Design(days=8, stall_a_day=9_000.0, start=PRICED)
    days = [0.3 * 1.15**place for place in range(23)]
    detectors = looked_at(events(design, 3), days, restarted=restarted)
    (one,) = [each for each in detectors.incidents() if each.detector == "unexplained_loss"]
    assert one.cleared_us is None
    assert one.opened_us < one.found_us <= round((START + 4 * DAY) * 1e6) < one.updated_us
    opened = [each for each in detectors.look() if each.what == "opened" and each.incident == one]
    assert opened == []  # what was renewed since is told as that


def test_live_it_is_over_when_nothing_more_is_lost_and_what_was_told_is_not_told_again() -> None:
    leaking, healthy = events(Design(days=4, stall_a_day=9_000.0), 2), events(Design(days=12), 2)
    moved = [one for one in leaking if one.kind != "run.end"]
    last_step = max(one.step for one in moved if one.kind == "step")
    last_attempt = max(int(one.attempt) for one in moved if one.attempt is not None)
    for one in healthy[1:]:
        one.t += 4 * DAY
        if one.attempt is not None:
            one.attempt = int(one.attempt) + last_attempt + 1
        for name in ("step", "resume_step"):
            if getattr(one, name, None) is not None:
                setattr(one, name, getattr(one, name) + last_step)
        moved.append(one)
    detectors = looked_at(moved, [quarter / 4 for quarter in range(2, 64)])
    (one,) = [each for each in detectors.incidents() if each.detector == "unexplained_loss"]
    assert one.outcome == "nothing more was lost"
    assert one.cleared_us <= round((START + 7 * DAY) * 1e6)


def test_books_are_due_every_few_minutes_and_of_runs_that_were_heard_of() -> None:
    detectors = looked_at(events(Design(days=1)), [0.5])
    at_us = round((START + 0.5 * DAY) * 1e6)
    assert not detectors.is_judge_due(RUN, at_us + 299_000_000)
    assert detectors.is_judge_due(RUN, at_us + 300_000_000)
    assert not detectors.is_judge_due("another", at_us)
