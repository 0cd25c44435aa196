"""What a plan says, against numbers worked out by hand from the closed form, and against the published ladder."""

from __future__ import annotations

import math

import pytest
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.plan import convenient
from tachograph_collector.model.plan.costs import completed, costs
from tachograph_collector.model.plan.inputs import Inputs, Saves, layered, number
from tachograph_collector.model.plan.plan import Plan, make_plan

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
EXAMPLE = {"nodes": "128", "blocking_save": "1 min", "snapshot": "3 s", "persist": "0.92 min", "price": "2.5"}


def inputs(*, saves: Saves = "asynchronous", **texts: str) -> Inputs:
    return layered({name: number(name, text) for name, text in texts.items()}, saves=saves)


def plan(*, saves: Saves = "asynchronous", num_runs: int = 0, **texts: str) -> Plan:
    return make_plan(inputs(saves=saves, **(EXAMPLE | texts)), num_runs=num_runs)


def closed_form(tau: float, cost: float, restart: float, mtbf: float) -> float:
    """Minutes; written out here, so that no function of the plan is tested by itself."""
    return tau / (math.exp(restart / mtbf) * mtbf * math.expm1((tau + cost) / mtbf))


# The answer


def test_the_example_is_told_to_save_every_8_minutes() -> None:
    advice = plan(step_time="6.5 s").advice
    assert advice.exact_s / 60 == pytest.approx(8.452, abs=5e-4)
    assert advice.interval_s == 8 * MINUTE
    assert advice.steps == 80
    assert advice.steps_s == 520
    assert advice.goodput == pytest.approx(closed_form(8, 0.05, 30.92, 720))
    assert advice.goodput_low == pytest.approx(closed_form(8, 0.05, 30.92, 360))
    assert advice.goodput_high == pytest.approx(closed_form(8, 0.05, 30.92, 3000))
    assert advice.persist_share == pytest.approx(0.92 / 8)


def test_blocking_saves_get_their_own_interval() -> None:
    made = plan(saves="blocking")
    assert made.advice.exact_s / 60 == pytest.approx(37.28, abs=5e-3)
    assert made.advice.interval_s == 35 * MINUTE
    assert made.advice.goodput == pytest.approx(closed_form(35, 1, 30, 720))
    assert made.other == plan().advice


def test_the_flat_top_reaches_from_half_to_double() -> None:
    advice = plan().advice
    assert advice.flat_s == pytest.approx((advice.exact_s / 2, advice.exact_s * 2))
    assert advice.goodput_best - min(advice.goodput_flat) < 0.004


def test_no_interval_is_advised_that_a_persist_does_not_fit_into() -> None:
    made = plan(persist="12.5 min", step_time="7 s")
    assert made.advice.exact_s == 12.5 * MINUTE
    assert made.advice.interval_s == 15 * MINUTE
    assert made.advice.steps is not None
    assert made.advice.steps * 7 >= 12.5 * MINUTE
    assert made.traffic.fits
    assert "persist" in {question.kind for question in made.questions}


def test_a_nodes_mtbf_is_divided_by_the_nodes_and_a_jobs_is_not() -> None:
    by_node = plan(node_mtbf="240..264..291 d")
    assert by_node.mtbfs_s == pytest.approx((45 * HOUR, 49.5 * HOUR, 54.5625 * HOUR))
    assert plan(job_mtbf="49.5 h").mtbfs_s[1] == 49.5 * HOUR


# The ladder

PUBLISHED = {
    "now": (70.4, 83.9, 95.5),
    "blocking": (85.3, 91.0, 96.5),
    "asynchronous": (90.2, 94.7, 98.4),
    "heartbeats": (92.7, 95.9, 98.7),
    "spares": (96.6, 97.9, 99.2),
}


def test_the_closed_form_ladder_is_the_published_one() -> None:
    made = plan()
    told = {step.rung.key: [cell.goodput * 100 for cell in step.cells] for step in made.ladder}
    assert list(told) == [*PUBLISHED, "charged"]
    for key, published in PUBLISHED.items():
        assert told[key] == pytest.approx(published, abs=0.06)
    assert told["charged"][1] == pytest.approx(96.4, abs=0.06)


def test_the_simulated_ladder_of_128_nodes_is_the_published_one() -> None:
    made = plan(num_runs=1000)
    for step in made.ladder:
        for cell, published in zip(step.cells, PUBLISHED.get(step.rung.key, ()), strict=False):
            assert cell.low is not None
            assert cell.high is not None
            standard_error = (cell.high - cell.low) / 3.92
            assert 0 < standard_error < 0.001
            assert abs(cell.goodput - published / 100) < 4 * standard_error + 0.0006
            assert abs(cell.goodput - cell.closed_form) < 4 * standard_error + 0.0003
            assert cell.seed == 1


