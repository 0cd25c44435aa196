"""From a log through the ledger to one sentence: what is wrong, and what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from event_runs import DAY, RUN, START, Design, booked, events
from msgspec.structs import replace
from tachograph_agent.events import CheckpointSaved, CheckpointStart, Rollback, RunStart, Step
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.facts import Stakes
from tachograph_collector.model.judge import Judgement, judge
from tachograph_collector.model.theory import goodput
from tachograph_collector.model.waste import waste_by_cause

PRICED = RunStart(t=START, run=RUN, gpus=1_000, world_size=1_000, price_per_gpu_hour=2.0)


def judged(design: Design, seed: int = 0, **changes: object) -> Judgement:
    told = judge(*booked(design, seed), **changes)  # type: ignore[arg-type]  # fields by name
    assert told is not None
    return told


def kinds(told: Judgement) -> list[str]:
    return [finding.kind for finding in told.findings]


def test_a_healthy_run_is_said_to_be_explained_by_its_failures() -> None:
    told = judged(Design(restart=300), seed=1)
    assert told.level == "fine"
    assert told.sentence.startswith("Nothing is missing: ")
    assert "13 failures" in told.sentence
    assert kinds(told) == ["fine", "flat_top"]
    assert told.advice is not None
    assert told.advice.in_use.low < told.advice.in_use.goodput < told.advice.in_use.high


def test_of_forty_healthy_weeks_at_most_one_raises_the_main_alarm() -> None:
    fired = ["hidden_loss" in kinds(judged(Design(), seed)) for seed in range(40)]
    assert sum(fired) <= 1


def test_two_points_of_stalls_are_found_within_a_week_in_four_of_five_runs() -> None:
    found, lost = [], []
    for seed in range(15):
        told = judged(Design(stall_a_day=1_870.0), seed)
        found.append("hidden_loss" in kinds(told) and "stalls" in told.sentence)
        lost.append(100 * told.facts.parts_s["stalls"] / told.facts.wall_s)
    assert np.mean(lost) == pytest.approx(2.0, abs=0.25)
    assert np.mean(found) >= 0.8


def test_the_sentence_says_what_is_wrong_and_what_it_costs() -> None:
    told = judged(Design(stall_a_day=6_000.0, start=PRICED), seed=2)
    finding = told.findings[0]
    assert (finding.kind, finding.level, told.level) == ("hidden_loss", "alarm", "alarm")
    assert finding.points is not None
    assert told.conditional is not None
    assert finding.points == pytest.approx(100 * told.conditional.missing_s / told.facts.wall_s)
    assert finding.gpu_hours_a_day == pytest.approx(finding.points / 100 * 24 * 1_000)
    assert finding.money_a_day == pytest.approx(finding.gpu_hours_a_day * 2)
    for words in (f"{finding.points:.1f} points", "GPU-hours a day", "in money", "stalls"):
        assert words in told.sentence
    assert told.sentence.count(". ") == 0
    assert told.sentence.endswith(".")


def test_without_gpus_or_price_only_points_are_told() -> None:
    told = judged(Design(stall_a_day=6_000.0), seed=2)
    assert told.findings[0].gpu_hours_a_day is None
    assert "GPU-hours" not in told.sentence
    assert "money" not in told.sentence


def test_saves_that_do_not_land_are_named() -> None:
    told = judged(Design(failing_saves=0.35), seed=1)
    assert told.findings[0].kind == "hidden_loss"
    assert "threw away more than one interval" in told.sentence
    assert "did not land" in told.sentence


def test_work_that_rollbacks_threw_away_is_named() -> None:
    log, offset = [], 0
    for event in events(Design(days=3, failures=[])):
        if isinstance(event, Step | CheckpointStart | CheckpointSaved):
            event = replace(event, step=event.step - offset)
        log.append(event)
        # Six times back by more than an interval, to a step that was saved; then it is all done again.
        if isinstance(event, Step) and event.step % 120 == 100 and event.t < START + 1.5 * DAY:
            log.append(Rollback(t=event.t, run=RUN, attempt=0, to_step=event.step - 60, reason="loss_spike"))
            offset += 60
    ledger = Ledger()
    ledger.add(log)
    told = judge(ledger.books(RUN), ledger.details(RUN))
    assert told is not None
    assert told.level == "alarm"
    assert "work thrown away without a failure" in told.sentence
    assert told.facts.parts_s["lost_otherwise"] == ledger.books(RUN).accounts_us["lost"] * 1e-6
    assert {one.cause for one in told.waste} >= {"loss_spike", "saving"}


def test_failures_faster_than_planned_are_an_alarm_with_their_cost() -> None:
    start = RunStart(t=START, run=RUN, planned_mtbf_s=264 * DAY, gpus=1_000)
    told = judged(Design(days=3, mtbf=20_000.0, start=start), seed=4)
    assert "rate" in kinds(told)
    (finding,) = (one for one in told.findings if one.kind == "rate")
    assert "one every 264 d was planned" in finding.sentence
    assert "divided by the number of nodes" in finding.sentence
    assert finding.points is not None
    assert finding.points > 1
    honest = RunStart(t=START, run=RUN, planned_mtbf_s=20_000.0)
    assert "rate" not in kinds(judged(Design(days=3, mtbf=20_000.0, start=honest), seed=4))


def test_a_persist_longer_than_the_interval_is_an_alarm_of_its_own() -> None:
    told = judged(Design(days=3, tau=510, cost=3, persist=1_020, failures=[DAY, 2 * DAY]))
    (finding,) = (one for one in told.findings if one.kind == "persist")
    assert finding.level == "alarm"
    assert "17 min to land, longer than the 8.5 min between saves" in finding.sentence
    assert "interval" not in kinds(told)


def test_an_mtbf_that_nobody_divided_is_told_by_the_planned_interval() -> None:
    start = RunStart(t=START, run=RUN, planned_interval_s=52_200.0)
    failures = [i * 43_200.0 + 777 for i in range(14)]
    told = judged(Design(days=7, failures=failures, restart=1_800, start=start))
    (finding,) = (one for one in told.findings if one.kind == "undivided")
    assert finding.level == "alarm"
    assert told.undivided is not None
    assert 100 * told.undivided.goodput == pytest.approx(49.27, abs=1.0)
    assert "14.5 h, is longer than the job's MTBF of 12 h" in finding.sentence


def test_an_interval_outside_the_flat_top_is_advised_against_with_what_it_costs() -> None:
    told = judged(Design(days=14, tau=10_800, restart=1_800, start=PRICED), seed=6)
    (finding,) = (one for one in told.findings if one.kind == "interval")
    assert finding.level == "advice"
    assert told.advice is not None
    assert finding.points == pytest.approx(told.advice.gain_points)
    assert finding.sentence.startswith("Saving every 3 h keeps")


def test_where_restarts_dominate_the_longest_part_is_named() -> None:
    told = judged(Design(days=14, restart=5_400), seed=7)
    assert "restarts" in kinds(told)
    (finding,) = (one for one in told.findings if one.kind == "restarts")
    assert "no interval will help" in finding.sentence
    assert "reload takes 90" in finding.sentence


def test_too_little_data_is_said_to_be_too_little() -> None:
    told = judged(Design(days=0.06, failures=[]))
    assert told.level == "too_little"
    assert told.sentence.startswith("Too little data to judge: 1 interval")
    assert told.conditional is None
    assert told.band is None
    assert told.advice is None


def test_a_log_that_cannot_show_saves_is_not_judged() -> None:
    told = judged(Design(days=2, start=RunStart(t=START, run=RUN, checkpoints="unseen")), seed=1)
    assert told.level == "too_little" or told.measured.tau.num > 0
    log = [event for event in events(Design(days=2), 1) if not event.kind.startswith("checkpoint")]
    ledger = Ledger()
    ledger.add([*log[1:], RunStart(t=START, run=RUN, checkpoints="unseen")])
    told_unseen = judge(ledger.books(RUN), ledger.details(RUN))
    assert told_unseen is not None
    assert "can't show saves" in told_unseen.sentence
    assert "MTBF between" in told_unseen.sentence


def test_planned_down_time_is_not_held_against_the_run() -> None:
    told = judged(Design(planned={2 * DAY: 40_000.0, 4 * DAY: 40_000.0}), seed=1)
    assert "hidden_loss" not in kinds(told)
    assert told.facts.parts_s["planned"] > 80_000


def test_the_prediction_is_the_closed_form_of_what_was_measured() -> None:
    told = judged(Design(days=14, failures=[DAY * i + 5_000.0 for i in range(14)]))
    assert told.advice is not None
    mtbf = told.measured.mtbf_s
    assert mtbf == pytest.approx(DAY, rel=1e-6)
    expected = goodput(2_240, 60, 900, mtbf)
    assert told.advice.in_use.goodput == pytest.approx(float(expected), abs=2e-4)


def test_parts_and_waste_sum_to_the_run_exactly() -> None:
    books, details = booked(Design(stall_a_day=3_000.0, failing_saves=0.1, planned={2 * DAY: 9_000.0}), 8)
    told = judge(books, details)
    assert told is not None
    assert sum(told.facts.parts_s.values()) * 1e6 == pytest.approx(books.wall_us, abs=1)
    waste = waste_by_cause(books, details)
    assert sum(one.total_us for one in waste) == books.wall_us - books.accounts_us["kept"]
    assert {one.cause for one in waste} == {
        "gpu",
        "saving",
        "aborted saves",
        "stalls",
        "planned stops",
        "start-up",
        "shutdown",
    }
    assert [one.total_us for one in waste] == sorted((one.total_us for one in waste), reverse=True)


def test_stakes_say_what_a_point_is_worth() -> None:
    assert Stakes().words(1.0) == "1.0 point"
    assert Stakes(gpus=64).words(7.1) == "7.1 points, 109 GPU-hours a day"
    assert Stakes(gpus=64, price_per_gpu_hour=2.4).words(7.1) == "7.1 points, 109 GPU-hours a day (262 in money)"


def test_a_run_of_no_length_has_no_judgement() -> None:
    ledger = Ledger()
    ledger.add([RunStart(t=START, run=RUN)])
    assert judge(ledger.books(RUN), ledger.details(RUN)) is None


def test_a_price_that_is_none_is_left_out() -> None:
    start = RunStart(t=START, run=RUN, gpus=8, price_per_gpu_hour=math.inf)
    told = judged(Design(stall_a_day=6_000.0, start=start), seed=2)
    assert told.findings[0].money_a_day is None


def test_what_is_below_the_explained_yet_within_chance_is_told_as_such() -> None:
    told = (judged(Design(restart=300), seed) for seed in range(60))
    found = [one for one in told if one.conditional is not None and -2 < one.conditional.z < -1]
    assert found
    for one in found:
        assert one.conditional is not None
        assert one.sentence.startswith("Nothing is missing beyond chance: ")
        assert f"are {-one.conditional.z:.1f} times what chance gives or takes; from 2.3 times on" in one.sentence
