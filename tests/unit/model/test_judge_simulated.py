"""The judge of runs that the simulators wrote: it measures what was simulated, and is quiet where nothing is hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.judge import Judgement, judge
from tachograph_collector.model.simulate import Corruption, Design, Failures, simulate_log

DAY = 86_400.0
BLOCKING = Design(interval_s=2_237, blocking_s=60, detect_s=600, replace_s=720, reload_s=180, warmup_s=300)
ASYNCHRONOUS = replace(BLOCKING, interval_s=507, blocking_s=3, persist_s=55.2)
HALF_A_DAY = Failures(mtbf_s=43_200)


def judged(design: Design, failures: Failures, seed: int, days: float = 7) -> Judgement:
    ledger = Ledger()
    ledger.add(simulate_log(design, failures, duration_s=days * DAY, seed=seed)[0])
    (run,) = ledger.runs()
    told = judge(ledger.books(run), ledger.details(run))
    assert told is not None
    return told


@pytest.mark.parametrize("design", [BLOCKING, ASYNCHRONOUS], ids=["blocking", "asynchronous"])
def test_the_designs_numbers_are_measured(design: Design) -> None:
    told = judged(design, HALF_A_DAY, seed=3, days=21).measured
    assert told.interval_s == pytest.approx(design.interval_s, rel=1e-3)
    assert told.mean_cost_s == pytest.approx(design.blocking_s, rel=1e-3)
    assert told.mean_persist_s == pytest.approx(design.persist_s or 0.0, rel=1e-3)
    assert told.restart.median_s == pytest.approx(design.restart_s, rel=1e-3)
    assert told.restart_parts["reload"] == pytest.approx(design.reload_s, rel=1e-3)
    low, high = told.mtbf_interval_s
    assert low < HALF_A_DAY.mtbf_s < high


@pytest.mark.parametrize("design", [BLOCKING, ASYNCHRONOUS], ids=["blocking", "asynchronous"])
def test_healthy_weeks_raise_no_alarm(design: Design) -> None:
    told = [judged(design, HALF_A_DAY, seed) for seed in range(20)]
    assert sum(one.level == "alarm" for one in told) <= 1
    inside = [one.conditional is not None and abs(one.conditional.z) < 3 for one in told]
    assert all(inside)


def test_a_persist_that_training_waits_for_is_told_with_what_it_costs() -> None:
    told = judged(replace(ASYNCHRONOUS, interval_s=510, persist_s=1_020), HALF_A_DAY, seed=1)
    assert (told.level, told.findings[0].kind) == ("alarm", "persist")
    assert told.findings[0].points == pytest.approx(46, abs=3)


def test_silent_corruption_shows_as_failures_that_threw_away_more_than_an_interval() -> None:
    failures = replace(HALF_A_DAY, corruption=Corruption(mean_gap_s=1.5 * DAY, detection_s=10_800))
    told = judged(BLOCKING, failures, seed=2)
    assert (told.level, told.findings[0].kind) == ("alarm", "hidden_loss")
    assert "threw away more than one interval" in told.sentence
    assert any(one.cause == "sdc" for one in told.waste)


def test_clustered_failures_are_grouped() -> None:
    failures = replace(HALF_A_DAY, cluster_probability=0.3)
    # A quick restart: what strikes before the processes are up again is no failure of its own in any log.
    quick = replace(BLOCKING, detect_s=60, replace_s=120, reload_s=60, warmup_s=60)
    told = judged(quick, failures, seed=4, days=60)
    assert told.measured.incident_mtbf.num_failures < 0.85 * told.measured.raw_mtbf.num_failures
    assert told.measured.mtbf_s == pytest.approx(43_200, rel=0.25)
    assert told.memorylessness.clusters is not None
    assert told.memorylessness.clusters.rejects
    assert told.level != "alarm"