def test_one_simulated_run_is_refused_since_it_has_no_interval() -> None:
    with pytest.raises(ModelError, match="runs is 1; expected at least 2"):
        plan(num_runs=1)


@pytest.mark.parametrize(
    "texts", [{"job_mtbf": "1 min"}, {"job_mtbf": "100 y"}, {"run_length": "20 y"}, {"persist": "7 d"}]
)
def test_extreme_designs_are_simulated_too(texts: dict[str, str]) -> None:
    made = plan(num_runs=20, **texts)
    assert all(0 <= cell.goodput <= 1 for step in made.ladder for cell in step.cells)


def test_four_charged_spares_leave_95_percent() -> None:
    charged = plan(spares="4").ladder[-1]
    assert charged.expected.goodput * 100 == pytest.approx(95.0, abs=0.06)
    assert charged.gpu_hours == -4 * 8 * 720
    assert charged.money == -4 * 8 * 720 * 2.5


def test_each_row_is_told_against_the_one_before() -> None:
    first, *rest = plan().ladder
    assert (first.points, first.gpu_hours, first.money) == (None, None, None)
    before = first
    for step in rest[:-1]:
        gained = step.expected.goodput - before.expected.goodput
        assert step.points == pytest.approx(gained * 100)
        assert step.gpu_hours == pytest.approx(gained * 1024 * 720)
        assert step.money == pytest.approx(gained * 1024 * 720 * 2.5)
        before = step


def test_money_is_unknown_without_a_price_and_spares_are_not_charged_without_any() -> None:
    made = make_plan(inputs(nodes="128", spares="0"), num_runs=0)
    assert [step.money for step in made.ladder] == [None] * 5
    assert made.ladder[-1].rung.key == "spares"


# What a save costs


def test_costs_follow_from_size_and_bandwidths() -> None:
    paid = costs(completed(inputs(nodes="128", checkpoint_size="1.28 TB", storage="20 GB/s", host_copy="5 GB/s")))
    assert paid.snapshot.value == pytest.approx(2)
    assert paid.persist.value == pytest.approx(64)
    assert paid.blocking.value == pytest.approx(66)
    assert paid.persist.derived_from == ("checkpoint_size", "storage")


def test_few_nodes_are_bound_by_what_each_can_write() -> None:
    paid = costs(completed(inputs(nodes="4", checkpoint_size="80 GB", storage="20 GB/s", node_write="2 GB/s")))
    assert paid.persist.value == pytest.approx(10)
    assert paid.persist.derived_from == ("checkpoint_size", "node_write")


def test_what_follows_from_a_guess_is_a_guess() -> None:
    numbers = {
        "nodes": number("nodes", "8"),
        "checkpoint_size": number("checkpoint_size", "1 TB", "measured"),
        "storage": number("storage", "20 GB/s", "spec sheet"),
    }
    paid = costs(completed(layered(numbers)))
    assert (paid.persist.mark, paid.snapshot.mark) == ("guess", "guess")  # node_write and host_copy are guessed
    numbers["node_write"] = number("node_write", "20 GB/s", "measured")
    assert costs(completed(layered(numbers))).persist.mark == "spec sheet"


@pytest.mark.parametrize(
    ("told", "blocking", "snapshot", "persist"),
    [
        ({}, 60, 3, 57),
        ({"blocking_save": "2 min"}, 120, 6, 114),
        ({"snapshot": "2 s", "persist": "58 s"}, 60, 2, 58),
        ({"blocking_save": "60 s", "persist": "50 s"}, 60, 10, 50),
        ({"blocking_save": "60 s", "persist": "70 s"}, 60, 3, 70),
        ({"blocking_save": "60 s", "snapshot": "4 s", "checkpoint_size": "1 PB"}, 60, 4, 56),
        ({"snapshot": "6 s"}, 120, 6, 114),
    ],
)
def test_two_of_the_three_costs_tell_the_third(
    told: dict[str, str], blocking: float, snapshot: float, persist: float
) -> None:
    paid = costs(completed(inputs(nodes="128", **told)))
    assert (paid.blocking.value, paid.snapshot.value, paid.persist.value) == pytest.approx(
        (blocking, snapshot, persist)
    )


# What matters, what it does to the storage


def test_the_number_that_moves_the_goodput_most_comes_first() -> None:
    swings = plan().swings
    assert swings[0].name == "job_mtbf"
    assert swings[0].points == pytest.approx(
        (closed_form(8, 0.05, 30.92, 3000) - closed_form(8, 0.05, 30.92, 360)) * 100
    )
    assert [swing.points for swing in swings] == sorted((swing.points for swing in swings), reverse=True)
    detect = next(swing for swing in swings if swing.name == "detect")
    assert (detect.low, detect.high) == (5 * MINUTE, 20 * MINUTE)
    assert detect.goodput_high == pytest.approx(closed_form(8, 0.05, 40.92, 720))


