"""The series of runs: what they say, how few they are, and that Prometheus' own tool has nothing against them."""

from __future__ import annotations

from typing import Any

import numpy as np
import promtool
import pytest
from msgspec.structs import replace as changed
from tachograph_collector.ledger.books import SUB_ACCOUNTS, Books, GpuHours
from tachograph_collector.service.figures import written
from tachograph_collector.service.run_figures import (
    Busy,
    Forecast,
    Newest,
    RunFigures,
    Straggler,
    Window,
    busy_of,
    newest_of,
)
from tachograph_collector.service.run_metrics import MAX_CAUSES
from tachograph_collector.store.folded import Booked
from tachograph_collector.store.folded_reader import FoldedKey
from tachograph_collector.store.keys import RunKey

S = 1_000_000
BOOKS = Books(
    run="llama-1",
    status="running",
    start_us=0,
    end_us=1000 * S,
    spans=[],
    wall_us=1000 * S,
    accounts_us={"kept": 800 * S, "checkpoint": 50 * S, "lost": 100 * S, "restart": 50 * S},
    subs_us={f"{account}/{sub}": 0 for account, subs in SUB_ACCOUNTS.items() for sub in subs} | {"kept/train": 800 * S},
    lost_by_cause_us={"hardware": 90 * S, "unknown": 10 * S},
    at_risk_us=40 * S,
    num_attempts=3,
    num_failures=2,
    num_planned_stops=0,
    num_unexplained_stops=0,
    num_rollbacks=1,
    steps=77,
    num_minutes={"kept": 14, "checkpoint": 0, "lost": 2, "restart": 1},
    gpu=GpuHours(held=8000 * S, kept=6400 * S, checkpoint=400 * S, lost=800 * S, restart=400 * S, idle=0),
    price_per_gpu_hour=None,
    origin=None,
    checkpoints_seen=True,
    planned_mtbf_s=None,
    planned_interval_s=None,
    world_size=16_384,
)
LARGE = RunFigures(
    key=FoldedKey(RunKey(1, 7), 1),
    books=BOOKS,
    version=3,
    windows={"1h": Window(600 * S, 300 * S), "24h": Window(1000 * S, 800 * S)},
    booked=Booked(17, 2, (850 * S, 50 * S, 50 * S, 50 * S), lost_later_us=50 * S),
    booked_until_us=960 * S,
    last_received_us=1001 * S,
    delay_us=2 * S,
    nodes={"alive": 2040, "suspect": 5, "dead": 3},
    open_incidents={"warning": 2},
    busy=Busy([Straggler(11_017, 4.5), Straggler(3, 4.2)], 3.9),
    newest=Newest(loss=2.5, grad_norm=0.3, step_s=4.0, tokens_per_s=1e6),
    forecast=Forecast(
        interval_s=600.0,
        mtbf_s=(20_000.0, 12_000.0, 50_000.0),
        best_s=(900.0, 700.0, 1500.0),
        in_use_goodput=(0.9, 0.85, 0.93),
        best_goodput=(0.91, 0.86, 0.94),
    ),
)


def told(figures: RunFigures, name: str, **labels: str) -> float | None:
    return promtool.value(written([figures]), f"tachograph_run_{name}", run=figures.books.run, **labels)


def with_books(**values: Any) -> RunFigures:
    return RunFigures(LARGE.key, changed(BOOKS, **values), 1, {}, Booked())


def test_promtool_has_nothing_against_them() -> None:
    assert promtool.complaints(written([LARGE, with_books(run="other")])) == ""


def test_a_run_of_sixteen_thousand_ranks_has_few_series() -> None:
    assert len(promtool.samples(written([LARGE]))) < 120


def test_goodput_has_bounds_and_windows() -> None:
    assert told(LARGE, "goodput_ratio", window="total", bound="upper") == 0.8
    assert told(LARGE, "goodput_ratio", window="total", bound="lower") == 0.76
    assert told(LARGE, "goodput_ratio", window="1h", bound="upper") == 0.5
    assert told(LARGE, "goodput_ratio", window="1h", bound="lower") == pytest.approx(260 / 600)
    assert told(LARGE, "goodput_ratio", window="24h", bound="upper") == 0.8


def test_accounts_sum_to_the_wall_clock() -> None:
    accounts = [told(LARGE, "account_seconds", account=name) for name in ("kept", "checkpoint", "lost", "restart")]
    assert sum(value or 0 for value in accounts) == told(LARGE, "wall_seconds") == 1000
    assert told(LARGE, "sub_account_seconds", account="kept", sub="train") == 800


