"""Incidents against labels: what is a hit, a miss, a false alarm, and how long finding it took."""

from __future__ import annotations

from tachograph_collector.detect.scoring import Expected, Scoreboard, score
from tachograph_collector.detect.verdict import Evidence, Incident

SECOND = 1_000_000


def incident(detector: str, subject: str, found_s: float) -> Incident:
    return Incident(
        incident_id=f"{detector}/{subject}/{found_s}",
        run="r",
        detector=detector,
        subject=subject,
        severity="warning",
        opened_us=round(found_s * SECOND) - SECOND,
        found_us=round(found_s * SECOND),
        updated_us=round(found_s * SECOND),
        summary="",
        evidence=Evidence(),
    )


def slow_rank(**more: object) -> Expected:
    fields: dict = {"detectors": ("straggler",), "subjects": ("rank 3",), "since_us": 100 * SECOND} | more
    return Expected(**fields)


def test_what_is_said_of_the_right_one_in_time_is_a_hit_with_its_delay() -> None:
    one = score([incident("straggler", "rank 3", 160)], [slow_rank()])
    assert (len(one.hits), one.missed, one.false, one.again) == (1, [], [], [])
    assert one.hits[0].delay_us == 60 * SECOND


def test_another_subject_another_detector_too_early_or_too_late_are_false_and_the_label_is_missed() -> None:
    for wrong in (
        incident("straggler", "rank 4", 160),
        incident("loss_spike", "rank 3", 160),
        incident("straggler", "rank 3", 99),
        incident("straggler", "rank 3", 201),
    ):
        one = score([wrong], [slow_rank(until_us=200 * SECOND)])
        assert (one.hits, len(one.missed), one.false) == ([], 1, [wrong])


def test_what_is_said_twice_is_false_the_second_time() -> None:
    one = score([incident("straggler", "rank 3", 300), incident("straggler", "rank 3", 160)], [slow_rank()])
    assert [hit.incident.found_us for hit in one.hits] == [160 * SECOND]
    assert [each.found_us for each in one.again] == [300 * SECOND]


def test_two_things_of_a_kind_are_two_hits() -> None:
    labels = [slow_rank(), slow_rank(since_us=200 * SECOND)]
    one = score([incident("straggler", "rank 3", 160), incident("straggler", "rank 3", 260)], labels)
    assert sorted(hit.delay_us for hit in one.hits) == [60 * SECOND, 60 * SECOND]


def test_what_follows_lawfully_is_neither_a_hit_nor_false_but_only_after_it_began() -> None:
    label = slow_rank(also=("job_slow", "straggler/rank 4"))
    follows = [incident("job_slow", "run", 150), incident("straggler", "rank 4", 150)]
    assert score(follows, [label]).false == []
    early = incident("job_slow", "run", 50)
    assert score([early], [label]).false == [early]


def test_a_scoreboard_adds_up_by_the_first_detector_of_a_label() -> None:
    board = Scoreboard(settle_s=5.0)
    label = slow_rank(detectors=("straggler", "straggler_group"))
    ends_us = [second * SECOND for second in range(0, 400, 10)]
    board.add(score([incident("straggler_group", "rank 3", 160)], [label]), ends_us)
    board.add(score([incident("straggler", "rank 9", 160)], [label]), ends_us)
    tally = board.tallies["straggler"]
    assert (tally.num_expected, tally.num_hits, tally.num_false) == (2, 1, 1)
    assert (tally.recall, tally.precision) == (0.5, 0.5)
    assert (tally.delay_s(0.5), tally.delay_steps(0.95)) == (65.0, 6)


def test_where_nothing_was_said_or_wrong_there_is_no_share_and_no_delay() -> None:
    board = Scoreboard()
    board.add(score([], [slow_rank()]))
    tally = board.tallies["straggler"]
    assert (tally.recall, tally.precision, tally.delay_s(0.5), tally.delay_steps(0.5)) == (0.0, None, None, None)
