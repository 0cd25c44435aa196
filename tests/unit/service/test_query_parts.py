"""What the query routes are made of: rows brought up to date, coarser minutes, thinned-out steps, and the examples."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tachograph_collector.ledger.books import ACCOUNTS, Segment
from tachograph_collector.report.model import Window
from tachograph_collector.service import (
    examples,
    fleet_shapes,
    incident_examples,
    incident_shapes,
    row_shapes,
    summary_shapes,
)
from tachograph_collector.service.downsample import METRICS, Buckets
from tachograph_collector.service.formats import json_rows
from tachograph_collector.service.problems import Problem
from tachograph_collector.service.run_tables import coarser
from tachograph_collector.service.times import time_us, window_of
from tachograph_collector.store.folded_cache import merged_segments
from tachograph_collector.store.folded_reader import Minutes
from tachograph_collector.store.packing import StepColumns

MINUTE = 60_000_000


def minutes_of(starts: Sequence[int], amount: int) -> Minutes:
    num = len(starts)
    amounts = np.zeros((4, num), dtype=np.int64)
    amounts[0] = amount
    return Minutes(
        np.array(starts, dtype=np.int64) * MINUTE,
        amounts,
        np.zeros(num, dtype=np.int64),
        np.ones(num, dtype=np.int64),
        np.zeros(num, dtype=np.bool_),
        np.zeros(num, dtype=np.int64),
        amounts.copy(),
    )


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_changed_minutes_take_the_place_of_those_before(old: set[int], new: set[int]) -> None:
    merged = minutes_of(sorted(old), 1).with_changed(minutes_of(sorted(new), 2))
    assert merged.start_us.tolist() == [start * MINUTE for start in sorted(old | new)]
    assert merged.amounts_us[0].tolist() == [2 if start in new else 1 for start in sorted(old | new)]


def strip(edges: Sequence[int]) -> list[Segment]:
    return [Segment(a, b, "kept", "train", 0) for a, b in pairwise(edges)]


@given(st.sets(st.integers(0, 40), min_size=2), st.sets(st.integers(0, 40), min_size=2))
def test_segments_that_changed_give_the_strip_as_it_is_now(before: set[int], now: set[int]) -> None:
    old, whole = strip(sorted(before)), strip(sorted(now))
    known = {(each.start_us, each.end_us) for each in old}
    changed = [each for each in whole if (each.start_us, each.end_us) not in known]
    merged = merged_segments(old, changed)
    assert [each for each in merged if each.end_us > min(now) and each.start_us < max(now)] == whole
    assert all(a.end_us <= b.start_us for a, b in pairwise(merged))


def test_coarser_minutes_take_the_label_of_most_and_lost_at_a_tie() -> None:
    minutes = minutes_of([0, 1, 5, 6, 7], 30)
    minutes.amounts_us[2] = [30, 30, 10, 0, 0]
    found = coarser(minutes, 5 * MINUTE)
    assert found.start_us.tolist() == [0, 5 * MINUTE]
    assert found.amounts_us.tolist() == [[60, 90], [0, 0], [60, 10], [0, 0]]
    assert [ACCOUNTS[label] for label in found.label] == ["lost", "kept"]
    assert len(coarser(minutes_of([], 0), 5 * MINUTE)) == 0


def piece(rows: Sequence[tuple[int, int, float]]) -> StepColumns:
    """Steps of (time, rank, seconds)."""
    num = len(rows)
    unknown = np.full(num, np.nan)
    return StepColumns(
        t_us=np.array([row[0] for row in rows], dtype=np.int64),
        step=np.arange(num),
        count=np.ones(num, dtype=np.int64),
        rank=np.array([row[1] for row in rows], dtype=np.int64),
        stage=np.full(num, -1),
        dur_s=np.array([row[2] for row in rows], dtype=np.float64),
        busy_s=unknown,
        wait_s=unknown,
        loss=unknown,
        grad_norm=unknown,
        tokens=unknown,
    )


def test_thinning_out_is_that_of_all_records_at_once() -> None:
    chance = random.Random(5)
    rows = [(chance.randrange(-50, 1050), chance.randrange(4), chance.random() * 10) for _ in range(3000)]
    buckets = Buckets(0, 1000, 7, [2, 0, 2], ["step_s"])
    buckets.add_all(piece(rows[place : place + 100]) for place in range(0, 3000, 100))
    found = json_rows(buckets.table())
    assert len(found) == 14
    for row in found:
        inside = [
            dur for t, rank, dur in rows if rank == row.rank and 0 <= t < 1000 and int(t / (1000 / 7)) == _at(row)
        ]
        assert row.records == len(inside)
        assert row.step_s_min == min(inside)
        assert row.step_s_max == max(inside)
        assert row.step_s_mean == pytest.approx(sum(inside) / len(inside))
    assert buckets.num_records == sum(row.records for row in found)


def _at(row: object) -> int:
    """Which of the seven stretches a row is."""
    return round(row.start * 1e6 / (1000 / 7))  # type: ignore[attr-defined]  # put there by its maker


def test_metrics_that_nobody_told_are_unknown() -> None:
    buckets = Buckets(0, 10, 1, None)
    buckets.add_all([piece([(5, -1, float("inf"))])])
    (row,) = json_rows(buckets.table())
    assert row.rank is None
    for name in METRICS:
        assert np.isnan(getattr(row, f"{name}_mean"))
    assert json_rows(Buckets(0, 10, 1, None).table()) == []


def test_times_are_unix_seconds_or_iso() -> None:
    us = 1_772_323_200_500_000
    for text in (
        "1772323200.5",
        "2026-03-01T00:00:00.5Z",
        "2026-03-01T01:00:00.5+01:00",
        "2026-03-01T01:00:00.5 01:00",
    ):
        assert time_us(text, "since") == us
    assert time_us("2026-03-01", "since") == us - 500_000
    assert time_us("-1.25", "since") == -1_250_000
    for text in ("", "now", "1e9", "10000-01-01", "2026-02-30", "0x10", "nan", "253402300800", "٣"):
        with pytest.raises(Problem, match="ISO 8601"):
            time_us(text, "since")


def test_a_window_that_ends_before_it_begins_is_told() -> None:
    assert window_of("10", None) == Window(10_000_000, None)
    for since, until in (("10", "9"), ("10", "10")):
        with pytest.raises(Problem, match="before it has begun"):
            window_of(since, until)


def test_every_example_has_its_shape() -> None:
    for shape, example in (
        (summary_shapes.RunList, examples.RUN_LIST),
        (summary_shapes.Summary, examples.SUMMARY),
        (summary_shapes.ModelAnswer, examples.MODEL_ANSWER),
        (summary_shapes.Gate, examples.GATE),
        (summary_shapes.GateClosed, examples.GATE_CLOSED),
        (row_shapes.Minutes, examples.MINUTES),
        (row_shapes.Revisions, examples.REVISIONS),
        (row_shapes.Attempts, examples.ATTEMPTS),
        (row_shapes.Restarts, examples.RESTARTS),
        (row_shapes.Checkpoints, examples.CHECKPOINTS),
        (row_shapes.Segments, examples.SEGMENTS),
        (incident_shapes.Incidents, incident_examples.INCIDENTS),
        (incident_shapes.RunIncidents, incident_examples.RUN_INCIDENTS),
        (incident_shapes.OneIncident, incident_examples.ONE_INCIDENT),
        (incident_shapes.SilenceShape, incident_examples.SILENCE),
        (incident_shapes.Silences, incident_examples.SILENCES),
        (incident_shapes.Sights, incident_examples.SIGHTS),
        (incident_shapes.SentNote, incident_examples.SENT_NOTE),
        (incident_shapes.SentAcknowledgement, incident_examples.SENT_ACKNOWLEDGEMENT),
        (incident_shapes.SentSilence, incident_examples.SENT_SILENCE),
        (row_shapes.Nodes, examples.NODES),
        (row_shapes.Steps, examples.STEPS),
        (fleet_shapes.Fleet, examples.FLEET),
    ):
        shape.model_validate(example, strict=True)