def test_what_is_unknown_has_no_sample_rather_than_zero() -> None:
    unseen = with_books(at_risk_us=None, gpu=None, world_size=None)
    for name in ("at_risk_seconds", "world_size", "checkpoint_interval_seconds", "rank_busy_seconds", "delay_seconds"):
        assert told(unseen, name) is None
    assert told(unseen, "goodput_ratio", window="total", bound="lower") is None
    assert told(unseen, "goodput_ratio", window="total", bound="upper") == 0.8
    assert b"tachograph_run_gpu_seconds{" not in written([unseen])
    assert b"nan" not in written([unseen]).lower()


def test_stragglers_have_a_position_and_the_rank_as_value() -> None:
    assert told(LARGE, "straggler_rank", position="1") == 11_017
    assert told(LARGE, "straggler_busy_seconds", position="1") == 4.5
    assert told(LARGE, "straggler_rank", position="2") == 3
    assert told(LARGE, "rank_busy_seconds") == 3.9


def test_the_model_is_told_with_its_bounds() -> None:
    assert told(LARGE, "checkpoint_interval_seconds") == 600
    assert told(LARGE, "checkpoint_interval_optimum_seconds", bound="expected") == 900
    assert told(LARGE, "checkpoint_interval_optimum_seconds", bound="upper") == 1500
    assert told(LARGE, "predicted_goodput_ratio", interval="in_use", bound="lower") == 0.85
    assert told(LARGE, "predicted_goodput_ratio", interval="optimum", bound="expected") == 0.91


def test_counters_tell_what_was_first_booked_and_lost_work_apart() -> None:
    assert told(LARGE, "booked_seconds_total", account="kept") == 850
    assert told(LARGE, "booked_seconds_total", account="lost") == 50
    assert told(LARGE, "lost_work_seconds_total") == 100
    assert told(LARGE, "bookings_total") == 17
    assert told(LARGE, "restatements_total") == 2


def test_causes_are_bounded_and_none_is_dropped() -> None:
    many = with_books(lost_by_cause_us={f"cause-{number:03}": (number + 1) * S for number in range(100)})
    found = {
        dict(labels)["cause"]: value
        for (name, labels), value in promtool.samples(written([many])).items()
        if name == "tachograph_run_lost_by_cause_seconds"
    }
    assert len(found) == MAX_CAUSES + 1
    assert sum(found.values()) == sum(range(1, 101))
    assert found["cause-099"] == 100


@pytest.mark.parametrize("name", ['a"b\\c', "line\nbreak", "<script>", "größe-日本", 'x{run="y"} 1\n'])
def test_any_name_of_a_run_stays_inside_its_label(name: str) -> None:
    text = written([with_books(run=name)])
    assert promtool.complaints(text) == ""
    plain = len(promtool.samples(written([with_books(run="plain")])))
    assert len(promtool.samples(text)) == plain


def test_the_median_over_a_rank_s_steps_decides_not_one_slow_step() -> None:
    rank = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    busy_s = np.array([1.0, 9.0, 1.1, 1.2, 1.3, 1.25, 1.0, 2.0])
    found = busy_of(rank, busy_s)
    assert [(one.rank, one.busy_s) for one in found.slowest] == [(2, 1.5), (1, 1.25), (0, 1.1)]
    assert found.median_s == 1.25


def test_training_is_told_as_its_newest_steps_tell_it() -> None:
    assert told(LARGE, "loss") == 2.5
    assert told(LARGE, "grad_norm") == 0.3
    assert told(LARGE, "step_seconds") == 4.0
    assert told(LARGE, "tokens_per_second") == 1e6
    assert told(with_books(), "loss") is None


def test_loss_is_that_of_the_last_step_that_tells_one_and_tokens_are_those_of_all_ranks() -> None:
    nan = float("nan")
    step = np.array([7, 7, 8, 8, 9, 9])
    step_s = np.array([2.0, 2.0, 2.0, 2.0, 2.0, 8.0])
    loss = np.array([3.0, nan, 2.0, 4.0, nan, nan])
    tokens = np.array([100.0, 100.0, 100.0, 100.0, 100.0, 100.0])
    found = newest_of(step, step_s, loss, np.full(6, nan), tokens)
    assert found == Newest(loss=3.0, grad_norm=None, step_s=2.0, tokens_per_s=100.0)


def test_what_no_step_tells_is_unknown() -> None:
    nothing = np.array([np.nan])
    assert newest_of(np.array([1]), nothing, nothing, nothing, nothing) == Newest()


def test_without_any_step_there_is_no_straggler() -> None:
    assert busy_of(np.array([], dtype=np.int64), np.array([])) == Busy()