def test_a_number_that_is_known_well_matters_less() -> None:
    swings = {swing.name: swing.points for swing in plan(job_mtbf="11.9..12..12.1 h").swings}
    assert max(swings, key=lambda name: swings[name]) == "replace"


def test_storage_traffic_of_the_example() -> None:
    traffic = plan(checkpoint_size="1.104 TB").traffic
    assert traffic.saves_per_day == pytest.approx(86_400 / 483)
    assert traffic.average_bytes_per_s == pytest.approx(1.104e12 / 483)
    assert traffic.burst_bytes_per_s == pytest.approx(20e9)
    assert traffic.burst_per_node_bytes_per_s == pytest.approx(20e9 / 128)
    assert traffic.bytes_per_day == pytest.approx(1.104e12 * 86_400 / 483)
    assert traffic.retained == 20 + 28
    assert traffic.retained_bytes == pytest.approx(48 * 1.104e12)


def test_traffic_without_a_size_is_unknown_and_never_0() -> None:
    traffic = plan().traffic
    assert traffic.average_bytes_per_s is None
    assert traffic.retained_bytes is None


def test_the_sweep_peaks_at_the_best_interval() -> None:
    mine, other, low, high = plan().sweep
    best = max(range(len(mine.goodputs)), key=lambda i: mine.goodputs[i])
    assert mine.intervals_s[best] == pytest.approx(plan().advice.exact_s, rel=0.08)
    assert (mine.saves, other.saves) == ("asynchronous", "blocking")
    assert (low.mtbf_s, high.mtbf_s) == (6 * HOUR, 50 * HOUR)


# What looks odd


def kinds(**texts: str) -> list[str]:
    return [question.kind for question in plan(**texts).questions]


@pytest.mark.parametrize(
    ("texts", "odd"),
    [
        ({"job_mtbf": "264 d"}, True),
        ({"job_mtbf": "5 d"}, True),
        ({"job_mtbf": "49.5 h"}, False),
        ({"job_mtbf": "3 h"}, False),
        ({"job_mtbf": "1 h"}, True),
        ({"job_mtbf": "264 d", "nodes": "1"}, False),
        ({"node_mtbf": "264 d"}, False),
        ({"node_mtbf": "49.5 h"}, True),
        ({"node_mtbf": "12 h"}, True),
        ({"node_mtbf": "20 y"}, True),
    ],
)
def test_an_mtbf_that_looks_like_the_other_kind_is_questioned(texts: dict[str, str], odd: bool) -> None:
    assert ("mtbf" in kinds(**texts)) is odd


def test_the_question_says_what_the_other_reading_would_be() -> None:
    (question,) = (each for each in plan(job_mtbf="264 d").questions if each.kind == "mtbf")
    assert "is it a node's?" in question.sentence
    assert "49.5 h" in question.sentence


def test_an_interval_beyond_the_jobs_mtbf_is_told_with_what_it_costs() -> None:
    (question,) = (each for each in plan(interval_now="14.5 h").questions if each.kind == "interval")
    assert "49.3 %" in question.sentence


def test_restarts_that_dominate_are_told() -> None:
    (question,) = (each for each in plan(replace="8 h").questions if each.kind == "restart")
    assert "no interval will help" in question.sentence


def test_a_snapshot_that_blocks_as_long_as_a_save_is_told() -> None:
    assert "save" in kinds(snapshot="2 min")


def test_a_size_that_contradicts_what_was_measured_is_told() -> None:
    assert "bandwidth" in kinds(checkpoint_size="20 TB", storage="20 GB/s")
    assert "bandwidth" not in kinds(checkpoint_size="1.1 TB", storage="20 GB/s")
    assert "bandwidth" not in kinds(checkpoint_size="20 TB")


# Convenient numbers


@pytest.mark.parametrize(
    ("exact", "convenient_s"), [(8.45 * 60, 480), (37.3 * 60, 2100), (0.4, 0.4), (52, 60), (76.8 * 60, 4500)]
)
def test_intervals_are_rounded_to_what_one_can_remember(exact: float, convenient_s: float) -> None:
    assert convenient.interval_s(exact) == convenient_s


def test_a_convenient_interval_is_never_under_the_least() -> None:
    assert convenient.interval_s(8.45 * 60, 8.3 * 60) == 10 * MINUTE
    assert convenient.num_steps(503, 1, 502) == 600


@pytest.mark.parametrize(
    ("exact", "step", "steps"), [(507, 6.5, 80), (10, 60, 1), (1130, 1, 1200), (36_000, 0.25, 150_000)]
)
def test_steps_are_rounded_likewise(exact: float, step: float, steps: int) -> None:
    assert convenient.num_steps(exact, step) == steps


def test_at_rounded_intervals_hardly_anything_is_lost() -> None:
    for exact in (7, 33, 100, 411, 1313, 5000, 22_222, 100_000):
        assert convenient.interval_s(exact) / exact == pytest.approx(1, abs=0.3)
