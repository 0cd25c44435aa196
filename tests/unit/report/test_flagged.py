"""Incidents in the reports: the order, the words, and that what a log says of itself stays text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stored_incidents import SECOND, incident
from stored_runs import booked
from tachograph_agent.events import RunEnd, RunStart, Step
from tachograph_collector.detect import Cost, Evidence, Incident
from tachograph_collector.report.flagged import by_weight, cost_words, evidence_words
from tachograph_collector.report.html import render_html
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import RunReport

START = 1_772_323_200.0


def report(*found: Incident) -> RunReport:
    """A run of an hour in which so much was flagged."""
    events = [RunStart(t=START, run="r", world_size=4)]
    steps = [Step(t=START + 60 * n, run="r", attempt=0, node="n0", rank=0, step=n, dur=60.0) for n in range(1, 61)]
    (one,) = booked([*events, *steps, RunEnd(t=START + 3601, run="r", status="completed")])
    return replace(one.report, incidents=found)


def at(minute: int, **more: object) -> Incident:
    return incident(subject=f"rank {minute}", opened_us=int(START + 60 * minute) * SECOND, **more)


def test_what_is_open_comes_first_and_the_gravest_of_it() -> None:
    over = at(1, severity="critical", cleared_us=int(START + 90) * SECOND)
    found = [over, at(2, severity="info"), at(4, severity="warning"), at(3, severity="warning")]
    assert [one.subject for one in by_weight(found)] == ["rank 3", "rank 4", "rank 2", "rank 1"]


def test_what_began_at_the_same_moment_is_told_in_one_order_whoever_tells_it() -> None:
    found = [at(1, detector="hang"), at(1, detector="node_health"), at(1, detector="failure")]
    assert by_weight(found) == by_weight(reversed(found))
    assert [one.detector for one in by_weight(found)] == ["failure", "hang", "node_health"]


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (None, None),
        (Cost(), None),
        (Cost(basis="x"), None),
        (Cost(wall_s=720.0, gpu_hours=48.0, money=9.0, basis="slow"), "12 min, 48.0 GPU-hours, 9.00 of money (slow)"),
        (Cost(gpu_hours=0.5), "0.5 GPU-hours"),
    ],
)  # fmt: skip
def test_a_cost_is_said_as_far_as_it_is_known(cost: Cost | None, words: str | None) -> None:
    assert cost_words(cost) == words


def test_evidence_is_said_as_far_as_it_is_known() -> None:
    evidence = Evidence(
        value=1.25, num_samples=50, unit="s", more={"first_step": 7245, "ranks": list(range(12)), "a": None}
    )
    assert evidence_words(evidence) == [
        ("value", "1.25 s"),
        ("samples", "50"),
        ("first step", "7245"),
        ("ranks", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"),
    ]  # fmt: skip


def test_the_page_shows_what_was_flagged_and_marks_it_on_the_minutes() -> None:
    cause = at(10, severity="critical")
    page = render_html([report(cause, at(20, consequence_of=cause.incident_id, is_replayed=True))])
    assert "2 incidents" in page
    assert "drain node n3" in page
    assert "2 min, 0.5 GPU-hours, 1.25 of money (steps slower by 20 %)" in page
    assert "It follows from: rank 10 is 20 % slower than the others." in page
    assert "A triangle marks the beginning of an incident." in page
    calm = render_html([report()])
    assert "incident" not in calm.partition("</style>")[2]


def test_a_hostile_name_stays_text_on_the_page() -> None:
    name = "<script>alert(1)</script>\u202e\x1b[31m"
    words = {"summary": name, "advice": name, "node": name, "outcome": name, "cleared_us": int(START + 900) * SECOND}
    evidence = Evidence(unit=name, value=1.0, more={name: name})
    hostile = incident(
        name, name, name, opened_us=int(START) * SECOND, **words, evidence=evidence, cost=Cost(wall_s=1.0, basis=name)
    )
    page = render_html([report(hostile)])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not {"\u202e", "\x1b"} & set(page)


def test_a_page_of_many_incidents_stays_small_and_says_what_it_leaves_out() -> None:
    page = render_html([report(*(at(minute % 60, incident_id=f"{minute}") for minute in range(1000)))])
    assert "and 900 more: --incidents FILE has them all" in page
    assert len(page) < 1_000_000


def test_json_has_incidents_only_where_they_were_looked_for() -> None:
    assert [one["subject"] for one in run_object(report(at(3)))["incidents"]] == ["rank 3"]
    assert run_object(report())["incidents"] == []
    assert "incidents" not in run_object(replace(report(), incidents=None))


def test_of_more_numbers_than_are_shown_it_is_said_how_many_there_are() -> None:
    words = evidence_words(Evidence(more={f"n{number}": number for number in range(20)}))
    assert len(words) == 13
    assert words[-1] == ("and", "8 more, which the JSON has")


def test_evidence_of_when_is_read_as_a_time() -> None:
    told = evidence_words(Evidence(more={"told_at": START + 1.5, "ended_at": None, "begun_at": "noon", "flat": START}))
    assert told == [("told at", "2026-03-01 00:00:01 UTC"), ("begun at", "noon"), ("flat", "1.772e+09")]
